"""What a person says to an agent run. It is on disk before the command ends."""

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from proctor.agent.control import Control
from proctor.agent.core.view import View, WaitView
from proctor.cli.agent.place import one, opened
from proctor.cli.output import emit, one_line, say
from proctor.kernel import jsontext
from proctor.kernel.agent_states import RUN
from proctor.kernel.errors import UsageError
from proctor.store.journal.contract import Access, RunRow
from proctor.store.leases import is_dead

Send: TypeAlias = Callable[[Control, WaitView], Awaitable[None]]

_BY_OTHERS = {"timer": "the clock", "child": "a subtask"}


@dataclass(frozen=True, slots=True)
class Said:
    """To which wait of which run; `by` is the login name by default."""

    run: str
    wait: str
    where: str | None
    by: str | None
    as_json: bool

    @property
    def speaker(self) -> str:
        if self.by is not None:
            return self.by
        try:
            return getpass.getuser()
        except (OSError, KeyError):  # no such user: usual in containers
            return "user"


def answer(said: Said, value: str | None, json_value: str | None, happened: bool | None) -> int:
    """Answer a wait for input or for a statement."""
    if value is not None and json_value is not None:
        raise UsageError("give VALUE or --json-value, not both")
    given: Any = value if json_value is None else _parsed(json_value)

    async def send(control: Control, wait: WaitView) -> None:
        if wait.kind == "statement":
            if happened is None:
                raise UsageError(
                    f"{wait.id} asks whether it happened", hint="--happened or --did-not-happen"
                )
            text = "" if given is None else str(given)
            await control.state(said.run, wait.id, happened=happened, text=text, by=said.speaker)
            return
        if happened is not None or given is None:
            raise UsageError(f"{wait.id} asks for a value", hint="give VALUE or --json-value JSON")
        await control.answer(said.run, wait.id, given, by=said.speaker)

    return _send(said, send, "answer", ("input", "statement"))


def _parsed(text: str) -> Any:
    try:
        return jsontext.loads(text)
    except ValueError as error:
        raise UsageError(f"--json-value is not JSON: {error}") from None


def approve(said: Said, scope: str, expires_s: float | None) -> int:
    """Approve what a wait asks for."""

    async def send(control: Control, wait: WaitView) -> None:
        if wait.kind != "approval" and (scope != "once" or expires_s is not None):
            raise UsageError(f"--scope and --expires are for actions; {wait.id} is a {wait.kind}")
        await control.approve(said.run, wait.id, by=said.speaker, scope=scope, expires_s=expires_s)

    return _send(said, send, "approve", ("approval", "review", "workspace"))


def deny(said: Said, reason: str) -> int:
    """Say no to what a wait asks for."""

    async def send(control: Control, wait: WaitView) -> None:
        await control.deny(said.run, wait.id, by=said.speaker, reason=reason)

    return _send(said, send, "deny", ("approval", "review", "input"))


def cancel(said: Said, reason: str, compensate: bool) -> int:
    """Cancel a run and its subtasks."""

    async def sent() -> None:
        async with opened(said.where, Access.CONTROL) as control:
            view, row = await one(control, said.run)
            if view.ended:
                raise UsageError(f"run {said.run} has ended: {view.state}")
            await control.cancel(said.run, by=said.speaker, reason=reason, compensate=compensate)
            _tell(said, "cancel", row)

    asyncio.run(sent())
    return 0


def resume(said: Said, reason: str) -> int:
    """Let a suspended or stopped run go on."""

    async def sent() -> None:
        async with opened(said.where, Access.CONTROL) as control:
            view, row = await one(control, said.run)
            if "resume" not in RUN.table[view.state]:
                raise UsageError(
                    f"run {said.run} is {view.state}: nothing to resume",
                    hint="only a run that is suspended or stopped is resumed",
                )
            await control.resume(said.run, by=said.speaker, reason=reason)
            _tell(said, "resume", row)

    asyncio.run(sent())
    return 0


def _send(said: Said, send: Send, verb: str, kinds: tuple[str, ...]) -> int:
    async def sent() -> None:
        async with opened(said.where, Access.CONTROL) as control:
            view, row = await one(control, said.run)
            await send(control, _wait(view, said.wait, verb, kinds))
            _tell(said, verb, row)

    asyncio.run(sent())
    return 0


def _tell(said: Said, verb: str, row: RunRow) -> None:
    """Say that it is on disk, and who is going to read it."""
    if said.as_json:
        emit({"run_id": said.run, "wait": said.wait or None, "said": verb, "by": said.speaker,
              "owner": row.owner})  # fmt: skip
        return
    driven = row.owner is not None and not is_dead(row.owner)
    then = "its worker applies it" if driven else "the next worker of the run applies it"
    say(f"recorded: {verb} {one_line(said.wait or said.run)}; {then}")


def _wait(view: View, name: str, verb: str, kinds: tuple[str, ...]) -> WaitView:
    """The open wait `name`, if `verb` is a way to meet it."""
    wait = view.wait(name)
    if wait is None or wait.state != "open":
        reason = "there is none" if wait is None else f"it was closed before: {wait.state}"
        open_now = ", ".join(f"{w.id} ({w.kind})" for w in view.waiting()) or "nothing"
        raise UsageError(
            f"run {view.run_id} does not wait for {name!r}: {reason}",
            hint=f"it waits for {open_now}",
        )
    if wait.kind in _BY_OTHERS:
        raise UsageError(f"{name} is met by {_BY_OTHERS[wait.kind]}, not by a person")
    if wait.kind not in kinds:
        hint = f"proctor agent show {view.run_id} says how each wait is met"
        raise UsageError(f"{name} is a wait of kind {wait.kind}: not met with {verb}", hint=hint)
    return wait
