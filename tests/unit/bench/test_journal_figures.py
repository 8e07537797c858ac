"""What the journal's benchmark does, and the one figure that does not depend on the machine."""

import asyncio

from bench.journal import bare_syncs, many, steps, stored_ratio

from proctor.store.journal.sqlite import open_sqlite


def test_the_work_is_what_it_says(tmp_path):
    async def case():
        async with open_sqlite(tmp_path / "journal.sqlite") as journal:
            rate, cpu = await many(journal, "r", 4, 3)
            assert rate > 0
            assert cpu > 0
            assert await steps(journal, "one", 0.05) > 0
            for n in range(4):
                assert len(await journal.read_events(f"r{n}")) == 6
                rows = await journal.read_rows("action", f"r{n}")
                assert [row.values["state"] for row in rows] == ["done"] * 3
                assert len(await journal.read_rows("attempt", f"r{n}")) == 3

    asyncio.run(case())
    assert bare_syncs(tmp_path, 0.05) > 0


def test_a_journal_takes_at_most_three_times_its_payload(tmp_path):
    assert stored_ratio(tmp_path) <= 3
