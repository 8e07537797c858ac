"""What a tool says of the world before an execution: its needs, its conditions, its revision.
Checked, because a tool's own code runs on an agent's arguments here."""

import asyncio
from collections.abc import Mapping
from typing import Any

from proctor.agent.core.view import ActionView
from proctor.agent.driving.seam import awaited, call, objection, said, seconds, shown
from proctor.agent.tools import Need, Tool
from proctor.kernel import jsontext

KINDS = ("input", "timer", "child")
TEXT_LIMIT = 100_000
"""Characters of a prompt or a goal, and of settings as JSON."""


def need_of(tool: Tool, action: ActionView) -> Need | None:
    """The condition to be met first, or None. Raises ValueError saying what is wrong with it."""
    try:
        need = call(tool.needs, jsontext.copied(action.arguments))
        return None if need is None else _checked(need)
    except Exception as error:
        raise ValueError(f"needs: {said(error, 500)}") from error


def _checked(need: object) -> Need:
    if not isinstance(need, Need) or need.kind not in KINDS:
        raise ValueError(f"{shown(getattr(need, 'kind', need), 100)!r} is no need")
    _text(need.prompt, "a prompt")
    _text(need.goal, "a goal")
    if not isinstance(need.settings, Mapping):
        raise ValueError("settings are a mapping")
    settings: dict[str, Any] = jsontext.sanitized(dict(need.settings))
    if settings != dict(need.settings) or len(jsontext.dumps(settings)) > TEXT_LIMIT:
        raise ValueError(f"settings are JSON of at most {TEXT_LIMIT} characters")
    delay_s, expires_s = need.delay_s, need.expires_s
    if need.kind == "timer" or delay_s is not None:
        delay_s = seconds(delay_s, "delay_s")
    if expires_s is not None:
        expires_s = seconds(expires_s, "expires_s")
    return Need(need.kind, need.prompt, delay_s, expires_s, need.goal, settings)


def _text(text: object, what: str) -> None:
    if type(text) is not str or len(text) > TEXT_LIMIT:
        raise ValueError(f"{what} is a text of at most {TEXT_LIMIT} characters")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError(f"{what} holds characters that no text has")


async def revision_of(tool: Tool, action: ActionView) -> str:
    """What the tool's resource is now. Raises ValueError when that cannot be told."""
    try:
        async with asyncio.timeout(tool.timeout_s):
            revision = await awaited(tool.revision, jsontext.copied(action.arguments))
    except Exception as error:
        raise ValueError(f"its resource cannot be looked at: {said(error, 500)}") from error
    if type(revision) is not str:
        raise ValueError(f"its resource's revision is {type(revision).__name__}, not a text")
    return revision


async def unmet(tool: Tool, action: ActionView) -> str | None:
    """Why the world does not allow the action now, or None."""
    try:
        async with asyncio.timeout(tool.timeout_s):
            return objection(await awaited(tool.preconditions, jsontext.copied(action.arguments)))
    except Exception as error:  # noqa: BLE001 - a tool's own code
        return f"its preconditions cannot be checked: {said(error, 500)}"
