"""One request from its tasks to its summary."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proctor.evals.attempt.calls import ended
from proctor.evals.attempt.job import AttemptJob, Finished, RetryLater
from proctor.evals.attempt.ownership import CLOSE_LIMIT_S, finish_shielded
from proctor.evals.attempt.services import AttemptServices
from proctor.evals.collecting import collecting
from proctor.evals.components import Components
from proctor.evals.contracts.benchmark import Benchmark
from proctor.evals.ending import Ending, log_defect, write_end, write_failure
from proctor.evals.executors import Executor
from proctor.evals.metrics.report import build_report
from proctor.evals.progress import RunView
from proctor.evals.report import Counts, RunReport
from proctor.evals.request import RunRequest
from proctor.evals.results.layout import RUNNING
from proctor.evals.results.records import prepared_from, what_was_run
from proctor.evals.results.spending import SpendingFile
from proctor.evals.results.stored import StoredTask
from proctor.evals.results.writer import RunWriter
from proctor.evals.tasks import AttemptSummary, Queues, TaskState, queued
from proctor.evals.threads import BlockingCall, in_own_thread
from proctor.kernel.budget import Budget, WallBudget
from proctor.kernel.clock import Clock
from proctor.kernel.errors import StorageError
from proctor.models.contract import Model
from proctor.store.exclusive import HEARTBEAT_S, Claim

STORE_LIMIT_S = 60.0
"""How long an interrupted run waits for a record that is being written."""


@dataclass(slots=True)
class RequestRun:
    """A prepared request: its tasks run, its state on disk is truthful at every moment."""

    request: RunRequest
    components: Components
    services: AttemptServices
    writer: RunWriter
    claim: Claim
    info: dict[str, Any]
    tasks: list[TaskState]
    view: RunView
    clock: Clock
    executor: Executor
    budgets: Sequence[Budget | WallBudget] = ()
    spending: SpendingFile | None = None
    kept_attempts: int = 0
    started: float = 0.0
    pending: Queues = field(default_factory=dict)
    beat: asyncio.Task[None] | None = None
    over: bool = False
    """Whether the run's end is decided; attempts that come later are not recorded."""
    origins: dict[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)
    """The stored runs of attempts that are being graded again."""

    def begin(self) -> None:
        """The tasks are about to run: say so on disk, and keep the directory claimed."""
        self.started = self.clock.monotonic()
        self.writer.log("run.started", tasks=len(self.tasks), kept_attempts=self.kept_attempts)
        self.beat = asyncio.get_running_loop().create_task(self._beat())
        collecting.keep()  # a collection that walks what was loaded would hold up the loop

    def queue_up(self) -> None:
        """Find the tasks that need an attempt. Of 100,000 that takes long: off the event loop."""
        c = self.components
        primary = self.services.contract.primary
        waiting = (t for t in self.tasks if not t.is_settled(c.strategy, c.attempts, primary))
        self.pending = queued(waiting, self.provider_of)

    def blocking(self) -> Collection[BlockingCall]:
        """The calls of plug-in code in threads that somebody waits for now."""
        return self.services.calls.threads.working

    def provider_of(self, task: TaskState) -> str | None:
        """The provider whose permit the next try needs; None when it only grades in the driver."""
        grading = task.job is not None and task.job.result is not None
        if grading or self._next_is_graded_only(task):
            plan = task.job.plan if task.job is not None else None
            mode = plan.evaluation_mode if plan is not None else self.components.evaluation_mode
            return self.components.environment.id if mode == "fresh" else None
        return self.components.environment.id

    def _next_is_graded_only(self, task: TaskState) -> bool:
        if task.job is not None or not task.evaluate_only:
            return False
        return task.next_index(self.components.attempts) in task.evaluate_only

    async def step(self, task: TaskState) -> float | None:
        """Run one try of the task's next attempt.

        None when the task is done, 0 when its next attempt may start, else seconds of back-off.
        """
        for budget in self.budgets:  # nothing new starts once one is spent; what runs may end
            budget.check()
        self.view.running += 1
        try:
            job = await self._next_job(task)
            outcome = await self.executor.execute(self.services, job)
            if isinstance(outcome, RetryLater):
                return await self._retry(job, outcome)
            return None if await self._finish_attempt(task, job, outcome) else 0.0
        except Exception as error:
            log_defect(self.writer, error)
            raise
        finally:
            self.view.running -= 1

    async def _next_job(self, task: TaskState) -> AttemptJob:
        """The task's attempt in the making. What it waited for is over: a worker, a permit, or a
        back-off."""
        now, job = self.clock.monotonic(), task.job
        if job is None:
            job = task.job = await self._new_job(task)
            job.waiting_s += now - (task.ready_since or self.started)
        elif job.waiting_since is not None:
            self.view.waiting -= 1
            job.waiting_s += now - job.waiting_since
            job.waiting_since = None
        return job

    async def _new_job(self, task: TaskState) -> AttemptJob:
        index = task.next_index(self.components.attempts)
        job = AttemptJob(task.spec, index)
        if index in task.evaluate_only:
            run = await self.writer.in_thread(self._stored_run, task, index)
            if run is not None:
                self.origins[task.spec.id, index] = run
                was = what_was_run(run)  # examined before anything ran
                job.prepared = prepared_from(run, task.spec)
                job.result, job.result_issues = was.result, was.issues
                job.phases_s = dict(was.phases_s)
                job.waiting_s, job.retries = was.waiting_s, was.retries
        return job

    def _stored_run(self, task: TaskState, index: int) -> dict[str, Any] | None:
        path = self.writer.layout.task(RUNNING, task.spec.id)
        return StoredTask(task.spec.id, RUNNING, path, None).run(index)

    async def _retry(self, job: AttemptJob, outcome: RetryLater) -> float:
        cancelled = await self._uninterrupted(
            self.writer.drop_try, job.task, job.index, outcome.details
        )
        if cancelled:
            raise asyncio.CancelledError
        job.retries += 1
        job.waiting_since = self.clock.monotonic()
        self.view.retries += 1
        self.view.waiting += 1
        self.view.saw(job.task.id, job.index, (outcome.issue,), final=False)
        return outcome.delay_s

    async def _finish_attempt(self, task: TaskState, job: AttemptJob, outcome: Finished) -> bool:
        """Make the record durable; whether that was the task's last attempt."""
        c, index = self.components, job.index
        task.done[index] = AttemptSummary(outcome.observations, outcome.severity)
        complete = task.is_settled(c.strategy, c.attempts, self.services.contract.primary)
        final = task.final_state if complete else None
        try:
            record = self._record(job, outcome)
            cancelled = await self._uninterrupted(self.writer.store_result, job.task, record, final)
        except (StorageError, asyncio.CancelledError):
            if not self.writer.has_result(job.task, index, final):
                del task.done[index]
            raise
        task.job, task.ready_since = None, self.clock.monotonic()
        self._count(job, outcome, final)
        if cancelled:
            raise asyncio.CancelledError
        return complete

    def _record(self, job: AttemptJob, outcome: Finished) -> Mapping[str, Any]:
        """The attempt's record; one that was only graded again keeps the digests of its run."""
        run = self.origins.pop((job.task.id, job.index), None)
        if run is None:
            return outcome.record
        grading = {"grading": outcome.record["digests"]["grading"]}
        record = {**outcome.record, "digests": {**run["digests"], **grading}}
        if "reuse" in run:
            record["reuse"] = run["reuse"]
        return record

    async def _uninterrupted(
        self, write: Callable[..., "asyncio.Future[None]"], *args: Any
    ) -> bool:
        """Let a write finish even when the attempt is cancelled meanwhile; whether it was."""
        if self.over:  # the run's state is decided: whoever comes now changes nothing any more
            raise asyncio.CancelledError
        writing = write(*args)
        cancelled = False
        try:
            await ended(writing, None)
        except asyncio.CancelledError:
            cancelled = True
            await finish_shielded(writing, STORE_LIMIT_S)
        if not writing.done():
            raise asyncio.CancelledError
        writing.result()
        return cancelled

    def _count(self, job: AttemptJob, outcome: Finished, final: str | None) -> None:
        view = self.view
        view.attempts_done += 1
        view.usage += outcome.usage
        view.saw(job.task.id, job.index, outcome.issues)
        primary = outcome.observations.get(self.services.contract.primary)
        if primary is not None:
            view.score_sum += primary
            view.scored += 1
        if final is not None:
            view.finished[final] += 1

    async def _beat(self) -> None:
        while True:
            await self.clock.sleep(HEARTBEAT_S)
            with contextlib.suppress(StorageError):  # the next record will say so, and stop us
                await self.writer.in_thread(self.claim.beat, self.clock.now())

    async def finalise(self, ending: Ending, signum: int | None) -> RunReport:
        """Write the end of the run: its report, its summary, its status."""
        self.over = True
        report: RunReport = await self.writer.in_thread(self._conclude_safely, ending, signum)
        self.view.status = report.status
        return report

    def _conclude_safely(self, ending: Ending, signum: int | None) -> RunReport:
        try:
            return self._conclude(ending, signum)
        except Exception as error:
            log_defect(self.writer, error)
            write_failure(self.writer, self.info, Ending.of(error), self.clock)
            raise

    def _conclude(self, ending: Ending, signum: int | None) -> RunReport:
        """The report, and what is written about the end. Blocking."""
        c = self.components
        contract, plan = self.services.contract, c.attempts
        metrics = build_report(
            contract,
            plan,
            (t.observations(c.strategy, plan, contract.primary) for t in self.tasks),
            truncates=c.strategy.truncates,
            families=c.families,
        )
        report = RunReport(
            name=self.view.name,
            run_dir=self.writer.layout.root,
            status=str(self.info["status"]),
            counts=self._counts(contract.primary),
            metrics=metrics,
            usage=self.view.usage,
            wall_s=self.clock.monotonic() - self.started,
            issue_codes=dict(self.view.issue_codes),
            signal=signum,
            abandoned_threads=self.services.calls.threads.abandoned,
        )
        return write_end(self.writer, self.info, ending, report, self.clock)

    def _counts(self, primary: str) -> Counts:
        c = self.components
        states = {"normal": 0, "error": 0, "fatal": 0}
        interrupted = 0
        for task in self.tasks:
            if task.is_settled(c.strategy, c.attempts, primary) and task.done:
                states[task.final_state] += 1
            elif task.done or task.job is not None or task.evaluate_only:
                interrupted += 1
        return Counts(
            tasks=len(self.tasks),
            interrupted=interrupted,
            attempts=sum(len(task.done) for task in self.tasks),
            reused_attempts=self.kept_attempts,
            **states,
        )

    async def close(self, limit_s: float = CLOSE_LIMIT_S) -> None:
        """Close the components, each within `limit_s` seconds, and the logs, then give the
        directory up. Idempotent.

        A component that cannot be closed is noted; it never hides how the run ended.
        """
        if self.beat is not None:
            self.beat.cancel()
        try:
            for component in (self.components.benchmark, self.components.model):
                if component is not None:
                    await self._close(component, limit_s)
        finally:
            if self.spending is not None:
                self.spending.close()
            await in_own_thread("closing the run", self._give_up)

    def _give_up(self) -> None:
        self.writer.close()
        self.claim.release(self.clock.now())

    async def _close(self, component: Benchmark | Model, limit_s: float) -> None:
        what = f"closing {component.id}"
        try:
            await self.services.calls.plugin(what, component.close, limit_s=limit_s)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
            with contextlib.suppress(StorageError):  # it is a note, no evidence
                self.writer.log("run.cleanup_failed", what=what, message=str(error))
