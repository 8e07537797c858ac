"""What closes a wait: each kind by its own word, and by nobody else's.

An answer that was meant for something else (a text for an approval, a statement for a question)
counts for nothing: it is refused, and the wait stays open.
"""

from collections.abc import Mapping
from typing import Any

from proctor.agent.core.view import WaitView

PEOPLE = ("approval", "input", "statement", "workspace", "review")
MEANT = {
    "approval": ("approval", "review", "workspace"),
    "statement": ("statement",),
    "answer": ("input", "review", "workspace"),
    "denial": ("approval", "input", "review"),
}
"""What somebody says, and the kinds of waits it can close."""
_BY = {"timer": "clock", "child": "child"}
_LATEST_MS = 10**15


def expiry(value: Any) -> int | None:
    """Until when (UTC milliseconds) an approval counts; None for ever. A moment that cannot be read
    is over: nothing is permitted by mistake."""
    until = value.get("expires_ms") if isinstance(value, Mapping) else None
    if until is None:
        return None
    return until if type(until) is int and 0 <= until <= _LATEST_MS else 0


def problem(wait: WaitView, how: str, source: str, meant: str, value: Any) -> str | None:
    """Why this does not close the wait, or None. `source`: person, clock, child, runtime."""
    if how not in ("arrived", "denied"):
        return None
    wanted = _BY.get(wait.kind, "person")
    if source != wanted:
        who = {"clock": "time", "child": "the end of its subtask"}.get(wanted, "a person")
        return f"a wait of kind {wait.kind} is closed by {who}, not by this"
    if source == "person" and meant and wait.kind not in MEANT.get(meant, ()):
        return f"wait {wait.id} is of kind {wait.kind}: it is not met by {meant!r}"
    if how == "denied":
        return _denied(wait)
    return _arrived(wait, value)


def _denied(wait: WaitView) -> str | None:
    if wait.kind == "statement":
        return "say whether it happened: {happened: true or false, text: …}"
    if wait.kind == "workspace":
        return "restore the files, or approve them as they are, or cancel the run"
    return None


def _arrived(wait: WaitView, value: Any) -> str | None:
    if wait.kind == "approval":
        return _approval(value)
    if wait.kind in ("review", "workspace") and value not in (None, True):
        if isinstance(value, Mapping) and _approval(value) is None:
            once = value["scope"] == "once" and value.get("expires_ms") is None
            return None if once else "a scope and an end are for actions"
        return f"a wait of kind {wait.kind} is approved or denied; a text is neither"
    if wait.kind == "statement":
        if not isinstance(value, Mapping):
            return "say whether it happened: {happened: true or false, text: …}"
        if not isinstance(value.get("happened"), bool):
            return "happened is true or false"
    return None


def _approval(value: Any) -> str | None:
    """Only a decision approves: its scope is said, and its end is a moment."""
    if not isinstance(value, Mapping) or value.get("scope") not in ("once", "run"):
        return "an approval says its scope: once or run"
    until = value.get("expires_ms")
    if until is not None and (type(until) is not int or not 0 <= until <= _LATEST_MS):
        return "expires_ms is a moment in UTC milliseconds, or null"
    return None
