"""Which code an answer gives, and whether it is whole."""

import time

import pytest

from proctor.benchmarks.humaneval.extraction import Code, extract

BODY = "    return 1\n"
WHOLE = "def f(x):\n    return 1\n"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (BODY, Code(BODY, False)),
        (WHOLE, Code(WHOLE, True)),
        (f"Here:\n```python\n{WHOLE}```\nDone.", Code(WHOLE, True)),
        (f"```\n{BODY}```", Code(BODY, False)),
        (f"  ```py\n{WHOLE}  ```", Code(WHOLE, True)),
        (f"```python\n{WHOLE}", Code(WHOLE, True)),
        (f"```\nfirst = 1\n```\nand\n```\n{WHOLE}```\n", Code(WHOLE, True)),
        (f"```\n{WHOLE}```\n```\ndef f(y):\n    pass\n```", Code(WHOLE, True)),
        ("```\nx = 1\n```\n```\ny = 2\n```", Code("x = 1\n", False)),
        ("f = lambda x: 1", Code("f = lambda x: 1", True)),
        ("async def f(x):\n  pass", Code("async def f(x):\n  pass", True)),
        ("    def f(x):\n        return 2\n    return f(x)\n",
         Code("    def f(x):\n        return 2\n    return f(x)\n", False)),
        ("def ff(x): pass", Code("def ff(x): pass", False)),
        ("```\n```", Code("", False)),
        ("``` `inline` ```", Code("``` `inline` ```", False)),
        ("", Code("", False)),
    ],
)  # fmt: skip
def test_the_code_of_an_answer(answer, expected):
    assert extract(answer, "f") == expected


@pytest.mark.parametrize(
    "hostile",
    [
        "```\n" * 100_000,
        "`" * 500_000,
        "\n" * 500_000,
        "def f" * 100_000,
        " \t" * 250_000,
        "```x\n" + " " * 499_000,
    ],
)
def test_hostile_texts_take_linear_time(hostile):
    began = time.process_time()
    extract(hostile, "f")
    assert time.process_time() - began < 2
