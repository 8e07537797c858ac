"""The one writer of a run: commands become events, events become durable, then somebody acts.

`apply` changes the view in memory at once and keeps the events; `flush` commits what has been
kept. Nothing outside happens between the two, so events that are lost before the flush are as if
they had never been decided.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from proctor.agent.core import events as ev
from proctor.agent.core.commands import Command, Refusal
from proctor.agent.core.decide import decide
from proctor.agent.core.evolve import fold
from proctor.agent.core.projection import moment, needs_barrier, rows
from proctor.agent.core.view import View
from proctor.agent.driving.redacting import redacted
from proctor.kernel.clock import Clock
from proctor.kernel.errors import ProctorError, RuntimeFault, StorageError
from proctor.kernel.faults import fault_point
from proctor.kernel.redact import Redactor
from proctor.store.journal.contract import (
    Appended,
    CommitUnknown,
    Conflict,
    Durability,
    Encoded,
    Event,
    Journal,
    Lease,
    Message,
    Row,
)

_COMMIT_TRIES = 5
_COMMIT_PAUSE_S = 0.2


class LostRun(ProctorError):
    """Another worker has taken the run over: this one stops."""

    code = "agent_run_lost"


def now_ms(clock: Clock) -> int:
    """UTC milliseconds."""
    return int(clock.now().timestamp() * 1000)


def as_stored(event: ev.AgentEvent, event_id: str, at: datetime) -> Event:
    """An event as the journal takes it."""
    text = ev.encoded(event)
    body = ev.encode(event) if text is None else Encoded(text)
    return Event(event_id, event.kind, ev.VERSION, body, at)


def _all_stored(
    taken: Sequence[tuple[Sequence[ev.AgentEvent], int]], seq: int, fence: int
) -> list[Event]:
    """The events behind number `seq`; their names are the same when the append is repeated."""
    found: list[Event] = []
    for group, at_ms in taken:
        at = moment(at_ms)
        for event in group:
            seq += 1
            found.append(as_stored(event, f"{fence}.{seq}", at))
    return found


class Recorder:
    """Holds the view of one run and appends to its log. For one event loop."""

    def __init__(
        self,
        journal: Journal,
        view: View,
        lease: Lease,
        clock: Clock,
        redactor: Redactor | None = None,
    ) -> None:
        self.journal = journal
        self.view = view
        self.lease = lease
        self._clock = clock
        idle = type(redactor) is Redactor and not redactor.knows_secrets
        self._redactor = None if idle else redactor
        self._wall_ms, self._read_at = now_ms(clock), int(clock.monotonic() * 1000)
        self._began_ms = self._wall_ms - self._read_at
        self._stored = view  # the view at the last append that was handed over
        self._events: list[tuple[Sequence[ev.AgentEvent], int]] = []  # each with its moment
        self._messages: list[Message] = []
        self.delivered: Callable[[str], None] = lambda run_id: None  # its message is on disk
        self._inbox: list[Row] = []
        self._lock = asyncio.Lock()
        self._failure: Exception | None = None  # then the view may be ahead of the log

    def steady_ms(self) -> int:
        """When an event happens, UTC: the wall clock at the claim and the time since. A wall clock
        that is set meanwhile neither spends a run's time nor gives it back."""
        return self._began_ms + int(self._clock.monotonic() * 1000)

    @property
    def pending(self) -> bool:
        """Whether something is decided and not yet known to be durable."""
        under_way = self._lock.locked() or self._failure is not None
        return bool(self._events or self._messages or under_way)

    @property
    def backlog(self) -> int:
        """How many events are decided and not yet durable."""
        return self.view.version - self._stored.version

    def apply(self, command: Command) -> Refusal | Sequence[ev.AgentEvent]:
        """Decide and take the events into the view; they are kept for the next flush."""
        if self._redactor is not None:
            command = redacted(self._redactor, command)
        read_at = int(self._clock.monotonic() * 1000)
        if read_at != self._read_at:  # the wall clock is asked once in a millisecond
            self._wall_ms, self._read_at = now_ms(self._clock), read_at
        found = decide(self.view, command, self._wall_ms)
        if isinstance(found, Refusal):
            return found
        at_ms = self._began_ms + read_at
        self.view = fold(self.view, found, at_ms)
        if found:
            self._events.append((found, at_ms))
        return found

    def must(self, command: Command) -> Sequence[ev.AgentEvent]:
        """`apply` where a refusal would be a fault of the runtime itself."""
        found = self.apply(command)
        if isinstance(found, Refusal):
            raise RuntimeFault(f"{type(command).__name__} was refused: {found.reason}")
        return found

    def note(self, event: ev.AgentEvent) -> None:
        """Record a fact that changes no state (a refused message, a late result)."""
        at_ms = self.steady_ms()
        self.view = fold(self.view, (event,), at_ms)
        self._events.append(((event,), at_ms))

    def applied(self, message_id: str) -> None:
        """The message of the inbox that the last event takes note of."""
        values = {"applied_seq": self.view.version}
        self._inbox.append(Row("inbox", {"message_id": message_id}, values))

    def deliver(self, message: Message) -> None:
        """Put a message into another run's inbox together with the events of the next flush."""
        self._messages.append(message)

    def fail(self, error: Exception) -> None:
        """Something of this run that had to be kept was not: the next flush raises."""
        self._failure = self._failure or error

    async def flush(self) -> None:
        """Make everything that was decided durable. Raises LostRun, StorageError.

        What another task took along is waited for. Once an append has failed nothing is durable
        for certain any more, so every later call raises too, whoever made the one that failed.
        """
        if not self.pending:
            return
        async with self._lock:
            while True:
                if self._failure is not None:
                    raise self._failure
                if not (self._events or self._messages):
                    return
                try:
                    await self._commit()
                except Exception as error:
                    self._failure = error
                    raise
                except BaseException:  # cancelled: it may be in the log or not
                    self._failure = LostRun(f"an append to run {self.view.run_id} was cut off")
                    raise

    async def _commit(self) -> None:
        taken, self._events = self._events, []
        inbox, self._inbox = self._inbox, []
        messages, self._messages = self._messages, []
        before, self._stored = self._stored, self.view
        events = [event for group, _ in taken for event in group]
        at_last = taken[-1][1] if taken else 0
        changed = rows(before, self._stored, events, at_last) + inbox
        barrier = needs_barrier(self._stored, events) or bool(messages)
        fence = self.lease.fence
        stored = _all_stored(taken, before.version, fence)
        durability = Durability.BARRIER if barrier else Durability.LAZY
        fault_point("agent.append.begin")
        for number in range(_COMMIT_TRIES):
            answer = await self.journal.append(
                self.view.run_id, before.version, fence, stored, changed, durability, messages
            )
            if isinstance(answer, Appended):
                fault_point("agent.append.done")
                for run_id in {message.run_id: None for message in messages}:
                    self.delivered(run_id)
                return
            if isinstance(answer, Conflict):
                raise LostRun(f"run {self.view.run_id} is at fence {answer.fence}, not {fence}")
            await self._clock.sleep(_COMMIT_PAUSE_S * 2**number)
        assert isinstance(answer, CommitUnknown)
        raise StorageError(f"an append to run {self.view.run_id} has no answer: {answer.reason}")
