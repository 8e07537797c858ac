"""What the parts of a coordinator share while one worker drives one run."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from operator import attrgetter
from typing import Any

from proctor.agent.context import Conversation
from proctor.agent.core import commands as cmd
from proctor.agent.core.view import ActionView, View
from proctor.agent.driving.alarm import Alarm
from proctor.agent.driving.dispatch import Dispatcher
from proctor.agent.driving.outcomes import Ended
from proctor.agent.driving.recorder import Recorder, now_ms
from proctor.agent.policy import Policy, Proposal
from proctor.agent.setup import Hub, Setup, lingering


class Desk:
    """One run on the desk of one worker: its recorder, what is under way, what has come in.

    Everything under way ends in one of the queues and a call of `wake`.
    """

    view: View = property(attrgetter("recorder.view"))  # type: ignore[assignment]

    def __init__(self, setup: Setup, hub: Hub, recorder: Recorder) -> None:
        self.setup = setup
        self.hub = hub
        self.recorder = recorder
        self.policy: Policy  # made when the run is taken over, for one that is not held back
        self.settled_in = False
        recorder.delivered = self._delivered
        timing = setup.timing
        run_on = lingering(setup.journal, recorder.view.run_id)
        self.dispatcher = Dispatcher(
            setup.clock, self.ended_attempt, timing.grace_s, timing.late_s, run_on
        )
        self.attempts: deque[Ended] = deque()
        self.replies: deque[tuple[int, Proposal | BaseException]] = deque()
        self.commands: deque[cmd.Command] = deque()
        self.turn: asyncio.Task[None] | None = None
        self.queries: dict[str, asyncio.Task[None]] = {}
        self.judging: asyncio.Task[None] | None = None
        self.judged: deque[Any] = deque()
        self.stops: dict[str, asyncio.Task[None]] = {}
        self.looked: dict[str, ActionView] = {}  # ready actions as they were looked at
        self.told: set[str] = set()  # subtasks that are known to exist
        self.sent: set[str] = set()  # what subtasks were told
        self.undone: set[str] = set()  # actions whose compensation was considered
        self.woken = False
        self.alarm = Alarm(setup.clock, self._look)
        self.mail = True
        self.asked_tools = False  # whether a tool's own code was awaited since mail was read
        self.closing_since: float | None = None
        self.ended_since: float | None = None
        self.lease_until = 0.0
        self.kept_at = 0  # the version of the last snapshot, or of the first look
        self.leave = False
        self.conversation = Conversation()
        self.manifest: dict[str, str] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sleeper: asyncio.Future[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether something of this run is under way in this process."""
        under_way = self.dispatcher.running or self.queries or self.stops
        return bool(under_way or self.turn or self.judging)

    def held(self, action: ActionView) -> bool:
        """Whether another execution of this action still runs here, so that it must not be done
        again yet. The other side of an idempotent one knows its key: that one is held for a while
        only."""
        if action.effect == "pure":
            return False
        if action.effect == "idempotent":
            return self.dispatcher.stays(action.id)
        return self.dispatcher.lives(action.id)

    def stays_on(self) -> bool:
        """Whether the end of an execution is still awaited though the run has ended: for at most
        `grace_s` after that."""
        if not self.dispatcher.stays():
            return False
        now = self.setup.clock.monotonic()
        if self.ended_since is None:
            self.ended_since = now
        return now < self.ended_since + self.setup.timing.grace_s

    def _delivered(self, run_id: str) -> None:
        """Whoever drives that run here is told, now that there is something to read."""
        parent = self.view.parent
        ours = parent is not None and str(parent["run"]) == run_id
        self.hub.notify(run_id, None if ours else self.view.run_id)

    def now_ms(self) -> int:
        return now_ms(self.setup.clock)

    def wake(self) -> None:
        self.woken = True
        self._rouse()

    def _look(self) -> None:
        """Time to look into the inbox, and at waits that are due."""
        self.mail = True
        self._rouse()

    def _rouse(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def sleep(self) -> None:
        """Until `wake` is called, or the alarm rings."""
        self._sleeper = asyncio.get_running_loop().create_future()
        await self._sleeper
        self._sleeper = None

    def mail_arrived(self) -> None:
        self.mail = True
        self.wake()

    def ended_attempt(self, ended: Ended) -> None:
        self.attempts.append(ended)
        self.wake()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """A task of this run; it is cancelled when the run leaves the desk."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def clear(self) -> None:
        """Cancel everything under way and wait for it."""
        self.alarm.stop()
        tasks = [task for task in self._tasks if not task.done()]
        for task in tasks:
            task.cancel()
        await self.dispatcher.close(waits=not self.view.ended)
        if tasks:
            await asyncio.wait(tasks, timeout=self.setup.timing.grace_s)
