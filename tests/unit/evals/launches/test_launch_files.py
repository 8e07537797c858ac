"""From a launch file to its requests: defaults, matrix, names, and what is refused."""

import pytest

from proctor.evals.launches.spec import MAX_REQUESTS, LaunchSpec, resolve
from proctor.evals.options import validate
from proctor.evals.request import MOST_AT_ONCE
from proctor.kernel.errors import OptionError


def spec(**changes):
    made = {
        "name": "nightly",
        "requests": [{"name": "fix", "benchmark": {"id": "table", "data": "rows.jsonl"}}],
        **changes,
    }
    return validate(LaunchSpec, made, "launch")


def names(launch):
    return [request.name for request in launch.requests]


def refused(*only, any_size=False, **changes):
    with pytest.raises(OptionError) as error:
        resolve(spec(**changes), only, any_size=any_size)
    return error.value


def test_workers_are_bounded_before_they_are_made():
    assert resolve(spec(task_concurrency=MOST_AT_ONCE)).task_concurrency == MOST_AT_ONCE
    for changes in ({"task_concurrency": 10**9}, {"runtime": {"task_concurrency": 10**9}}):
        assert "task_concurrency: must be at most 100000" in str(refused(**changes))


def test_defaults_lie_under_every_request():
    launch = resolve(
        spec(
            defaults={
                "harness": "oracle",
                "execution": {"attempts": {"k": 3}, "max_retries": 2},
                "benchmark": {"scorer": "numeric"},
            },
            requests=[
                {"name": "a", "benchmark": {"id": "table", "data": "a.jsonl"}},
                {
                    "name": "b",
                    "benchmark": {"id": "table", "data": "b.jsonl", "scorer": "exact"},
                    "execution": {"max_retries": 0},
                },
            ],
        )
    )
    a, b = launch.requests
    assert (a.harness.id, b.harness.id) == ("oracle", "oracle")
    assert (a.benchmark.options, b.benchmark.options) == (
        {"scorer": "numeric"}, {"scorer": "exact"},
    )  # fmt: skip
    assert (a.execution.max_retries, b.execution.max_retries) == (2, 0)
    assert (a.execution.attempts.k, b.execution.attempts.k) == (3, 3)


def test_another_component_brings_its_own_options():
    launch = resolve(
        spec(
            defaults={"harness": {"id": "command", "command": "true"}},
            requests=[{"name": "a", "benchmark": "humaneval", "harness": {"id": "oracle"}}],
        )
    )
    assert launch.requests[0].harness.options == {}


def test_a_matrix_makes_every_combination_and_names_it():
    launch = resolve(
        spec(
            matrix={"harness.id": ["oracle", "nop"], "execution.attempts.k": [1, 3]},
            requests=[{"name": "fix", "benchmark": "humaneval"}],
        )
    )
    assert names(launch) == ["fix-oracle-1", "fix-oracle-3", "fix-nop-1", "fix-nop-3"]
    found = [(r.harness.id, r.execution.attempts.k) for r in launch.requests]
    assert found == [("oracle", 1), ("oracle", 3), ("nop", 1), ("nop", 3)]


@pytest.mark.parametrize(
    ("values", "suffixes"),
    [
        ([0.2, 0.75], ["0.2", "0.75"]),
        ([True, False], ["1", "2"]),
        ([None, "x"], ["1", "x"]),
        ([{"id": "nop"}, {"id": "oracle"}], ["1", "2"]),
        (["org/one:v1", "two."], ["org_one_v1", "two"]),
    ],
)
def test_suffixes_are_readable_or_numbers(values, suffixes):
    launch = resolve(
        spec(
            matrix={"benchmark.choice": values},
            requests=[{"name": "r", "benchmark": {"id": "table"}}],
        )
    )
    assert names(launch) == [f"r-{suffix}" for suffix in suffixes]


def test_a_matrix_leaves_the_written_requests_alone():
    written = {"id": "command", "command": "true", "env": {"A": "1"}}
    given = spec(
        defaults={"harness": {"id": "nop"}},
        matrix={"harness.env.A": ["x", "y"]},
        requests=[{"name": "a", "benchmark": "humaneval", "harness": written}],
    )
    launch = resolve(given)
    assert [r.harness.options["env"] for r in launch.requests] == [{"A": "x"}, {"A": "y"}]
    assert written["env"] == {"A": "1"}
    assert given.requests[0]["harness"]["env"] == {"A": "1"}


def test_only_chooses_by_the_name_with_its_suffix():
    changes = {
        "matrix": {"harness.id": ["oracle", "nop"]},
        "requests": [{"name": "fix", "benchmark": "humaneval"}],
    }
    assert names(resolve(spec(**changes), ["fix-nop"])) == ["fix-nop"]
    error = refused("fix-nob", **changes)
    assert "--only fix-nob: no such request" in error.message
    assert "fix-nop" in error.hint


def test_run_knobs_are_the_launchs():
    launch = resolve(spec(task_concurrency=16, runtime={"results_dir": "out", "run_id": "r1"}))
    assert launch.task_concurrency == 16
    knobs = launch.requests[0].runtime
    assert (knobs.results_dir, knobs.task_concurrency, knobs.run_id) == ("out", 16, None)
    assert resolve(spec(runtime={"task_concurrency": 3})).task_concurrency == 3
    assert resolve(spec()).task_concurrency == 8


def test_a_matrix_that_explodes_needs_to_be_confirmed():
    many = {"execution.attempts.k": list(range(1, 102)), "selection.limit": list(range(1, 11))}
    requests = [{"name": "r", "benchmark": "humaneval"}]
    error = refused(matrix=many, requests=requests)
    assert "makes 1010 requests, more than 1000" in error.message
    assert "--yes" in error.hint
    launch = resolve(spec(matrix=many, requests=requests), any_size=True)
    assert len(launch.requests) == 1010 > MAX_REQUESTS


def test_a_matrix_that_explodes_is_refused_without_being_made():
    """Ten keys of a hundred values: counted, not expanded."""
    many = {f"benchmark.x{n}": list(range(100)) for n in range(10)}
    assert "makes 100000000000000000000 requests" in refused(matrix=many).message


@pytest.mark.parametrize(
    ("first", "second"),
    [("fix", "fix"), ("fix it", "fix_it"), ("Fix", "fix"), ("é", "e"), ("a/b", "a:b")],
)
def test_names_that_would_share_a_directory_are_refused(first, second):
    requests = [{"name": n, "benchmark": "humaneval"} for n in (first, second)]
    message = refused(requests=requests).message
    assert f"{first!r} and {second!r} would share one results directory" in message


def test_suffixes_that_would_share_a_directory_are_refused():
    error = refused(
        matrix={"model.id": ["org/one", "org_one"]},
        requests=[{"name": "r", "benchmark": "humaneval"}],
    )
    assert "would share one results directory" in error.message


@pytest.mark.parametrize("name", [None, "", "  ", 3, ["x"]])
def test_a_request_needs_a_name(name):
    request = {"benchmark": "humaneval", **({} if name is None else {"name": name})}
    assert "requests.1: a request of a launch needs a name" in refused(requests=[request]).message


def test_a_request_that_is_wrong_is_named():
    requests = [
        {"name": "good", "benchmark": "humaneval"},
        {"name": "bad", "benchmark": "humaneval", "execution": {"attempts": {"k": 0}}},
    ]
    assert "request bad.execution.attempts.k" in refused(requests=requests).message
    missing = refused(requests=[{"name": "bare"}])
    assert missing.message == "request bare.benchmark: is required"


def test_run_knobs_in_a_request_are_refused():
    request = {"name": "a", "benchmark": "humaneval", "runtime": {"results_dir": "x"}}
    assert "given once, at the launch's `runtime`" in refused(requests=[request]).message
    defaults = {"runtime": {"task_concurrency": 2}}
    assert "given once, at the launch's `runtime`" in refused(defaults=defaults).message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"requests": []}, "launch.requests"),
        ({"name": ""}, "launch.name"),
        ({"version": 2}, "launch.version"),
        ({"colour": "red"}, "launch.colour: unknown key"),
        ({"task_concurrency": 0}, "launch.task_concurrency"),
        ({"task_concurrency": -1}, "launch.task_concurrency"),
        ({"task_concurrency": True}, "launch.task_concurrency: must be a whole number"),
        ({"task_concurrency": "8"}, "launch.task_concurrency: must be a whole number"),
        ({"runtime": {"timeout_s": -1}}, "launch.runtime.timeout_s"),
        ({"runtime": {"timeout_s": "soon"}}, "launch.runtime.timeout_s: must be a number"),
        ({"runtime": {"timeout_s": float("nan")}}, "launch.runtime.timeout_s"),
        ({"runtime": {"cleanup_grace_s": -0.1}}, "launch.runtime.cleanup_grace_s"),
        ({"runtime": {"provider_limits": {"docker": -1}}}, "provider_limits.docker"),
        ({"runtime": {"provider_limits": {"docker": 1.5}}}, "provider_limits.docker"),
        ({"runtime": {"provider_limits": {"docker": "many"}}}, "provider_limits.docker"),
        ({"runtime": {"env_open_qps": {"docker": -1}}}, "env_open_qps.docker"),
        ({"runtime": {"env_open_qps": {"docker": float("inf")}}}, "env_open_qps.docker"),
        ({"runtime": {"model_limits": {"m": {"rpm": -1}}}}, "model_limits.m.rpm"),
        ({"runtime": {"model_limits": {"m": {"rpd": 1}}}}, "model_limits.m.rpd: unknown key"),
        ({"runtime": {"model_limits": {"m": 3}}}, "model_limits.m"),
        ({"runtime": {"run_id": "../x"}}, "launch.runtime.run_id"),
        ({"matrix": {"harness.id": []}}, "matrix.harness.id has no values"),
        ({"matrix": {"harness.id": "nop"}}, "launch.matrix.harness.id: must be a list"),
        ({"matrix": {"harness.id.x": ["nop"]}}, "harness"),
        ({"matrix": {"colour": ["red"]}}, "request fix-red.colour: unknown key"),
    ],
)
def test_what_is_wrong_is_said(changes, message):
    with pytest.raises(OptionError) as error:
        resolve(spec(**changes))
    assert message in error.value.message


def test_a_matrix_key_that_goes_through_a_value_is_refused():
    requests = [{"name": "a", "benchmark": {"id": "table", "scorer": "exact"}}]
    message = refused(matrix={"benchmark.scorer.kind": ["x"]}, requests=requests).message
    assert "benchmark.scorer.kind: scorer is not a group of options" in message
