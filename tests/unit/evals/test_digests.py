"""What identifies a task's inputs: put together from pieces of text, the whole's digest."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.environments.contract import EnvironmentSpec
from proctor.evals import digests
from proctor.evals.contracts import Reference, TaskSpec
from proctor.evals.digests import RequestDigests
from proctor.kernel.digest import of_json
from proctor.kernel.jsontext import JsonError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
    .filter(lambda number: abs(number) != float("inf")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def made(settings=None, *, sees_reference=False) -> RequestDigests:
    benchmark = SimpleNamespace(
        id="b", version='1"', options=None, grading_settings=lambda: settings or {}
    )
    harness = SimpleNamespace(
        id="h", version="2", options=None, needs_reference=sees_reference, settings=dict
    )
    environment = SimpleNamespace(id="e", version="3", options=None)
    return RequestDigests.of(
        SimpleNamespace(
            benchmark=benchmark, harness=harness, harness_id="h", environment=environment,
            model=None,
        )
    )  # fmt: skip


@given(asked=json_values, target=json_values, settings=st.dictionaries(st.text(), json_values))
def test_digests_are_those_of_the_whole_object(asked, target, settings):
    task = TaskSpec("t", asked, target, environment=EnvironmentSpec(env={"É": "1"}))
    found = made(settings).of_task(task)
    whole = {"input": asked, "files": {}, "environment": task.environment.to_json()}
    assert found["input"] == of_json(whole)
    grading = {"benchmark": "b", "version": '1"', "settings": settings, "target": target}
    assert found["grading"] == of_json(grading)
    graded_in = EnvironmentSpec(env={"graded": "here"})
    there = made(settings).of_task(replace(task, evaluation_environment=graded_in))
    assert there["grading"] == of_json({**grading, "environment": graded_in.to_json()})
    assert there["input"] == found["input"]


def test_the_digest_is_stable_across_versions():
    """Runs of earlier versions are resumed by these: they must not change."""
    canonical = json.dumps(
        {"environment": EnvironmentSpec().to_json(), "files": {}, "input": "q"},
        sort_keys=True, separators=(",", ":"),
    )  # fmt: skip
    expected = "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
    assert made().of_task(TaskSpec("t", "q"))["input"] == expected


def test_files_count_by_their_content(tmp_path):
    path = tmp_path / "f"
    path.write_text("one")
    task = TaskSpec("t", "q", files={"a/f": path})
    of = made().of_task
    first = of(task)["input"]
    digest = "sha256:" + hashlib.sha256(b"one").hexdigest()
    whole = {"input": "q", "files": {"a/f": digest}, "environment": EnvironmentSpec().to_json()}
    assert first == of_json(whole)
    path.write_text("two")
    assert of(task)["input"] != first


def test_each_environment_keeps_its_own_text(monkeypatch):
    """Also where more are asked for than are remembered, and where an identity comes again."""
    monkeypatch.setattr(digests, "MOST_ENVIRONMENTS", 3)
    of = made().of_task
    for _ in range(2):
        seen = {of(TaskSpec("t", "q", environment=EnvironmentSpec(image=str(n))))["input"]
                for n in range(10)}  # fmt: skip
        assert len(seen) == 10


def test_what_the_oracle_sees_is_part_of_its_input():
    def of(answer: str, *, sees: bool) -> str:
        task = TaskSpec("t", "q", reference=Reference(answer=answer))
        return made(sees_reference=sees).of_task(task)["input"]

    assert of("1", sees=True) != of("2", sees=True)
    assert of("1", sees=False) == of("2", sees=False)


def test_a_benchmarks_own_digests_are_taken_as_they_are():
    task = TaskSpec("t", "q", files={"f": Path("/nowhere")}, input_digest="i", grading_digest="g")
    found = made().of_task(task)
    assert (found["input"], found["grading"]) == ("i", "g")


def test_settings_that_are_not_json_are_refused_before_anything_runs():
    with pytest.raises(JsonError):
        made({"x": float("nan")})
