"""What people say to agent runs, and what they see of them, from any process.

Commands go through the run's inbox: they are acknowledged when they are on disk, and applied by
whoever drives the run.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proctor.agent.core.showing import next_moves
from proctor.agent.core.view import View
from proctor.agent.driving.loading import load_view
from proctor.agent.setup import Hub
from proctor.kernel.agent_states import ENDED_RUN_STATES, OVER_RUN_STATES
from proctor.kernel.clock import Clock, SystemClock
from proctor.kernel.errors import UsageError
from proctor.store.journal.contract import Journal, Message, StoredEvent
from proctor.store.journal.errors import MessageTooLong, RunIsOver


@dataclass(frozen=True, slots=True)
class Shown:
    """A run as it stands: its view and who moves next."""

    view: View
    next_moves: Sequence[Mapping[str, Any]]


class Control:
    """The runs of one journal as others than their drivers reach them. `Access.CONTROL` of the
    journal is enough, `Access.READ` for looking. `poll_s`: seconds between looks for new events."""

    def __init__(self, journal: Journal, clock: Clock | None = None, poll_s: float = 0.5) -> None:
        self.journal = journal
        self.clock = clock or SystemClock()
        self._poll_s = poll_s
        self._hub = Hub()

    # --- what people say. All but `state` raises UsageError for a run that has ended (one that
    # is stopped has not: it may go on) and for more than `MOST_BODY_CHARS` of the journal's
    # `values`, and all of it UnknownRun.

    async def tell(self, run_id: str, text: str, *, by: str = "user") -> None:
        """Add a text to the conversation."""
        await self._send(run_id, "text", {"text": text, "by": by})

    async def answer(
        self, run_id: str, wait: str, value: Any, *, by: str = "user", message_id: str | None = None
    ) -> None:
        """Answer an open wait for input; True or None says yes to a review or to files as they
        are. The first valid answer counts; one that does not fit its wait is refused."""
        await self._answer(run_id, wait, "answer", by, value, message_id)

    async def _answer(
        self, run_id: str, wait: str, meant: str, by: str, value: Any, message_id: str | None = None
    ) -> None:
        """`meant`: what was said. An approval is not the answer to a question."""
        body = {"wait": wait, "how": "arrived", "by": by, "value": value, "meant": meant}
        await self._send(run_id, "answer", body, message_id)

    async def approve(
        self,
        run_id: str,
        wait: str,
        *,
        by: str = "user",
        scope: str = "once",
        expires_ms: int | None = None,
        expires_s: float | None = None,
    ) -> None:
        """Approve what a wait asks for: a call `once` or for the same call in this `run`, at most
        until `expires_ms` (UTC milliseconds, None for ever) or for `expires_s` seconds from its
        arrival, by the journal's clock; a review; files as they are."""
        if scope not in ("once", "run"):
            raise UsageError("an approval's scope is once or run")
        if expires_ms is not None and expires_s is not None:
            raise UsageError("give expires_ms or expires_s, not both")
        value: dict[str, Any] = {"scope": scope, "expires_ms": expires_ms}
        if expires_s is not None:
            value["expires_s"] = expires_s
        await self._answer(run_id, wait, "approval", by, value)

    async def deny(self, run_id: str, wait: str, *, by: str = "user", reason: str = "") -> None:
        """Say no to what a wait asks for."""
        body = {"wait": wait, "how": "denied", "by": by, "reason": reason or "denied",
                "meant": "denial"}  # fmt: skip
        if reason:
            body["value"] = reason  # what a reviewer said is told to the policy
        await self._send(run_id, "answer", body)

    async def state(
        self, run_id: str, wait: str, *, happened: bool, text: str = "", by: str = "user"
    ) -> None:
        """Say what became of an action whose outcome nobody knows."""
        value = {"happened": happened, "text": text}
        await self._answer(run_id, wait, "statement", by, value)

    async def cancel(
        self, run_id: str, *, by: str = "user", reason: str = "", compensate: bool = False
    ) -> None:
        """Cancel a run and its subtasks. `compensate`: undo what can be undone."""
        body = {"by": by, "reason": reason, "compensate": compensate}
        await self._send(run_id, "cancel", body)

    async def suspend(self, run_id: str, *, by: str = "user", reason: str = "") -> None:
        """Start nothing more in a run and its subtasks until `resume`."""
        await self._send(run_id, "suspend", {"by": by, "reason": reason})

    async def resume(self, run_id: str, *, by: str = "user", reason: str = "") -> None:
        """Let a suspended or stopped run go on."""
        await self._send(run_id, "resume", {"by": by, "reason": reason})

    async def _send(
        self, run_id: str, kind: str, body: Mapping[str, Any], message_id: str | None = None
    ) -> None:
        name = message_id or f"{kind}:{secrets.token_hex(12)}"
        message = Message(run_id, name, kind, body, self.clock.now())
        # What became of an action can be said after the end, too: a worker that serves reads it.
        unless = () if body.get("meant") == "statement" else OVER_RUN_STATES
        try:
            await self.journal.inbox_add(message, unless=unless)
        except (RunIsOver, MessageTooLong) as error:
            raise UsageError(str(error), hint=error.hint) from None
        self._hub.notify(run_id)

    # --- looking

    async def view(self, run_id: str) -> View:
        """The run as its log says it is. Raises UnknownRun."""
        return await load_view(self.journal, run_id)

    async def show(self, run_id: str) -> Shown:
        """The run, and for each open thing who moves next and which facts stand."""
        view = await self.view(run_id)
        return Shown(view, next_moves(view))

    async def watch(self, run_id: str, after: int = 0) -> AsyncIterator[StoredEvent]:
        """Every event with seq > `after`, as they come, until the run has ended."""
        changed = asyncio.Event()
        end_listening = self._hub.listen(run_id, changed.set)
        try:
            while True:
                changed.clear()
                row = await self.journal.run_row(run_id)
                page = await self.journal.read_events(run_id, after, 500)
                for event in page:
                    after = event.seq
                    yield event
                ended = row is None or row.state in ENDED_RUN_STATES
                if not page and ended:
                    return
                if not page:
                    await self._pause(changed)
        finally:
            end_listening()

    async def _pause(self, changed: asyncio.Event) -> None:
        woken = asyncio.ensure_future(changed.wait())
        pause = asyncio.ensure_future(self.clock.sleep(self._poll_s))
        await asyncio.wait({woken, pause}, return_when=asyncio.FIRST_COMPLETED)
        woken.cancel()
        pause.cancel()
