"""What the documentation shows runs."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_example_of_the_documentation_runs(tmp_path):
    page = (ROOT / "docs" / "agent.md").read_text("utf-8")
    (example,) = re.findall(r"^```python\n(import .*?)^```", page, re.S | re.M)
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "journal.sqlite").exists()
