"""The example of docs/journal.md runs and does what it says."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[4] / "docs" / "journal.md"


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first, second = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.S | re.M)
    exec(compile(first, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == "Appended(version=2)\n"
    assert [path.name for path in tmp_path.iterdir()] == ["journal.sqlite"]
    names = {}
    exec(compile(second, str(PAGE), "exec"), names)
    assert names["upgrades"].apply("noted", 1, {"a": 1}) == (2, {"a": 1, "tags": []})
