"""Unknown outcomes of queryable actions: the other side is asked, with backoff, for a while."""

import asyncio
from typing import Any

from proctor.agent.core import commands as cmd
from proctor.agent.core.view import ActionView
from proctor.agent.driving.desk import Desk
from proctor.agent.driving.outcomes import bounded, cut
from proctor.agent.driving.seam import awaited, said
from proctor.agent.driving.wholes import kept
from proctor.agent.tools import Answer, QueryAnswer, Tool, ToolResult
from proctor.kernel import jsontext
from proctor.kernel.errors import StorageError
from proctor.kernel.faults import fault_point

_LONGEST_PAUSE_S = 15.0


def ask_unknown(desk: Desk) -> bool:
    """Begin to ask about every unknown outcome that nobody asks about; whether one was begun."""
    begun = False
    for action in desk.view.unfinished("unknown"):
        if action.id in desk.queries:
            continue
        tool = desk.setup.tools.get(action.tool)
        if tool is None or action.effect != "queryable":
            known = {"reason": f"tool {action.tool!r} cannot be asked any more"}
            desk.recorder.must(
                cmd.Settle(action.id, "cannot_be_settled", "runtime", handover=known)
            )
        else:
            desk.queries[action.id] = desk.spawn(_ask(desk, action, tool))
        begun = True
    return begun


async def _ask(desk: Desk, action: ActionView, tool: Tool) -> None:
    """Ask until there is an answer, then hand it in. Not while our own execution still runs: the
    other side cannot know yet what that will do."""
    if desk.dispatcher.lives(action.id):
        try:
            if not await desk.dispatcher.ends(action.id):
                told = {"reason": "its execution still runs in this worker"}
                desk.commands.append(
                    cmd.Settle(action.id, "cannot_be_settled", "runtime", handover=told)
                )
        finally:
            desk.queries.pop(action.id, None)
            desk.wake()
        return
    timing, clock = desk.setup.timing, desk.setup.clock
    # Who takes over asks once at least, and has what earlier workers left of the time.
    gone = max(0.0, (desk.recorder.steady_ms() - action.unknown_ms) / 1000)
    deadline = clock.monotonic() + max(0.0, timing.query_deadline_s - gone)
    pause, asked, last = timing.query_pause_s, 0, ""
    try:
        while True:
            asked += 1
            settled = None
            fault_point("agent.query.begin")
            try:
                async with asyncio.timeout(tool.timeout_s):
                    answer = await awaited(
                        tool.query, action.op_key, jsontext.copied(action.arguments)
                    )
                settled = await _settled(desk, action, answer, asked)
            except StorageError as error:
                desk.recorder.fail(error)
                return
            except Exception as error:  # noqa: BLE001 - no answer yet, whatever the reason
                last = said(error, 500)
            fault_point("agent.query.end")
            if settled is not None:
                desk.commands.append(settled)
                return
            if clock.monotonic() + pause >= deadline:
                known = {"asked": asked, "last_error": last}
                desk.commands.append(
                    cmd.Settle(action.id, "cannot_be_settled", "query", handover=known)
                )
                return
            await clock.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
    finally:
        desk.queries.pop(action.id, None)
        desk.wake()


async def _settled(
    desk: Desk, action: ActionView, answer: QueryAnswer, asked: int
) -> cmd.Settle | None:
    """What an answer settles; None: nothing. Raises TypeError for what is no answer."""
    if not isinstance(answer, QueryAnswer) or not isinstance(answer.answer, Answer):
        raise TypeError(f"the query returned {type(answer).__name__}, not QueryAnswer")
    if answer.answer is Answer.UNKNOWN:
        return None
    if answer.answer is Answer.DID_NOT_HAPPEN:
        return cmd.Settle(action.id, "did_not_happen", "query", handover={"asked": asked})
    result = answer.result
    text = "It happened (found out by asking; its result is not known)."
    evidence: dict[str, Any] = {}
    if isinstance(result, ToolResult):
        text, whole = cut(result.text)
        evidence = bounded(result.evidence) | await kept(desk, whole)
    return cmd.Settle(action.id, "happened", "query", text, evidence, {"asked": asked})
