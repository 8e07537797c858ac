"""Searching in killable workers: verdicts, the bomb, no process left."""

import asyncio
import gc
import os
import select
import subprocess
import sys
import textwrap
import time

import pytest

from proctor.benchmarks.table import Table, TableOptions
from proctor.benchmarks.table.scorers import regex_worker
from proctor.benchmarks.table.scorers.regex_worker import RegexSearch, SearchFailed, SearchTimeout
from proctor.evals.contracts import PreparedTask, RunResult, TaskSpec

BOMB, VICTIM = r"^(a|a)*$", "a" * 60 + "!"


def children():
    """Pids of our child processes, zombies included."""
    found = set()
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
            found.update(map(int, file.read().split()))
    return found


@pytest.mark.parametrize(
    ("pattern", "answer", "options", "expected"),
    [
        (r"\b18\b", "it is 18.", {}, 1),
        (r"\b18\b", "it is 180.", {}, 0),
        ("^yes$", "no\nyes", {}, 0),
        ("(?m)^yes$", "no\nyes", {}, 1),
        ("YES", "yes", {}, 0),
        ("YES", "yes", {"ignore_case": True}, 1),
        ("é|\u2028", "caf\u2028", {}, 1),
        (r"\ud83d", "\ud83d", {}, 1),
        (18, 18, {}, 1),
        (r'"a": ?1', {"a": 1}, {}, 1),
        ("x$", "y" * 900_000 + "x", {}, 1),
    ],
)
def test_regex(grade, pattern, answer, options, expected):
    evaluation = grade("regex", pattern, answer, **options)
    assert evaluation.metrics == {"correct": expected}
    assert evaluation.issues == ()


def test_one_pattern_for_all(grade):
    assert grade("regex", None, "yes!", pattern="^yes").metrics == {"correct": 1}
    assert grade("regex", "(", "no", pattern="^yes").metrics == {"correct": 0}


def test_an_answer_over_the_limit_is_unparsed(grade):
    evaluation = grade("regex", "x", "x" * 1_000_001)
    assert evaluation.metrics == {"correct": 0}
    assert [i.code for i in evaluation.issues] == ["unparsed_answer"]


def test_a_bomb_is_unavailable_and_the_driver_stays_responsive(grade):
    table = Table(TableOptions(scorer="regex", time_limit_s=0.5))

    async def evaluated(pattern, answer):
        prepared = PreparedTask(TaskSpec("t", "q", target=pattern), "q")
        return await table.evaluate(prepared, RunResult(final_answer=answer), None)

    async def run():
        lags = []

        async def watch():
            while True:
                before = time.monotonic()
                await asyncio.sleep(0.01)
                lags.append(time.monotonic() - before - 0.01)

        watcher = asyncio.create_task(watch())
        bombs = [evaluated(BOMB, VICTIM) for _ in range(3)]
        found = await asyncio.gather(*bombs, *(evaluated("y+", "xyz") for _ in range(20)))
        after = await evaluated("y+", "xyz")
        watcher.cancel()
        await table.close()
        return found, after, sorted(lags)

    before = children()
    found, after, lags = asyncio.run(run())
    for evaluation in found[:3]:
        assert evaluation.metrics == {}
        (issue,) = evaluation.issues
        assert (issue.severity, issue.cause, issue.code) == ("error", "evaluator", "scorer_timeout")
        assert "longer than 0.5 s" in evaluation.unavailable["correct"]
    assert [e.metrics for e in [*found[3:], after]] == [{"correct": 1}] * 21
    assert lags[len(lags) // 2] < 0.1
    assert children() == before


def test_a_worker_out_of_memory_is_the_evaluators_fault(monkeypatch):
    monkeypatch.setattr(regex_worker, "MEMORY_LIMIT_BYTES", 100 * 1024 * 1024)

    async def run():
        search = RegexSearch(20)
        try:
            with pytest.raises(SearchFailed, match=r"MemoryError|without a result"):
                await search.search("(?:(x)|y)+z", "xy" * 4_000_000, False)
            return await search.search("a", "a", False)
        finally:
            await search.close()

    assert asyncio.run(run())


def test_a_killed_worker_is_replaced():
    async def run():
        search = RegexSearch(5, max_workers=1)
        before = children()
        assert await search.search("a", "a", False)
        (worker,) = children() - before
        os.kill(worker, 9)
        with pytest.raises(SearchFailed):
            await search.search("a", "a", False)
        assert await search.search("a", "a", False)
        await search.close()
        return before

    assert asyncio.run(run()) == children()


def test_workers_are_reused_and_bounded():
    async def run():
        search = RegexSearch(30, max_workers=2)
        before = children()
        assert all(await asyncio.gather(*(search.search("a", "a", False) for _ in range(50))))
        started = children() - before
        assert all(await asyncio.gather(*(search.search("a", "a", False) for _ in range(50))))
        assert children() - before == started
        await search.close()
        return len(started)

    assert asyncio.run(run()) == 2


def test_cancelling_a_search_kills_its_worker_and_frees_its_turn():
    async def run():
        search = RegexSearch(60, max_workers=1)
        before = children()
        running = asyncio.create_task(search.search(BOMB, VICTIM, False))
        waiting = asyncio.create_task(search.search("b", "b", False))
        next_one = asyncio.create_task(search.search("c", "c", False))
        await asyncio.sleep(0)  # the first search starts its worker in its first step
        assert len(children() - before) == 1
        waiting.cancel()
        running.cancel()
        results = await asyncio.gather(running, waiting, return_exceptions=True)
        assert [type(r) for r in results] == [asyncio.CancelledError] * 2
        assert await next_one
        await search.close()
        return before

    assert asyncio.run(run()) == children()


def test_one_search_serves_several_event_loops_in_turn():
    search = RegexSearch(5, max_workers=1)
    assert asyncio.run(search.search("a", "a", False))
    assert not asyncio.run(search.search("a", "b", False))
    with pytest.raises(SearchTimeout):
        asyncio.run(RegexSearch(0.2).search(BOMB, VICTIM, False))
    asyncio.run(search.close())


def test_workers_end_with_their_table():
    before = children()
    table = Table(TableOptions(scorer="regex"))
    prepared = PreparedTask(TaskSpec("t", "q", target="a"), "q")
    asyncio.run(table.evaluate(prepared, RunResult(final_answer="a"), None))
    assert len(children() - before) == 1
    del table
    gc.collect()
    assert children() == before


@pytest.mark.slow
def test_workers_end_with_a_killed_driver(tmp_path):
    """Even one that is in the middle of a search that never ends."""
    program = textwrap.dedent(f"""
        import asyncio, os, sys
        from proctor.benchmarks.table.scorers.regex_worker import RegexSearch
        async def main():
            search = RegexSearch(0.5)
            task = asyncio.create_task(search.search({BOMB!r}, {VICTIM!r}, False))
            await asyncio.sleep(0)
            with open(f"/proc/self/task/{{os.getpid()}}/children") as children:
                sys.stdout.write(children.read())
            sys.stdout.flush()
            os.kill(os.getpid(), 9)
        asyncio.run(main())
    """)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -9
    (worker,) = map(int, done.stdout.split())
    handle = None
    try:
        handle = os.pidfd_open(worker)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([handle], [], [], 20)
    os.close(handle)
    assert ended
