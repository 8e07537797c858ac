"""What stops a whole run says so: defects, exits, components that cannot be closed."""

from pathlib import Path

import pytest
from tests.scenarios.runtime.plugins import Answers, Ten, register
from tests.scenarios.runtime.runs import Outcome, request, resume, run, within

import proctor
from proctor.evals.contracts import (
    Evaluation,
)
from proctor.evals.strategy import CompleteAll


def confused(times: int):
    """A strategy that breaks this often."""

    class Confused(CompleteAll):
        id = "confused"
        left = times

        def is_complete(self, primaries, k):
            if primaries and self.left > 0:
                self.left -= 1
                raise ZeroDivisionError("how many was that?")
            return super().is_complete(primaries, k)

    return register(Confused)


def test_a_defect_that_stops_the_run_ends_it_as_failed_and_resumable(tmp_path):
    wanted = request(tmp_path, Ten, strategy=confused(times=1), concurrency=1)
    outcome = Outcome(within(60, lambda: proctor.arun(wanted)))
    assert (outcome.report.status, outcome.report.exit_code) == ("failed", 3)
    assert "ZeroDivisionError: how many was that?" in str(outcome.report.error)
    found = proctor.load(outcome.run_dir)
    assert (found.status, found.live_owner) == ("failed", None)
    (defect,) = (e for e in outcome.events if e["event"] == "run.defect")
    assert "is_complete" in defect["traceback"]


def test_a_run_that_cannot_even_be_summed_up_is_failed_on_disk(tmp_path):
    wanted = request(tmp_path, Ten, strategy=confused(times=1000))
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: proctor.arun(wanted))
    found = proctor.load(next(tmp_path.glob("results/*/*/*/*")))
    assert (found.status, found.live_owner) == ("failed", None)


@pytest.mark.parametrize("plain", [False, True])
def test_an_exit_of_a_plug_in_propagates_and_leaves_a_truthful_state(tmp_path, plain):
    class Exits(Ten):
        async def evaluate(self, prepared, result, session):
            if prepared.id == "t4":
                raise SystemExit(0)
            return Evaluation(metrics={"right": True})

    class PlainExits(Ten):
        def evaluate(self, prepared, result, session):
            if prepared.id == "t4":
                raise SystemExit(0)
            return Evaluation(metrics={"right": True})

    with pytest.raises(SystemExit):
        proctor.run(request(tmp_path, PlainExits if plain else Exits, concurrency=1))
    run_dir = Path(next(tmp_path.glob("results/*/*/*/*")))
    found = proctor.load(run_dir)
    assert (found.status, found.live_owner) == ("interrupted", None)
    assert found.info["error"] == "stopped by SystemExit: 0"
    assert len(list(found.attempts())) == 3
    Exits.evaluate = PlainExits.evaluate = Ten.evaluate
    resumed = resume(run_dir)
    assert resumed.report.counts.reused_attempts == 3
    assert resumed.report.exit_code == 0


def test_components_that_cannot_be_closed_do_not_hide_the_report(tmp_path):
    class Sticky(Answers):
        async def close(self):
            raise OSError("worker does not end")

    outcome = run(tmp_path, Sticky)
    assert outcome.report.exit_code == 0
    noted = [e for e in outcome.events if e["event"] == "run.cleanup_failed"]
    assert [e["message"] for e in noted] == ["worker does not end"]
    assert proctor.load(outcome.run_dir).live_owner is None


def test_a_benchmark_is_closed_once_at_the_end(tmp_path):
    closed = []

    class Closing(Ten):
        async def close(self):
            closed.append(len(list(tmp_path.rglob("result.json"))))

    run(tmp_path, Closing)
    assert closed == [10]
