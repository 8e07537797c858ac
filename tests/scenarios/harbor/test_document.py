"""The example of docs/harbor.md does what the page says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from proctor.benchmarks.harbor.benchmark import HarborOptions

PAGE = (Path(__file__).parents[3] / "docs" / "harbor.md").read_text(encoding="utf-8")


def test_the_task_in_a_minute_scores_1_and_0(tmp_path):
    (block,) = (b for b in re.findall(r"```sh\n(.*?)```", PAGE, re.S) if "mkdir" in b)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    scores = {}
    for path in tmp_path.glob("results/harbor/*/none/*/details/*/*/attempt-1/result.json"):
        scores[path.parts[-8]] = json.loads(path.read_text())["metrics"]["passed"]
    assert scores == {"oracle": True, "nop": False}


def test_the_options_are_the_documented_ones():
    section = PAGE.split("## Options")[1].split("##")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]+)`? \|", section, re.M))
    defaults = {name: json.dumps(value) for name, value in HarborOptions().model_dump().items()}
    assert {name: value.strip() for name, value in rows.items()} == defaults


def test_every_reason_for_no_verdict_is_documented():
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in (Path(__file__).parents[3] / "src/proctor/benchmarks/harbor").glob("*.py")
    )
    codes = set(re.findall(r'"((?:reward|verifier)_(?!file)[a-z_]+)"', source))
    assert codes >= {"reward_missing", "verifier_timeout"}
    documented = set(re.findall(r"^\| `((?:reward|verifier)_[a-z_]+)`", PAGE, re.M))
    assert codes == documented
