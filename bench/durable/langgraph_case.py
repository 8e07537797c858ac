"""LangGraph: see bench/durable/work.py. VARIANT for `steps`: `list` keeps the results as agents do,
with a reducer that adds; `delta` in its DeltaChannel (beta). For `effect`: `keyed` passes a key of
its own to the other side, as its guide to durable execution advises; `plain` does not.

One run uses SqliteSaver, several use AsyncSqliteSaver; `durability="sync"`.
"""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from bench.durable import work

FILE = "langgraph.sqlite"


def config(thread: str, steps: int) -> dict[str, Any]:
    """The thread, and leave for so many steps."""
    return {"configurable": {"thread_id": thread}, "recursion_limit": steps + 10}


def state_of(variant: str) -> Any:
    """The type of the graph's state."""
    if variant != "delta":

        class Listed(TypedDict):
            results: Annotated[list[str], operator.add]

        return Listed

    from langgraph.channels import DeltaChannel

    def add(before: list[str], writes: list[list[str]]) -> list[str]:
        return before + [one for write in writes for one in write]

    class Differences(TypedDict):
        results: Annotated[list[str], DeltaChannel(add)]

    return Differences


def graph(state: Any, act: Any, steps: int, saver: Any) -> Any:
    """A loop of one node, as often as `steps`."""
    from langgraph.graph import END, START, StateGraph

    builder = StateGraph(state)
    builder.add_node("act", act)
    builder.add_edge(START, "act")
    builder.add_conditional_edges(
        "act", lambda found: END if len(found["results"]) >= steps else "act", ["act", END]
    )
    return builder.compile(checkpointer=saver)


def act(found: Any) -> dict[str, Any]:
    """A step."""
    return {"results": [work.result(len(found["results"]))]}


async def act_soon(found: Any) -> dict[str, Any]:
    """The same for a loop."""
    return act(found)


def steps(place: str, variant: str, runs: int, count: int) -> dict[str, Any]:
    """All threads at once."""
    state = state_of(variant)
    if runs > 1:
        return asyncio.run(many(state, runs, count))
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(FILE) as saver:
        saver.setup()
        loop = graph(state, act, count, saver)
        measured = work.Measured(runs, count)
        check(loop.invoke({"results": []}, config("t", count), durability="sync"), count)
        return measured.end()


async def many(state: Any, runs: int, count: int) -> dict[str, Any]:
    """Several threads in one event loop."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(FILE) as saver:
        await saver.setup()
        loop = graph(state, act_soon, count, saver)
        measured = work.Measured(runs, count)
        found = await asyncio.gather(
            *(
                loop.ainvoke({"results": []}, config(f"t{n}", count), durability="sync")
                for n in range(runs)
            )
        )
        costs = measured.end()
    for one in found:
        check(one, count)
    return costs


def check(found: Any, count: int) -> None:
    """All results are there."""
    if len(found["results"]) != count:
        raise SystemExit(f"{len(found['results'])} results instead of {count}")


def one_effect(place: str, variant: str, socket: str) -> str:
    """The second time: invoke the same thread without input, which resumes it."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    def pay(found: Any) -> dict[str, Any]:
        count = work.effect(socket, f"langgraph-{variant}", once=variant == "keyed")
        work.die_once()
        return {"results": [f"effect {count}"]}

    with SqliteSaver.from_conn_string(FILE) as saver:
        loop = graph(state_of("list"), pay, 1, saver)
        given: dict[str, Any] | None = None if work.recovering() else {"results": []}
        loop.invoke(given, config("pay", 1), durability="sync")
        left = loop.get_state(config("pay", 1)).next
    return f"waits for {left}" if left else "done"


if __name__ == "__main__":
    work.main(steps, one_effect)
