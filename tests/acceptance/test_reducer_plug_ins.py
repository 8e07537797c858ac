"""Reducers that another distribution registers: reported for whose metrics name them."""

import os
from pathlib import Path

import pytest
from tests.acceptance.command import proctor, runs_in

REDUCERS = """
from proctor.evals.metrics.reducers import ReducerFamily
class Worst(ReducerFamily):
    \"\"\"The smallest of all observations.\"\"\"
    id = "worst"
    def sizes(self, k): return (k,)
    def name(self, size): return f"worst@{size}"
    def reduce(self, sample, size): return sample.values[0] if sample.full else None
class Fails(Worst):
    id = "fails"
    def name(self, size): return f"fails@{size}"
    def reduce(self, sample, size): return 1 / 0
class Shadow(Worst):
    id = "shadow"
    def name(self, size): return f"avg@{size}"
class Renamed(Worst):
    id = "another"
class Nothing:
    id = "nothing"
"""
ENTRY_POINTS = """
[proctor.reducers]
worst = acme_reducers:Worst
fails = acme_reducers:Fails
shadow = acme_reducers:Shadow
renamed = acme_reducers:Renamed
nothing = acme_reducers:Nothing
gone = acme_nowhere:Gone
"""
BENCHMARK = """
from proctor import Benchmark, Evaluation, MetricContract, MetricSpec, TaskSpec
class Turns(Benchmark):
    id = "turns"
    data_required = False
    evaluation_modes = ("none",)
    seen = 0
    def load_tasks(self):
        return [TaskSpec(f"t{n}", "?") for n in range(4)]
    def metrics(self):
        return MetricContract((MetricSpec("right", reducers=NAMED),), "right")
    def evaluate(self, prepared, result, session):
        Turns.seen += 1
        return Evaluation(metrics={"right": Turns.seen % 2 == 1})
"""


@pytest.fixture
def variables(tmp_path) -> dict[str, str]:
    """Variables with the distribution on the path."""
    site = tmp_path / "site"
    info = site / "acme_reducers-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-reducers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (info / "RECORD").write_text("")
    (site / "acme_reducers.py").write_text(REDUCERS)
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))}


def run(named: tuple[str, ...], place: Path, variables: dict[str, str], *words: str):
    (place / "turns.py").write_text(f"NAMED = {named!r}\n{BENCHMARK}")
    return proctor("run", "--benchmark", "turns.py:Turns", "--harness", "nop", "--json",
                   "--concurrency", "1", *words, cwd=place, **variables)  # fmt: skip


def test_a_registered_reducer_is_reported_where_a_metric_names_it(tmp_path, variables):
    """One of two attempts of each task is right: half on average, none at worst."""
    done = run(("avg", "worst"), tmp_path, variables, "-k", "2")
    assert done.code == 0, done.err
    (ran,) = done.document["runs"]
    right = ran["metrics"]["right"]
    assert {name: right[name]["value"] for name in right} == {"avg@2": 0.5, "worst@2": 0.0}
    assert right["worst@2"]["evaluated"] == 4
    shown = proctor("show", ran["run_dir"], cwd=tmp_path, **variables)
    assert "worst@2" in shown.out
    again = run(("avg",), tmp_path, variables)
    assert list(again.document["runs"][0]["metrics"]["right"]) == ["avg@1"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", "acme_nowhere"),
        ("renamed", "has the id 'another'"),
        ("nothing", "is not a ReducerFamily"),
        ("median", "unknown reducer 'median'"),
        ("shadow", "two reducers are named 'avg@1'"),
    ],
)
def test_a_broken_one_stops_only_who_names_it_and_before_anything_runs(
    name, said, tmp_path, variables
):
    done = run(("avg", name), tmp_path, variables)
    assert done.code == 2
    assert said in done.document["error"]["message"]
    assert runs_in(tmp_path) == []


def test_one_that_fails_on_the_observations_loses_no_attempt(tmp_path, variables):
    done = run(("avg", "fails"), tmp_path, variables)
    assert done.code == 3
    assert done.document["status"] == "failed"
    assert "reducer fails@1 fails: ZeroDivisionError" in done.document["error"]["message"]
    (run_dir,) = runs_in(tmp_path)
    assert len(list(run_dir.glob("details/normal/*/attempt-1/result.json"))) == 4
    (tmp_path / "site" / "acme_reducers.py").write_text(REDUCERS.replace("1 / 0", "0.25"))
    mended = proctor("resume", str(run_dir), "--json", cwd=tmp_path, **variables)
    assert mended.code == 0, mended.err
    (ran,) = mended.document["runs"]
    assert ran["metrics"]["right"]["fails@1"]["value"] == 0.25
    assert ran["counts"]["reused_attempts"] == 4


def test_the_list_shows_them_beside_the_built_in_ones(tmp_path, variables):
    done = proctor("list", "reducers", "--json", cwd=tmp_path, **variables)
    found = {item["id"]: item["status"] for item in done.document["components"]}
    assert {"avg", "pass_at", "pass_hat", "solved"} < set(found)
    assert (found["worst"], found["gone"]) == ("available", "unavailable")
