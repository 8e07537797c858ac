"""What every rule of `decide` uses."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from proctor.agent.core import events as ev
from proctor.agent.core.canonical import arguments_text
from proctor.agent.core.commands import Refusal
from proctor.agent.core.view import ActionView, View
from proctor.kernel.digest import of_text
from proctor.kernel.jsontext import canonical

Decision: TypeAlias = tuple[ev.AgentEvent, ...] | Refusal


def refuse(code: str, reason: str) -> Refusal:
    """A refusal."""
    return Refusal(code, reason)


def cannot(view: View, event: str) -> str:
    """Why a run in this state does not take this event."""
    return f"a run that is {view.state} does not take {event!r}"


def effects_of(before: View, after: View) -> tuple[ev.EffectsSettled, ...]:
    """The third record of a cancellation, for each action that was executing and has come to
    rest; a compensation that is done also settles what it compensates."""
    found: list[ev.EffectsSettled] = []
    for action in before.unfinished():
        now = after.action(action.id)
        if now is None or now.effects or not now.started_seq:
            continue
        if effects := _effects(now):
            found.append(ev.EffectsSettled(now.id, effects))
            if now.compensates is not None and effects == "done":
                found.append(ev.EffectsSettled(now.compensates, "compensated", now.id))
    return tuple(found)


def _effects(action: ActionView) -> str | None:
    if action.state == "stopped":
        return "unknown"
    if action.state in ("cancelled", "failed") and action.past == "done":
        return "done"  # it had its effect, and the result was not accepted
    if action.state == "done" and not action.timed_out:
        return "none" if action.effect == "pure" else "done"
    if action.state == "done":  # a confirmed stop: what it had done by then stays
        return "none" if action.effect == "pure" else "unknown"
    return "none" if action.state in ("cancelled", "failed") else None


def op_key(run_id: str, action_id: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """The operation key: fixed at acceptance, the same over all attempts of an action. The digest
    of `[run_id, action_id, tool, arguments]`."""
    named = canonical([run_id, action_id, tool])
    return of_text(f"{named[:-1]},{arguments_text(arguments)}]")
