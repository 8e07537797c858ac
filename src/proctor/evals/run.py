"""One request from its tasks to its summary."""

import asyncio
import contextlib
import os
from dataclasses import dataclass
from typing import Any

from proctor.evals.attempt.job import AttemptJob, Finished, RetryLater
from proctor.evals.attempt.outcome import run_try
from proctor.evals.attempt.ownership import finish_shielded
from proctor.evals.attempt.services import AttemptServices
from proctor.evals.components import Components
from proctor.evals.contracts.result import RunResult
from proctor.evals.metrics.report import build_report
from proctor.evals.pool import Pool
from proctor.evals.progress import RunView
from proctor.evals.report import Counts, RunReport
from proctor.evals.request import RunRequest
from proctor.evals.results.layout import RUNNING
from proctor.evals.results.records import prepared_from
from proctor.evals.results.run_info import ended
from proctor.evals.results.stored import StoredTask
from proctor.evals.results.summary import summary_json, summary_text
from proctor.evals.results.writer import RunWriter
from proctor.evals.stopping import Stop
from proctor.evals.tasks import AttemptSummary, TaskState
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
    kept_attempts: int = 0

    async def execute(self, stop: Stop) -> RunReport:
        """Run what is pending until it is done, stopped, or cannot be written any more."""
        started = self.clock.monotonic()
        self.writer.log("run.started", tasks=len(self.tasks), kept_attempts=self.kept_attempts)
        beat = asyncio.get_running_loop().create_task(self._beat())
        try:
            event, error = await self._run_pool(stop)
        finally:
            beat.cancel()
        return await self._finalise(event, error, stop, started)

    async def _run_pool(self, stop: Stop) -> tuple[str, str | None]:
        """How the run ended, as an event of the run's state machine, and the error if any."""
        pool = Pool(self.request.runtime.task_concurrency, self._execute, self.clock)
        loop = asyncio.get_running_loop()
        work = loop.create_task(pool.run(self._pending()))
        stopped = loop.create_task(stop.wait())
        try:
            await asyncio.wait(
                (work, stopped),
                timeout=self.request.runtime.timeout_s or None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not work.done():
                return await self._cut_off(work, stop)
        finally:
            stopped.cancel()
            if not work.done():
                work.cancel()
        return self._ending(work)

    async def _cut_off(self, work: asyncio.Task[None], stop: Stop) -> tuple[str, str | None]:
        work.cancel()
        grace = self.request.runtime.cleanup_grace_s
        await finish_shielded(work, grace)
        if work.done() and not work.cancelled() and work.exception() is not None:
            return self._ending(work)
        if stop.requested:
            return "interrupt", None
        return "deadline", f"the run reached its limit of {self.request.runtime.timeout_s:g} s"

    @staticmethod
    def _ending(work: asyncio.Task[None]) -> tuple[str, str | None]:
        error = work.exception()
        if error is None:
            return "finish", None
        if isinstance(error, StorageError):
            return "fail", f"{error.message}" + (f" ({error.hint})" if error.hint else "")
        raise error

    def _pending(self) -> list[TaskState]:
        c = self.components
        primary = self.services.contract.primary
        return [t for t in self.tasks if not t.is_complete(c.strategy, c.attempts, primary)]

    async def _execute(self, task: TaskState) -> float | None:
        """Run a task's attempts in turn; None when it is done, else the back-off in seconds."""
        self.view.running += 1
        try:
            while True:
                job = task.job = task.job or await self._new_job(task)
                if job.waiting_since:
                    job.waiting_s += self.clock.monotonic() - job.waiting_since
                    job.waiting_since = 0.0
                outcome = await run_try(self.services, job)
                if isinstance(outcome, RetryLater):
                    return await self._retry(job, outcome)
                if await self._finish_attempt(task, job, outcome):
                    return None
        finally:
            self.view.running -= 1

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
        complete = task.is_complete(c.strategy, c.attempts, self.services.contract.primary)
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

    async def _finalise(
        self, event: str, error: str | None, stop: Stop, started: float
    ) -> RunReport:
        self.info = ended(self.info, event, self.clock.now(), error)
        report: RunReport = await self.writer.in_thread(self._report, error, stop.signal, started)
        try:
            await self.writer.in_thread(self._write_end, report)
        except StorageError as failure:
            if error is None:
                raise
            self.view.saw("run", 0, ())
            self.view.recent.append(failure.message)
        return report

    def _report(self, error: str | None, signum: int | None, started: float) -> RunReport:
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
            wall_s=self.clock.monotonic() - started,
            error=error,
            issue_codes=dict(self.view.issue_codes),
            signal=signum,
        )

    def _counts(self, primary: str) -> Counts:
        c = self.components
        states = {"normal": 0, "error": 0, "fatal": 0}
        interrupted = 0
        for task in self.tasks:
            if task.is_complete(c.strategy, c.attempts, primary):
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
        try:
            if self.components.model is not None:
                await self.components.model.close()
        finally:
            self.claim.release(self.clock.now())
            self.writer.close()
