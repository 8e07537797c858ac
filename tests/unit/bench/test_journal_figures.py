"""What the journal's benchmark does, and the one figure that does not depend on the machine."""

import asyncio

import pytest
from bench.journal import Rounds, bare_syncs, many, rate_limits, steps, stored_ratio

from proctor.store.journal.sqlite import open_sqlite


def test_the_work_is_what_it_says(tmp_path):
    async def case():
        async with open_sqlite(tmp_path / "journal.sqlite") as journal:
            rate, cpu = await many(journal, "r", 4, 3)
            assert rate > 0
            assert cpu > 0
            assert min(await steps(journal, "one", 0.05)) > 0
            for n in range(4):
                assert len(await journal.read_events(f"r{n}")) == 6
                rows = await journal.read_rows("action", f"r{n}")
                assert [row.values["state"] for row in rows] == ["done"] * 3
                assert len(await journal.read_rows("attempt", f"r{n}")) == 3

    asyncio.run(case())
    assert bare_syncs(tmp_path, 0.05) > 0


def test_a_journal_takes_at_most_three_times_its_payload(tmp_path):
    assert stored_ratio(tmp_path) <= 3


def test_figures_are_medians_and_the_server_counts_apart():
    found = Rounds(
        bare=[100.0, 300.0, 200.0],
        one=[(150.0, 0.001), (130.0, 0.003), (90.0, 0.002)],
        several=[(3000.0, 0.0001), (5000.0, 0.0003), (2000.0, 0.0002)],
        server_s=[0.0004, 0.0001, 0.0002],
    )
    named = {limit.what: limit for limit in rate_limits(found)}
    assert (named["durable steps, one run"].value, named["durable steps, one run"].limit) == (
        130,
        120,
    )
    assert named["durable actions, 64 runs"].value == 3000
    assert named["CPU an action, 64 runs"].value == pytest.approx(0.2)
    assert named["CPU of the server an action"].value == pytest.approx(0.2)
    assert all(limit.kept for limit in named.values())
