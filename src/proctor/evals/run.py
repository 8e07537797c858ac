"""One request from its tasks to its summary."""

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from proctor.evals.attempt.calls import ended
from proctor.evals.attempt.job import AttemptJob, Finished, RetryLater
from proctor.evals.attempt.outcome import run_try
from proctor.evals.attempt.ownership import CLOSE_LIMIT_S, finish_shielded
from proctor.evals.attempt.services import AttemptServices
from proctor.evals.components import Components
from proctor.evals.contracts.benchmark import Benchmark
from proctor.evals.ending import Ending, log_defect, write_end, write_failure
from proctor.evals.metrics.report import build_report
from proctor.evals.pool import Pool
from proctor.evals.progress import RunView
from proctor.evals.report import Counts, RunReport
from proctor.evals.request import RunRequest
from proctor.evals.results.layout import RUNNING
from proctor.evals.results.records import prepared_from, what_was_run
from proctor.evals.results.stored import StoredTask
from proctor.evals.results.writer import RunWriter
from proctor.evals.stopping import Stop
from proctor.evals.tasks import AttemptSummary, TaskState
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
    kept_attempts: int = 0
    over: bool = False
    """Whether the run's end is decided; attempts that come later are not recorded."""

    async def execute(self, stop: Stop) -> RunReport:
        """Run what is pending until it is done, stopped, or cannot be written any more."""
        started = self.clock.monotonic()
        beat = asyncio.get_running_loop().create_task(self._beat())
        try:
            ending = await self._until_ended(stop)
        finally:
            self.over = True
            beat.cancel()
        report = await self.writer.in_thread(self._conclude_safely, ending, stop.signal, started)
        if ending.raised is not None:
            raise ending.raised
        done: RunReport = report
        return done

    async def _until_ended(self, stop: Stop) -> Ending:
        try:
            self.writer.log("run.started", tasks=len(self.tasks), kept_attempts=self.kept_attempts)
        except StorageError as error:
            return Ending.of(error)
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

    async def _cut_off(self, work: asyncio.Task[None], stop: Stop) -> Ending:
        """Cancel the work; wait up to the grace for its tasks and for its threads."""
        threads, grace_s = self.services.calls.threads, self.request.runtime.cleanup_grace_s
        loop = asyncio.get_running_loop()
        end, blocking = loop.time() + grace_s, threads.working
        work.cancel()
        await finish_shielded(work, grace_s)
        await threads.settled(blocking, end - loop.time())
        if work.done() and not work.cancelled() and work.exception() is not None:
            return self._ending(work)
        if stop.requested:
            return Ending("interrupt")
        limit_s = self.request.runtime.timeout_s
        return Ending("deadline", f"the run reached its limit of {limit_s:g} s")

    def _ending(self, work: asyncio.Task[None]) -> Ending:
        error = work.exception()
        log_defect(self.writer, error)
        return Ending.of(error)

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
                if job.waiting_since is not None:
                    self.view.waiting -= 1
                    job.waiting_s += self.clock.monotonic() - job.waiting_since
                    job.waiting_since = None
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
        await self._uninterrupted(self.writer.drop_try(job.task, job.index, outcome.details))
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
        complete = task.is_complete(c.strategy, c.attempts, self.services.contract.primary)
        final = task.final_state if complete else None
        try:
            stored = self.writer.store_result(job.task, outcome.record, final)
            cancelled = await self._uninterrupted(stored)
        except (StorageError, asyncio.CancelledError):
            if not self.writer.has_result(job.task, index, final):
                del task.done[index]
            raise
        task.job = None
        self._count(job, outcome, final)
        if cancelled:
            raise asyncio.CancelledError
        return complete

    async def _uninterrupted(self, writing: Coroutine[Any, Any, None]) -> bool:
        """Let a write finish even when the attempt is cancelled meanwhile; whether it was."""
        if self.over:  # the run's state is decided: whoever comes now changes nothing any more
            writing.close()
            raise asyncio.CancelledError
        task = asyncio.ensure_future(writing)
        cancelled = False
        try:
            await ended(task, None)
        except asyncio.CancelledError:
            cancelled = True
            await finish_shielded(task, STORE_LIMIT_S)
        if not task.done():
            raise asyncio.CancelledError
        task.result()
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

    def _conclude_safely(self, ending: Ending, signum: int | None, started: float) -> RunReport:
        try:
            return self._conclude(ending, signum, started)
        except Exception as error:
            log_defect(self.writer, error)
            write_failure(self.writer, self.info, Ending.of(error), self.clock)
            raise

    def _conclude(self, ending: Ending, signum: int | None, started: float) -> RunReport:
        """The report, and what is written about the end. Blocking."""
        c = self.components
        contract, plan = self.services.contract, c.attempts
        metrics = build_report(
            contract,
            plan,
            (t.observations(c.strategy, plan, contract.primary) for t in self.tasks),
            truncates=c.strategy.truncates,
        )
        report = RunReport(
            name=self.view.name,
            run_dir=self.writer.layout.root,
            status=str(self.info["status"]),
            counts=self._counts(contract.primary),
            metrics=metrics,
            usage=self.view.usage,
            wall_s=self.clock.monotonic() - started,
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
            if task.is_complete(c.strategy, c.attempts, primary):
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

    async def close(self) -> None:
        """Close the components and the logs, then give the directory up. Idempotent.

        A component that cannot be closed is noted; it never hides how the run ended.
        """
        try:
            for component in (self.components.benchmark, self.components.model):
                if component is not None:
                    await self._close(component)
        finally:
            self.writer.close()
            self.claim.release(self.clock.now())

    async def _close(self, component: Benchmark | Model) -> None:
        what = f"closing {component.id}"
        try:
            await self.services.calls.plugin(what, component.close, limit_s=CLOSE_LIMIT_S)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
            with contextlib.suppress(StorageError):  # it is a note, no evidence
                self.writer.log("run.cleanup_failed", what=what, message=str(error))
