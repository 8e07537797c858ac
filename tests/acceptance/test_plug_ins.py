"""B52: plug-ins of another distribution, optional parts that are missing, and broken ones."""

import os
import stat
from pathlib import Path

import pytest
from tests.acceptance.command import proctor, runs_in, table

GOOD = """
import another_package_that_is_there_only_for_good_plug_ins as _there
from proctor import Harness, HarnessSession, RunResult
class Good(Harness):
    \"\"\"Answers what it was asked.\"\"\"
    id = "good"
    async def start(self, session, task, context):
        return Answer(task.input)
class Answer(HarnessSession):
    def __init__(self, text):
        self.text = text
    async def run(self):
        return RunResult(final_answer=self.text)
"""
SANDBOX = """
from proctor.environments.local import LocalEnvironment
class Sandbox(LocalEnvironment):
    \"\"\"A sandbox that needs a program.\"\"\"
    id = "sandbox"
    def requirements(self):
        return ["the program sandboxd is not installed: apt-get install sandboxd"]
"""
MODULES = {
    "another_package_that_is_there_only_for_good_plug_ins.py": "",
    "acme_good.py": GOOD,
    "acme_sandbox.py": SANDBOX,
    "acme_cloud.py": "import acme_cloud_client\n",
    "acme_raises.py": "raise RuntimeError('half an upgrade')\n",
    "acme_exits.py": "import sys\nprint('noise at import')\nsys.exit(0)\n",
    "acme_shadow.py": "class Nop:\n    id = 'nop'\n",
}
ENTRY_POINTS = """
[proctor.harnesses]
good = acme_good:Good
raises = acme_raises:Agent
exits = acme_exits:Agent
gone = acme_nowhere:Agent
nothing = acme_good:Missing
nop = acme_shadow:Nop

[proctor.environments]
sandbox = acme_sandbox:Sandbox
cloud = acme_cloud:Cloud [cloud]
"""


@pytest.fixture
def site(tmp_path) -> Path:
    """A folder with an installed distribution, as pip would have left it."""
    folder = tmp_path / "site"
    info = folder / "acme_proctor-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-proctor\nVersion: 1.0\nProvides-Extra: cloud\n"
    )
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (info / "RECORD").write_text("")
    for name, text in MODULES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def variables(site, tmp_path) -> dict[str, str]:
    """Variables with the distribution on the path, and a home that cannot be written."""
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(stat.S_IRUSR | stat.S_IXUSR)
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    # For root, whom no permission stops, the home is a path below a file.
    (tmp_path / "file").write_text("")
    return {"PYTHONPATH": path, "HOME": str(tmp_path / "file" / "home")}


def listed(kind: str, tmp_path: Path, variables: dict[str, str]) -> dict[str, dict]:
    done = proctor("list", kind, "--json", cwd=tmp_path, **variables)
    assert done.code == 0, done.err
    return {c["id"]: c for c in done.document["components"]}


def test_the_list_shows_what_is_there_missing_and_broken(tmp_path, variables):
    harnesses = listed("harnesses", tmp_path, variables)
    assert {name: harnesses[name]["status"] for name in harnesses} == {
        "command": "available",
        "exits": "broken",
        "gone": "unavailable",
        "good": "available",
        "nop": "available",
        "nothing": "broken",
        "oracle": "available",
        "python": "available",
        "raises": "broken",
    }
    assert harnesses["good"]["summary"] == "Answers what it was asked."
    assert "half an upgrade" in harnesses["raises"]["reason"]
    assert "SystemExit" in harnesses["exits"]["reason"]
    assert "acme_nowhere" in harnesses["gone"]["reason"]
    assert harnesses["nop"]["origin"] == "proctor.harnesses.nop:Nop"  # never replaced


def test_the_list_names_what_to_install(tmp_path, variables):
    environments = listed("environments", tmp_path, variables)
    assert environments["local"]["status"] == "available"
    assert environments["cloud"]["status"] == "unavailable"
    assert "pip install 'acme-proctor[cloud]'" in environments["cloud"]["reason"]
    assert environments["sandbox"]["status"] == "unavailable"
    assert "apt-get install sandboxd" in environments["sandbox"]["reason"]
    text = proctor("list", "environments", cwd=tmp_path, **variables).out
    cloud = next(line for line in text.splitlines() if line.startswith("cloud "))
    assert "unavailable: " in cloud
    assert "acme_cloud_client" in cloud


@pytest.mark.parametrize(
    ("flag", "name", "parts"),
    [
        ("--environment", "cloud", ["acme_cloud_client", "pip install 'acme-proctor[cloud]'"]),
        ("--environment", "sandbox", ["environment sandbox: the program sandboxd", "apt-get"]),
        ("--harness", "raises", ["harness 'raises' is broken", "half an upgrade"]),
        ("--harness", "exits", ["harness 'exits' is broken", "SystemExit"]),
        ("--harness", "gone", ["acme_nowhere"]),
    ],
)
def test_only_who_needs_it_is_refused_and_before_anything_runs(
    flag, name, parts, rows, tmp_path, variables
):
    words = table(rows, "--harness", "nop", flag, name, "--json")
    done = proctor(*words, cwd=tmp_path, **variables)
    assert done.code == 2
    error = done.document["error"]
    assert [p for p in parts if p not in f"{error['message']} {error['hint']}"] == [], error
    assert runs_in(tmp_path) == []


def test_the_others_work_beside_them(rows, tmp_path, variables):
    for words in (["--help"], ["version"], ["list", "models"]):
        assert proctor(*words, cwd=tmp_path, **variables).code == 0
    (tmp_path / "model.yaml").write_text("version: 1\ndefault: hello\n")
    (tmp_path / "r.yaml").write_text(
        "benchmark: {id: table, data: rows.jsonl}\nharness: good\nenvironment: local\n"
        "model: {id: 'scripted:model.yaml'}\n"
    )
    assert proctor("validate", "r.yaml", cwd=tmp_path, **variables).code == 0
    done = proctor("run", "r.yaml", "--json", cwd=tmp_path, **variables)
    assert done.code == 0, done.err
    assert done.document["runs"][0]["primary"]["value"] == 1.0
    (tmp_path / "cloud.yaml").write_text(
        "benchmark: {id: table, data: rows.jsonl}\nharness: good\nenvironment: cloud\n"
    )
    refused = proctor("validate", "cloud.yaml", cwd=tmp_path, **variables)
    assert refused.code == 2
    assert "pip install 'acme-proctor[cloud]'" in refused.err
