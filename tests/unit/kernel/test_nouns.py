"""States, digests, issues, errors, time: the small nouns."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.evals.results.run_info import RUN_STATES
from proctor.kernel import errors
from proctor.kernel.clock import SystemClock, iso
from proctor.kernel.digest import of_bytes, of_json
from proctor.kernel.errors import DataError, EnvironmentFault, Fault, ProctorError
from proctor.kernel.issues import Cause, Issue, Phase, Severity, highest
from proctor.kernel.states import IllegalTransition, Machine

LAMP = Machine("lamp", "off", {"off": {"press": "on"}, "on": {"press": "off", "drop": "broken"}})


def test_a_machine_advances_by_its_table():
    assert LAMP.advance("off", "press") == "on"
    assert LAMP.states == {"off", "on", "broken"}
    assert [LAMP.is_final(s) for s in ("off", "on", "broken")] == [False, False, True]


@pytest.mark.parametrize(
    ("state", "event"), [("off", "drop"), ("broken", "press"), ("lost", "press")]
)
def test_a_machine_refuses_what_is_not_in_it(state, event):
    with pytest.raises(IllegalTransition, match=f"lamp: '{event}' in state '{state}'"):
        LAMP.advance(state, event)


def test_a_machine_draws_itself():
    assert LAMP.mermaid() == (
        "stateDiagram-v2\n    [*] --> off\n    off --> on: press\n    on --> off: press\n"
        "    on --> broken: drop\n    broken --> [*]\n"
    )


def test_a_run_can_always_be_resumed_and_ends_in_four_ways():
    ends = set(RUN_STATES.table["running"].values())
    assert ends == {"completed", "failed", "interrupted", "timed_out"}
    assert {RUN_STATES.advance(end, "resume") for end in ends} == {"running"}


def test_digests_name_content():
    empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert of_bytes(b"") == empty
    assert of_json({"b": 1, "a": [1.0, "é"]}) == of_json({"a": [1.0, "é"], "b": 1})
    assert of_json("1") != of_json(1)


@given(st.sampled_from(Severity), st.sampled_from(Phase), st.sampled_from(Cause), st.text())
def test_issues_are_read_back(severity, phase, cause, text):
    for trace in (None, "trace"):
        issue = Issue(severity, phase, cause, "code", text, trace)
        assert Issue.from_json(issue.to_json()) == issue


def test_the_highest_severity():
    def issues(*severities):
        return [Issue(s, Phase.RUN, Cause.AGENT, "x", "x") for s in severities]

    assert highest([]) is None
    assert highest(issues(Severity.WARNING, Severity.ERROR)) is Severity.ERROR
    assert highest(issues(Severity.FATAL, Severity.WARNING)) is Severity.FATAL


def every_error():
    return [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, ProctorError)]


@pytest.mark.parametrize("kind", every_error(), ids=lambda k: k.__name__)
def test_an_error_has_a_message_a_code_and_its_place_in_the_tree(kind):
    error = kind()
    assert str(error) == error.message == (kind.__doc__ or "").strip().splitlines()[0]
    assert kind.code == kind.code.lower()
    assert kind.__name__ in (errors.__doc__ or "") or kind is ProctorError


def test_a_fault_carries_its_cause():
    fault = EnvironmentFault("gone", code="environment_gone", permanent=True, retry_after_s=3)
    assert isinstance(fault, Fault)
    assert (fault.cause, fault.fault_code) == (Cause.ENVIRONMENT, "environment_gone")
    assert (fault.permanent, fault.retry_after_s) == (True, 3)
    assert EnvironmentFault().fault_code == "environment"


def test_data_errors_list_at_most_twenty_problems():
    error = DataError(problems=[f"line {n}" for n in range(25)], hint="mend it")
    assert str(error).splitlines()[0] == "25 problem(s) in the data:"
    assert str(error).splitlines()[-1] == "… and 5 more"
    assert len(error.problems) == 25
    assert error.hint == "mend it"


def test_time_is_told_in_utc():
    moment = datetime(2026, 1, 31, 20, 11, 14, 250_999, timezone(timedelta(hours=2)))
    assert iso(moment) == "2026-01-31T18:11:14.250Z"
    assert abs(SystemClock().now() - datetime.now(UTC)) < timedelta(minutes=1)
