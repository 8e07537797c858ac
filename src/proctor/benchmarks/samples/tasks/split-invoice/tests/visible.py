import unittest

from invoice import render


class RenderTest(unittest.TestCase):
    def test_one_line(self):
        order = {"customer": "Ada", "lines": [{"name": "tea", "count": 2, "cents": 350}]}
        self.assertEqual(render(order), "Invoice for Ada\n  2 x tea: 7.00\n  tax: 1.33\nTotal: 8.33\n")

    def test_no_line(self):
        self.assertEqual(
            render({"customer": "Bo", "lines": []}), "Invoice for Bo\n  tax: 0.00\nTotal: 0.00\n"
        )
