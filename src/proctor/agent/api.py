"""Agent runs from Python: submit and drive them, and everything that `Control` offers."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from proctor.agent.control import Control
from proctor.agent.core import commands as cmd
from proctor.agent.core.budgets import Limits, flaw
from proctor.agent.core.view import View
from proctor.agent.driving.children import create_run
from proctor.agent.driving.coordinator import Coordinator, RunIsOwned
from proctor.agent.driving.failing import is_its_own
from proctor.agent.driving.loading import load_view
from proctor.agent.driving.probation import Probation, is_hopeless
from proctor.agent.driving.recorder import LostRun, now_ms
from proctor.agent.driving.retrying import Retries
from proctor.agent.setup import Setup
from proctor.kernel.agent_states import OVER_RUN_STATES
from proctor.kernel.errors import StorageError, UsageError
from proctor.store.journal.contract import RunFilter, RunRow
from proctor.store.leases import owner_name

UNLIMITED = Limits()
_LIVELY = ("ready", "running", "verifying", "finishing")
_QUIET = ("waiting", "suspended", "stopped")


class Agents(Control):
    """Agent runs of one journal. For one event loop; any number of processes may have one each.

    `failures`: why drivers gave runs up (a policy that cannot be made, a fault of the runtime), as
    long as they have not been driven without a failure since. It is in their logs too, as
    `run.given_up`, and `show` says it. Such a run is tried again after `Timing.retry_s` and twice
    more, later each time; another worker may try it at any time. A run that four workers in a
    row died of is suspended until somebody resumes it.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup.journal, setup.clock, setup.timing.poll_s)
        self.setup = setup
        self.owner = owner_name()
        self._driving: dict[str, Coordinator] = {}
        self.failures: dict[str, BaseException] = {}
        self._retries = Retries(setup.clock, setup.timing.retry_s)
        self._probation = Probation(setup.clock, setup.timing.lease_ttl_s)

    # --- tasks

    async def submit(
        self,
        goal: str,
        *,
        run_id: str | None = None,
        acceptance: Sequence[Mapping[str, Any]] = (),
        limits: Limits = UNLIMITED,
        on_unknown: str = "wait",
        max_corrections: int = 2,
        scope: Mapping[str, Any] | None = None,
    ) -> str:
        """Record a task and its run; the run's id. Nothing is executed before `drive` or `serve`.

        `scope`: what the task is about, kept with it and given to the policy. A `run_id` that is
        there already is the same submission: nothing is added. Raises UsageError, StorageError.
        """
        if on_unknown not in ("wait", "tell_model", "stop_run"):
            raise UsageError("on_unknown is wait, tell_model or stop_run")
        if problem := flaw(limits):
            raise UsageError(problem)
        run_id = run_id or f"run-{secrets.token_hex(8)}"
        task: dict[str, Any] = {"goal": goal, "acceptance": [dict(check) for check in acceptance]}
        if scope:
            task["scope"] = dict(scope)
        digest = self.setup.config_digest(self.setup.policy(task))
        command = cmd.CreateRun(
            run_id,
            task,
            digest,
            self.setup.permissions.epoch,
            limits,
            on_unknown,
            None,
            max_corrections,
        )
        await create_run(self.setup.journal, self.setup.clock, command, now_ms(self.setup.clock))
        return run_id

    async def drive(self, run_id: str) -> View:
        """Drive a run and its subtasks until it has ended or only others can go on (a person, a
        timer, another worker). Raises LostRun when another worker takes the run over, and what the
        run itself made fail; a subtask that failed is tried again, and after the last time it is in
        `failures` and its parent waits."""
        pending, tasks = {run_id}, dict[str, asyncio.Task[View | None]]()
        family, changed = {run_id}, asyncio.Event()
        left: View | None = None  # the run as our last driver of it left it

        def noticed(other: str, parent: str | None) -> None:
            if self._retries.pause_s(other) is None:
                return
            if other in family or parent in family:  # other runs are not ours to drive
                family.add(other)
                pending.add(other)
                changed.set()

        end_listening = self._hub.listen_to_all(noticed)
        try:
            while True:
                for name in sorted(pending - tasks.keys()):
                    pause_s = None if name == run_id else self._retries.pause_s(name) or 0.0
                    tasks[name] = asyncio.create_task(self._drive_one(name, pause_s))
                pending.clear()
                if not tasks:  # others may have driven it since
                    return await load_view(self.setup.journal, run_id, left)
                changed.clear()
                woken = asyncio.ensure_future(changed.wait())
                await asyncio.wait({woken, *tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
                for name, task in [(n, t) for n, t in tasks.items() if t.done()]:
                    del tasks[name]
                    view = self._left(name, task, asked=name == run_id)
                    left = view if name == run_id else left
                    if task.exception() is not None:
                        if self._retries.pause_s(name) is not None:
                            pending.add(name)
                    elif view is not None and await self.setup.journal.inbox_pending(name, limit=1):
                        pending.add(name)
        finally:
            end_listening()
            for task in tasks.values():
                task.cancel()
            if tasks:
                await asyncio.wait(tasks.values())

    def _left(self, name: str, task: "asyncio.Task[View | None]", *, asked: bool) -> View | None:
        error = None if task.cancelled() else task.exception()
        if asked or error is None or not is_its_own(error):
            return task.result()
        return None

    async def _drive_one(self, run_id: str, pause_s: float | None = 0.0) -> View | None:
        """`pause_s`: before it is begun; None if it is not tried again when it fails."""
        if pause_s:
            await self.setup.clock.sleep(pause_s)
        outlook = "" if pause_s is None else self._retries.outlook(run_id)
        coordinator = Coordinator(self.setup, run_id, self.owner, self._hub, outlook)
        self._driving[run_id] = coordinator
        try:
            view = await coordinator.drive()
        except RunIsOwned:
            return None
        except Exception as error:
            elsewhere = isinstance(error, LostRun | StorageError)  # not a matter of this run
            if is_its_own(error) or not elsewhere:
                self.failures[run_id] = error
                if pause_s is not None:
                    self._retries.failed(run_id)
            raise
        finally:
            if self._driving.get(run_id) is coordinator:
                del self._driving[run_id]
        self.failures.pop(run_id, None)
        self._retries.worked(run_id)
        return view

    async def serve(self, stop: asyncio.Event) -> None:
        """Drive every run of the journal that can go on, until `stop` is set; then hand over.

        Several workers may serve one journal: each run is owned by one.
        """
        tasks: dict[str, asyncio.Task[View | None]] = {}
        ending = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                for run_id in await self._next(tasks):
                    tasks[run_id] = asyncio.create_task(self._drive_one(run_id))
                pause = asyncio.ensure_future(self.setup.clock.sleep(self.setup.timing.poll_s))
                await asyncio.wait(
                    {ending, pause, *tasks.values()}, return_when=asyncio.FIRST_COMPLETED
                )
                pause.cancel()
                self._forget(tasks)
        finally:
            ending.cancel()
            for coordinator in list(self._driving.values()):
                coordinator.hand_over()
            if tasks:
                await asyncio.wait(tasks.values())
            self._forget(tasks)

    def _forget(self, tasks: "dict[str, asyncio.Task[View | None]]") -> None:
        """Drop what is done. A run whose driver failed is tried again; a journal that fails ends
        this worker."""
        for name, task in [(n, t) for n, t in tasks.items() if t.done()]:
            del tasks[name]
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            if isinstance(error, StorageError) and not is_its_own(error):
                raise error

    async def _next(self, driven: Mapping[str, Any]) -> list[str]:
        """Runs to be driven now. A run that is being ended holds its place until its subtasks are
        cancelled: these do not wait for a place."""
        free = self.setup.runs_at_once - len(driven)
        ending = {name for name, found in self._driving.items() if found.finishing}
        if free <= 0 and not ending:
            return []
        suspect = self._driving.get(self._probation.run_id or "")
        self._probation.look(driven, None if suspect is None else suspect.deaths)
        found = []
        for row in await self._claimable(driven):
            ends = row.parent_run_id in ending
            if (free > 0 or ends) and self._probation.admits(row):
                free -= not ends
                found.append(row.run_id)
        return found

    async def _claimable(self, driven: Mapping[str, Any]) -> list[RunRow]:
        """Runs that can go on by themselves, those that wait and are called for, and those that
        ended before somebody had read what was said to them: three questions, however many wait."""
        lively = RunFilter(_LIVELY, claimable=True)
        called = RunFilter(_QUIET, claimable=True, called_by=self.setup.clock.now())
        over = RunFilter(OVER_RUN_STATES, claimable=True, with_mail=True)
        found: list[RunRow] = []
        for which in (lively, called, over):
            after: str | None = None
            while page := await self.setup.journal.runs(which, after=after):
                after = page[-1].run_id
                found += [r for r in page if r.run_id not in driven]
        return [r for r in found if self._retries.pause_s(r.run_id) == 0 and not is_hopeless(r)]

    def hand_over(self, run_id: str) -> bool:
        """Ask this process's driver of a run to stop and give it up; False if there is none."""
        coordinator = self._driving.get(run_id)
        if coordinator is not None:
            coordinator.hand_over()
        return coordinator is not None
