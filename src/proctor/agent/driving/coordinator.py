"""Drives one run: the only writer of its log. What is decided is durable before it is done."""

import asyncio

from proctor.agent.core import commands as cmd
from proctor.agent.core.deaths import HANDED_OVER
from proctor.agent.core.decide_actions import unresolved
from proctor.agent.core.view import View
from proctor.agent.driving.attempts import start_ready
from proctor.agent.driving.children import ensure_children
from proctor.agent.driving.claiming import claim_unread, take_lease
from proctor.agent.driving.desk import Desk
from proctor.agent.driving.failing import is_its_own, record_failure
from proctor.agent.driving.finishing import finish, time_left
from proctor.agent.driving.intake import look_again, take_in
from proctor.agent.driving.judging import no_more, verify
from proctor.agent.driving.loading import read_view
from proctor.agent.driving.recorder import LostRun, Recorder
from proctor.agent.driving.recovery import settle_in, take_over
from proctor.agent.driving.seam import said
from proctor.agent.driving.settling import ask_unknown
from proctor.agent.driving.snapshots import is_due, keep_snapshot
from proctor.agent.driving.turns import next_turn
from proctor.agent.driving.waiting import came_in, only_waits, stays
from proctor.agent.setup import Hub, Setup
from proctor.kernel.errors import ProctorError, StorageError
from proctor.kernel.faults import fault_point
from proctor.store.journal.contract import Lease, RunRow

_BACKLOG = 64  # events that are decided and not yet durable, at most between two steps
_EARLY = 3  # a lease is renewed at a third of its time


class RunIsOwned(ProctorError):
    """Another worker drives this run."""

    code = "agent_run_owned"


class Coordinator:
    """One worker's hold on one run. `drive` once, then the object is used up."""

    def __init__(self, setup: Setup, run_id: str, owner: str, hub: Hub, outlook: str = "") -> None:
        """`outlook`: what its worker does when this driver fails, for the run's log."""
        self._setup = setup
        self._run_id = run_id
        self._owner = owner
        self._hub = hub
        self._outlook = outlook
        self._desk: Desk | None = None
        self._leaving = False

    def hand_over(self) -> None:
        """Ask the driver to stop where it is and give the run up. May be called at any time."""
        self._leaving = True
        if self._desk is not None:
            self._desk.leave = True
            self._desk.wake()

    @property
    def finishing(self) -> bool:
        """Whether the run is being ended: it may wait for its subtasks to be cancelled."""
        return self._desk is not None and self._desk.view.state == "finishing"

    @property
    def deaths(self) -> int | None:
        """How many workers in a row died of the run; None when it is not known yet."""
        return None if self._desk is None else self._desk.view.deaths

    async def drive(self) -> View:
        """Drive the run until it ends, can only wait, or is handed over; the view then.

        Raises RunIsOwned, LostRun (another worker took it over), RunUnreadable, UnknownRun,
        StorageError, and whatever the run made fail; that is recorded in its log.
        """
        asked = self._setup.clock.monotonic()
        lease, before = await self._claim()
        try:
            if before is not None:
                await claim_unread(self._setup, before, lease)
            desk = await self._open(lease, asked)
        except BaseException as error:
            await self._give_up(lease, error)
            await self._setup.journal.release(lease)
            raise
        self._desk = desk
        desk.leave = self._leaving
        end_listening = self._hub.listen(self._run_id, desk.mail_arrived)
        keeper = asyncio.create_task(self._keep(desk))
        driver = asyncio.create_task(self._work(desk))
        try:
            await asyncio.wait({keeper, driver}, return_when=asyncio.FIRST_COMPLETED)
            if not driver.done():  # the lease is gone
                driver.cancel()
                await asyncio.wait({driver})
                raise LostRun(f"run {self._run_id} was claimed by another worker")
            driver.result()
            return desk.view
        finally:
            end_listening()
            driver.cancel()
            try:
                await asyncio.wait({driver})
                await desk.clear()  # which may take its time: the run is still ours
            finally:
                keeper.cancel()
                await asyncio.wait({keeper})
            if not driver.cancelled() and (failure := driver.exception()) is not None:
                await self._give_up(desk.recorder.lease, failure)
            # Only now, when nothing of this run is under way here, may another begin.
            await self._setup.journal.release(desk.recorder.lease)

    async def _claim(self) -> tuple[Lease, RunRow | None]:
        """The lease, and the run as it was before if its owner had vanished."""
        lease, before = await take_lease(self._setup, self._run_id, self._owner)
        if lease is None:
            raise RunIsOwned(f"run {self._run_id} is driven by another worker")
        return lease, before

    async def _give_up(self, lease: Lease, error: BaseException) -> None:
        """Keep in the log why the run is given up, if it is the run's own fault, which is raised
        in any case."""
        if not isinstance(error, Exception) or not is_its_own(error):
            return
        try:
            await record_failure(self._setup, lease, error, self._outlook)
        except Exception as second:  # noqa: BLE001 - the first one says more
            error.add_note(f"that it was given up is not in its log: {said(second)}")

    async def _open(self, lease: Lease, asked: float) -> Desk:
        """`asked`: when the lease was asked for, which is when its time began at the earliest."""
        setup = self._setup
        fault_point("agent.log.begin")
        view = await read_view(setup.journal, self._run_id)
        recorder = Recorder(setup.journal, view, lease, setup.clock, setup.redactor)
        desk = Desk(setup, self._hub, recorder)
        desk.kept_at = view.version
        desk.lease_until = asked + setup.timing.lease_ttl_s
        return desk

    async def _keep(self, desk: Desk) -> None:
        """Renew the lease; ends when it is lost."""
        ttl_s = self._setup.timing.lease_ttl_s
        while True:
            await self._setup.clock.sleep(ttl_s / _EARLY)
            asked = self._setup.clock.monotonic()
            try:
                renewed = await self._setup.journal.renew(desk.recorder.lease, ttl_s)
            except StorageError:  # tried again while the lease lasts
                if asked >= desk.lease_until:
                    return
                continue
            if renewed is None:
                return
            desk.recorder.lease = renewed
            desk.lease_until = asked + ttl_s

    # --- the loop

    async def _work(self, desk: Desk) -> None:
        await take_over(desk)
        while True:
            await take_in(desk)
            if not desk.settled_in and not desk.view.held:  # a person has resumed it
                await settle_in(desk)
            if desk.view.ended and not desk.mail and not desk.stays_on():
                await desk.recorder.flush()
                if await look_again(desk):
                    continue
                break
            if desk.leave:
                break
            await self._snapshot(desk, leaving=False)
            if await self._advance(desk):
                if desk.attempts or desk.recorder.backlog > _BACKLOG:
                    self._look_up(desk)
                if desk.recorder.backlog > _BACKLOG:
                    await desk.recorder.flush()
                if only_waits(desk):
                    await self._sleep(desk)
                continue
            await desk.recorder.flush()
            if self._leaving:
                continue
            if not desk.woken and not desk.mail and not stays(desk):
                break
            await self._sleep(desk)
        await self._leave(desk)

    async def _advance(self, desk: Desk) -> bool:
        """One step; whether anything was done."""
        state = desk.view.state
        if state != "verifying":
            no_more(desk)
        if state == "ready":
            desk.recorder.must(cmd.Move("started"))
            return True
        if state == "finishing":
            return await finish(desk)
        if state == "verifying":
            return await verify(desk)
        if state == "waiting" and desk.view.unfinished("unknown", "running"):
            desk.recorder.must(cmd.Move("unblock"))
            return True
        return await self._running(desk) if state == "running" else False

    async def _running(self, desk: Desk) -> bool:
        if not desk.view.waiting("workspace"):
            states = {action.state for action in desk.view.unfinished()}
            if "unknown" in states and ask_unknown(desk):
                return True
            if "ready" in states and await self._start(desk):
                return True
            if desk.turn is None and "running" not in states and not unresolved(desk.view):
                taken = await next_turn(desk)
                if taken and desk.view.state == "running" and desk.view.open_actions:
                    await self._start(desk)  # in the append of the turn that asks for it
                return taken
        if desk.mail or desk.leave or desk.busy or not desk.view.open_waits:
            return False
        if any(desk.held(action) for action in desk.view.unfinished("ready")):
            return False
        desk.recorder.must(cmd.Move("block", "only others can go on"))
        return True

    async def _start(self, desk: Desk) -> bool:
        """Start what is ready; whether anything was done."""
        if not await start_ready(desk):
            return False
        await desk.recorder.flush()
        if desk.view.open_waits:
            await ensure_children(desk)
        return True

    async def _snapshot(self, desk: Desk, *, leaving: bool) -> None:
        if not is_due(desk.view.version, desk.kept_at, leaving=leaving):
            return
        await desk.recorder.flush()  # a run whose tools wait for nothing always has something new
        fault_point("agent.snapshot.begin")
        await keep_snapshot(self._setup.journal, desk.view, desk.recorder.lease.fence)
        desk.kept_at = desk.view.version
        fault_point("agent.snapshot.kept")

    async def _sleep(self, desk: Desk) -> None:
        """Until something comes in, a timer is due, or it is time to look into the inbox."""
        desk.woken = False
        if came_in(desk) or desk.mail:
            return
        desk.alarm.by(self._setup.clock.monotonic() + self._pause_s(desk))
        await desk.sleep()

    def _look_up(self, desk: Desk) -> None:
        """A run that never sleeps is told in time of waits and of its inbox too."""
        if desk.view.open_waits or desk.closing_since is not None or not desk.alarm.is_set:
            desk.alarm.by(self._setup.clock.monotonic() + self._pause_s(desk))

    def _pause_s(self, desk: Desk) -> float:
        pauses = [self._setup.timing.poll_s]
        now = desk.now_ms()
        pauses += [(w.due_ms - now) / 1000 for w in desk.view.waiting() if w.due_ms is not None]
        if (left := time_left(desk)) > 0:
            pauses.append(left)
        return max(0.001, min(pauses))

    async def _leave(self, desk: Desk) -> None:
        """Hand over: flush, stop what is ours, record how it ended, then say that we are gone."""
        await desk.recorder.flush()
        if desk.busy:
            await self._stop_own(desk)
        if desk.view.owner is not None:
            reason = desk.view.state if not desk.leave else HANDED_OVER
            desk.recorder.must(cmd.Release(reason))
            fault_point("agent.release")
            await desk.recorder.flush()
            # One that has ended is only looked at: its log does.
            await self._snapshot(desk, leaving=not desk.view.ended or desk.view.state == "stopped")
        parent = desk.view.parent
        if parent is not None and desk.view.ended:
            self._hub.notify(str(parent["run"]))

    async def _stop_own(self, desk: Desk) -> None:
        turn = desk.view.open_turn
        if desk.turn is not None and turn is not None:
            desk.turn.cancel()
            desk.turn = None
            reason = "the run was handed over"
            desk.recorder.apply(cmd.CloseTurn(turn.number, reason, abandoned=True))
        for action in desk.view.unfinished("running"):
            await desk.dispatcher.stop(action.id, lambda answer, means: None)
        clock = self._setup.clock
        deadline = clock.monotonic() + self._setup.timing.grace_s
        while desk.dispatcher.running and clock.monotonic() < deadline:
            await take_in(desk)  # or what has come in would keep it from sleeping
            await desk.recorder.flush()
            await self._sleep(desk)
        await take_in(desk)
        for action in desk.view.unfinished("running"):  # whoever comes next has to find out
            text = "it still ran when the run was handed over"
            desk.recorder.must(
                cmd.EndAttempt(action.id, action.attempts, action.fence, "lost", text)
            )
