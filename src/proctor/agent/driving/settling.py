"""Unknown outcomes of queryable actions: the other side is asked, with backoff, for a while."""

import asyncio

from proctor.agent.core import commands as cmd
from proctor.agent.core.view import ActionView
from proctor.agent.driving.desk import Desk
from proctor.agent.tools import Answer, QueryAnswer, Tool
from proctor.kernel import jsontext
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
    """Ask until there is an answer, then hand it in."""
    timing, clock = desk.setup.timing, desk.setup.clock
    deadline = clock.monotonic() + timing.query_deadline_s
    pause, asked, last = timing.query_pause_s, 0, ""
    try:
        while True:
            asked += 1
            fault_point("agent.query.begin")
            try:
                async with asyncio.timeout(tool.timeout_s):
                    answer = await tool.query(action.op_key, action.arguments)
            except Exception as error:  # noqa: BLE001 - no answer yet, whatever the reason
                answer, last = QueryAnswer(Answer.UNKNOWN), str(error) or type(error).__name__
            fault_point("agent.query.end")
            if answer.answer is not Answer.UNKNOWN:
                desk.commands.append(_settled(action, answer, asked))
                return
            if clock.monotonic() + pause >= deadline:
                known = {"asked": asked, "last_error": last[:500]}
                desk.commands.append(
                    cmd.Settle(action.id, "cannot_be_settled", "query", handover=known)
                )
                return
            await clock.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
    finally:
        desk.queries.pop(action.id, None)
        desk.wake()


def _settled(action: ActionView, answer: QueryAnswer, asked: int) -> cmd.Settle:
    if answer.answer is Answer.DID_NOT_HAPPEN:
        return cmd.Settle(action.id, "did_not_happen", "query", handover={"asked": asked})
    result = answer.result
    text = "It happened (found out by asking; its result is not known)."
    return cmd.Settle(
        action.id,
        "happened",
        "query",
        text if result is None else result.text,
        {} if result is None else jsontext.sanitized(dict(result.evidence)),
        {"asked": asked},
    )
