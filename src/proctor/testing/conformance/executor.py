"""What every executor must do, as a suite to subclass.

    class TestMine(ExecutorConformance):
        def executor(self) -> Executor:
            return MyExecutor()

pytest collects the inherited `test_*` methods. Each makes a request of real plug-ins in a folder of
its own and hands the executor one try after the other.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from proctor.evals.attempt.job import AttemptJob, Finished, RetryLater, TryOutcome
from proctor.evals.attempt.services import AttemptServices
from proctor.evals.executors import Executor
from proctor.kernel.errors import StorageError
from proctor.kernel.issues import Cause, Severity
from proctor.testing.conformance.executor_parts import Bench, Refusing, bench

LIMIT_S = 60.0
"""Only says that nothing hangs: generous, because machines are busy."""


class ExecutorConformance(ABC):
    """The whole suite. Override `executor`."""

    @abstractmethod
    def executor(self) -> Executor:
        """A new executor."""

    def run(self, case: Callable[[Executor], Awaitable[Any]]) -> Any:
        """Run a case with an executor that is closed at the end, twice: `close` is idempotent."""

        async def body() -> Any:
            executor = self.executor()
            try:
                async with asyncio.timeout(LIMIT_S):
                    return await case(executor)
            finally:
                await executor.close()
                await executor.close()

        return asyncio.run(body())

    def tried(self, made: Bench, job: AttemptJob | None = None) -> TryOutcome:
        """The outcome of one try."""
        wanted = job or made.job()

        async def once(executor: Executor) -> TryOutcome:
            return await executor.execute(made.services, wanted)

        outcome: TryOutcome = self.run(once)
        return outcome

    # --- outcomes

    def test_a_try_that_goes_well_is_finished_with_its_record(self, tmp_path: Path) -> None:
        with bench(tmp_path) as made:
            outcome = self.tried(made)
            assert isinstance(outcome, Finished)
            record = outcome.record
            assert (record["task_id"], record["attempt"]) == ("t1", 1)
            assert (record["status"], record["final_answer"]) == ("completed", "yes")
            assert dict(outcome.observations) == {"right": 1.0}
            assert outcome.severity is None
            task = made.job().task
            assert record["digests"] == made.services.digests.of_task(task)
            assert [made.told(what) for what in ("run", "close", "evaluate")] == [1, 1, 1]

    def test_the_plan_and_the_run_are_stored_where_the_request_says(self, tmp_path: Path) -> None:
        with bench(tmp_path, mode="none") as made:
            outcome = self.tried(made)
            assert isinstance(outcome, Finished)
            [line] = Path(made.layout.plans).read_text("utf-8").splitlines()
            assert json.loads(line)["digest"] == outcome.record["plan"]
            [run] = Path(made.layout.root).glob("details/running/*/attempt-1/run.json")
            assert json.loads(run.read_text("utf-8"))["result"]["final_answer"] == "yes"

    def test_every_evaluation_mode(self, tmp_path: Path) -> None:
        for mode in ("none", "fresh", "reuse"):
            folder = tmp_path / mode
            folder.mkdir()
            with bench(folder, mode=mode) as made:
                outcome = self.tried(made)
                assert isinstance(outcome, Finished), mode
                assert dict(outcome.observations) == {"right": 1.0}, mode

    def test_a_fault_of_a_plug_in_is_an_outcome(self, tmp_path: Path) -> None:
        with bench(tmp_path, agent="crash") as made:
            outcome = self.tried(made)
            assert isinstance(outcome, Finished)
            assert outcome.severity is Severity.FATAL
            assert outcome.record["status"] == "run_error"
            assert "the agent crashed" in outcome.record["error"]
            assert dict(outcome.observations) == {}
            assert made.told("close") == 1

    def test_a_lost_machine_is_an_environment_fault_and_no_exception(self, tmp_path: Path) -> None:
        with bench(tmp_path, agent="lose") as made:
            outcome = self.tried(made)
            assert isinstance(outcome, Finished)
            [issue] = outcome.issues
            assert (issue.cause, issue.severity) == (Cause.ENVIRONMENT, Severity.FATAL)

    # --- retries: the executor's caller waits, and hands the same job in again

    def test_a_dropped_try_says_so_and_the_next_one_goes_on(self, tmp_path: Path) -> None:
        with bench(tmp_path, agent="crash once", retries=1) as made:
            job = made.job()
            first = self.tried(made, job)
            assert isinstance(first, RetryLater)
            assert (first.scope, first.details["try"]) == ("attempt", 1)
            job.retries += 1
            second = self.tried(made, job)
            assert isinstance(second, Finished)
            assert second.record["retry_count"] == 1
            assert dict(second.observations) == {"right": 1.0}
            assert made.told("run") == 2

    def test_a_failed_evaluation_is_repeated_without_the_agent(self, tmp_path: Path) -> None:
        for mode in ("none", "fresh"):
            folder = tmp_path / mode
            folder.mkdir()
            with bench(folder, grader="crash once", mode=mode, retries=1) as made:
                job = made.job()
                first = self.tried(made, job)
                assert isinstance(first, RetryLater)
                assert first.scope == "evaluation"
                assert job.result is not None
                job.retries += 1
                second = self.tried(made, job)
                assert isinstance(second, Finished)
                assert [made.told("run"), made.told("evaluate")] == [1, 2]

    def test_used_up_retries_end_as_a_record(self, tmp_path: Path) -> None:
        with bench(tmp_path, grader="crash", retries=1) as made:
            job = made.job()
            assert isinstance(self.tried(made, job), RetryLater)
            job.retries += 1
            outcome = self.tried(made, job)
            assert isinstance(outcome, Finished)
            assert outcome.record["status"] == "eval_error"
            assert outcome.severity is Severity.ERROR

    # --- what is no outcome

    def test_evidence_that_cannot_be_written_is_raised(self, tmp_path: Path) -> None:
        for moment in ("begin", "store_run"):
            folder = tmp_path / moment
            folder.mkdir()
            with bench(folder) as made:
                full = StorageError("no space left on device")
                store = Refusing(made.services.store, moment, full)
                services = replace(made.services, store=store)
                raised = self.run(partial(_raised, services=services, job=made.job()))
                assert isinstance(raised, StorageError), moment
                assert made.told("evaluate") == 0
                assert made.told("close") == made.told("run")

    def test_a_cancelled_try_has_released_what_it_held(self, tmp_path: Path) -> None:
        with bench(tmp_path, agent="hang") as made:

            async def cancelled(executor: Executor) -> bool:
                trying = asyncio.ensure_future(executor.execute(made.services, made.job()))
                while not made.told("run"):  # noqa: ASYNC110 - it may run elsewhere
                    await asyncio.sleep(0.01)
                trying.cancel()
                await asyncio.wait((trying,))
                return trying.cancelled()

            assert self.run(cancelled)
            assert [made.told(what) for what in ("run", "close", "evaluate")] == [1, 1, 0]

    # --- several at once

    def test_tries_may_run_side_by_side(self, tmp_path: Path) -> None:
        with bench(tmp_path) as made:

            async def many(executor: Executor) -> list[TryOutcome]:
                jobs = [made.job(attempt) for attempt in range(1, 17)]
                return await asyncio.gather(*(executor.execute(made.services, j) for j in jobs))

            outcomes = self.run(many)
            found = sorted(o.record["attempt"] for o in outcomes if isinstance(o, Finished))
            assert found == list(range(1, 17))
            assert made.told("evaluate") == 16


async def _raised(
    executor: Executor, services: AttemptServices, job: AttemptJob
) -> BaseException | None:
    try:
        await executor.execute(services, job)
    except Exception as error:  # noqa: BLE001 - the case says which one it must be
        return error
    return None
