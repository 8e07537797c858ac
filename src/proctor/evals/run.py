"""One request from its tasks to its summary."""

import asyncio
import contextlib
import os
from dataclasses import dataclass
from typing import Any

from proctor.evals.attempt.job import AttemptJob, Finished, RetryLater
from proctor.evals.attempt.ownership import finish_shielded
from proctor.evals.attempt.services import AttemptServices
from proctor.evals.components import Components
from proctor.evals.contracts.result import RunResult
from proctor.evals.executors import Executor
from proctor.evals.metrics.report import build_report
from proctor.evals.progress import RunView
from proctor.evals.report import Counts, RunReport
from proctor.evals.request import RunRequest
from proctor.evals.results.layout import RUNNING
from proctor.evals.results.records import prepared_from
from proctor.evals.results.run_info import ended
from proctor.evals.results.spending import SpendingFile
from proctor.evals.results.stored import StoredTask
from proctor.evals.results.summary import summary_json, summary_text
from proctor.evals.results.writer import RunWriter
from proctor.evals.tasks import AttemptSummary, TaskState
from proctor.kernel.budget import BudgetExhausted
from proctor.kernel.clock import Clock
from proctor.kernel.errors import StorageError
from proctor.kernel.issues import Issue
from proctor.store.exclusive import HEARTBEAT_S, Claim
from proctor.store.files import Sync, write_atomic

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
    spending: SpendingFile | None = None
    kept_attempts: int = 0
    started: float = 0.0
    beat: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """The tasks are about to run: say so on disk, and keep the directory claimed."""
        self.started = self.clock.monotonic()
        self.writer.log("run.started", tasks=len(self.tasks), kept_attempts=self.kept_attempts)
        self.beat = asyncio.get_running_loop().create_task(self._beat())

    def pending(self) -> list[TaskState]:
        """The tasks that need an attempt, in selected order."""
        c = self.components
        primary = self.services.contract.primary
        return [t for t in self.tasks if not t.is_settled(c.strategy, c.attempts, primary)]

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
        self._refuse_when_spent()
        self.view.running += 1
        try:
            job = task.job = task.job or await self._new_job(task)
            if job.waiting_since:
                job.waiting_s += self.clock.monotonic() - job.waiting_since
                job.waiting_since = 0.0
            outcome = await self.executor.execute(self.services, job)
            if isinstance(outcome, RetryLater):
                return await self._retry(job, outcome)
            return None if await self._finish_attempt(task, job, outcome) else 0.0
        finally:
            self.view.running -= 1

    def _refuse_when_spent(self) -> None:
        """A spent budget stops the run: nothing new starts, what is running may end."""
        budget = self.services.budget
        if budget is not None and budget.exhausted:
            raise BudgetExhausted(f"the budget is spent: ${budget.spent.usd:f}, "
                                  f"{budget.spent.tokens} tokens")  # fmt: skip
        wanted = self.request.execution.budget
        if wanted is not None and wanted.wall_s:
            spent_s = self.clock.monotonic() - self.started
            if spent_s >= wanted.wall_s:
                raise BudgetExhausted(f"the budget of {wanted.wall_s:g} s wall time is spent")

    async def _new_job(self, task: TaskState) -> AttemptJob:
        index = task.next_index(self.components.attempts)
        job = AttemptJob(task.spec, index)
        if index in task.evaluate_only:
            run = await self.writer.in_thread(self._stored_run, task, index)
            if run is not None:
                job.prepared = prepared_from(run, task.spec)
                job.result = RunResult.from_json(run["result"])
                job.result_issues = tuple(Issue.from_json(i) for i in run["issues"])
                job.phases_s = dict(run["phases_s"])
                job.waiting_s, job.retries = run["waiting_s"], run["retry_count"]
        return job

    def _stored_run(self, task: TaskState, index: int) -> dict[str, Any] | None:
        path = self.writer.layout.task(RUNNING, task.spec.id)
        return StoredTask(task.spec.id, RUNNING, path, None).run(index)

    async def _retry(self, job: AttemptJob, outcome: RetryLater) -> float:
        await self._uninterrupted(self.writer.drop_try(job.task, job.index, outcome.details))
        job.retries += 1
        job.waiting_since = self.clock.monotonic()
        self.view.retries += 1
        self.view.saw(job.task.id, job.index, (outcome.issue,))
        return outcome.delay_s

    async def _finish_attempt(self, task: TaskState, job: AttemptJob, outcome: Finished) -> bool:
        """Make the record durable; whether that was the task's last attempt."""
        c = self.components
        task.done[job.index] = AttemptSummary(outcome.observations, outcome.severity)
        complete = task.is_settled(c.strategy, c.attempts, self.services.contract.primary)
        final = task.final_state if complete else None
        try:
            await self._uninterrupted(self.writer.store_result(job.task, outcome.record, final))
        except StorageError:
            del task.done[job.index]
            raise
        task.job = None
        self._count(job, outcome, final)
        return complete

    async def _uninterrupted(self, writing: Any) -> None:
        """Let a write finish even when the attempt is cancelled meanwhile."""
        task = asyncio.ensure_future(writing)
        cancelled = await finish_shielded(task, STORE_LIMIT_S)
        if task.done():
            task.result()
        if cancelled:
            raise asyncio.CancelledError

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

    async def finalise(self, event: str, error: str | None, signum: int | None) -> RunReport:
        """Write the end of the run: its report, its summary, its status."""
        self.info = ended(self.info, event, self.clock.now(), error)
        report: RunReport = await self.writer.in_thread(self._report, error, signum)
        try:
            await self.writer.in_thread(self._write_end, report)
        except StorageError as failure:
            if error is None:
                raise
            self.view.recent.append(failure.message)
        self.view.status = report.status
        return report

    def _report(self, error: str | None, signum: int | None) -> RunReport:
        c = self.components
        contract, plan = self.services.contract, c.attempts
        metrics = build_report(
            contract,
            plan,
            (t.observations(c.strategy, plan, contract.primary) for t in self.tasks),
            truncates=c.strategy.truncates,
        )
        return RunReport(
            name=self.view.name,
            run_dir=self.writer.layout.root,
            status=self.info["status"],
            counts=self._counts(contract.primary),
            metrics=metrics,
            usage=self.view.usage,
            wall_s=self.clock.monotonic() - self.started,
            error=error,
            issue_codes=dict(self.view.issue_codes),
            signal=signum,
        )

    def _counts(self, primary: str) -> Counts:
        c = self.components
        states = {"normal": 0, "error": 0, "fatal": 0}
        interrupted = 0
        for task in self.tasks:
            if task.is_settled(c.strategy, c.attempts, primary) and task.done:
                states[task.final_state] += 1
            elif task.done or task.job is not None or task.evaluate_only:
                interrupted += 1
        attempts = sum(len(task.done) for task in self.tasks)
        return Counts(
            tasks=len(self.tasks),
            interrupted=interrupted,
            attempts=attempts,
            reused_attempts=self.kept_attempts,
            **states,
        )

    def _write_end(self, report: RunReport) -> None:
        layout = self.writer.layout
        with contextlib.suppress(OSError):  # tasks are still in it, or it was never made
            os.rmdir(layout.state(RUNNING))
        self.writer.write_document(layout.summary, summary_json(report, self.info), "summary")
        text = summary_text(report, self.info).encode("utf-8")
        write_atomic(layout.summary_text, text, "summary_text", Sync.NONE)
        self.writer.write_document(layout.run_info, self.info, "run_info")
        self.writer.log("run.finished", status=report.status, error=report.error)

    async def close(self) -> None:
        """Give the directory up and close the logs. Idempotent."""
        if self.beat is not None:
            self.beat.cancel()
        try:
            if self.components.model is not None:
                await self.components.model.close()
        finally:
            if self.spending is not None:
                self.spending.close()
            self.claim.release(self.clock.now())
            self.writer.close()
