"""Cases: who owns a run."""

import asyncio

import pytest

from proctor.store.journal.contract import Conflict, Journal
from proctor.store.journal.errors import UnknownRun
from proctor.testing.clock import FakeClock
from proctor.testing.conformance.journal_base import (
    JournalCases,
    contents,
    event,
    owned,
    put,
)


class LeaseCases(JournalCases):
    """Claim, renew, release, fences."""

    def test_a_run_has_one_owner_until_its_lease_is_over(self) -> None:
        clock = FakeClock()

        async def case(journal: Journal) -> None:
            first = await owned(journal)
            assert first.fence == 1
            assert await journal.claim("r", "two", 60) is None
            clock.advance(59.9)
            assert await journal.claim("r", "two", 60) is None
            clock.advance(0.2)
            second = await journal.claim("r", "two", 60)
            assert second is not None
            assert second.fence == 2
            assert await journal.renew(first, 60) is None
            assert not await journal.release(first)
            row = await journal.run_row("r")
            assert row is not None
            assert (row.owner, row.fence, row.lease_until) == ("two", 2, second.until)

        self.check(case, clock)

    def test_a_former_owner_appends_nothing(self) -> None:
        clock = FakeClock()

        async def case(journal: Journal) -> None:
            first = await owned(journal)
            await put(journal, first, 0, event("a"))
            clock.advance(61)
            second = await journal.claim("r", "two", 60)
            assert second is not None
            late = await journal.append("r", 1, first.fence, [event("late")])
            assert late == Conflict(1, second.fence)
            await put(journal, second, 1, event("b"))
            assert await contents(journal) == [(1, "a"), (2, "b")]

        self.check(case, clock)

    def test_a_renewed_lease_lasts_longer(self) -> None:
        clock = FakeClock()

        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            clock.advance(50)
            renewed = await journal.renew(lease, 60)
            assert renewed is not None
            assert renewed.fence == lease.fence
            assert renewed.until > lease.until
            clock.advance(50)
            assert await journal.claim("r", "two", 60) is None
            clock.advance(20)  # over, but nobody came: it is still his
            assert await journal.renew(lease, 60) is not None
            assert await journal.claim("r", "two", 60) is None

        self.check(case, clock)

    def test_a_released_run_is_free_at_once_and_keeps_its_fence(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            assert await journal.release(lease)
            assert not await journal.release(lease)
            assert await journal.renew(lease, 60) is None
            row = await journal.run_row("r")
            assert row is not None
            assert (row.owner, row.lease_until, row.fence) == (None, None, 1)
            second = await journal.claim("r", "two", 60)
            assert second is not None
            assert second.fence == 2

        self.check(case)

    def test_the_same_owner_may_claim_again_and_loses_the_old_fence(self) -> None:
        async def case(journal: Journal) -> None:
            first = await owned(journal)
            again = await journal.claim("r", "one", 60)
            assert again is not None
            assert again.fence == first.fence + 1
            late = await journal.append("r", 0, first.fence, [event("late")])
            assert late == Conflict(0, again.fence)

        self.check(case)

    def test_a_dead_owner_is_replaced_before_the_lease_is_over(self) -> None:
        async def case(journal: Journal) -> None:
            await owned(journal)
            assert await journal.claim("r", "two", 60, dead_owner="another") is None
            taken = await journal.claim("r", "two", 60, dead_owner="one")
            assert taken is not None
            assert taken.fence == 2

        self.check(case)

    def test_of_many_claims_at_once_one_wins(self) -> None:
        async def case(journal: Journal) -> None:
            first = await owned(journal)
            await journal.release(first)
            found = await asyncio.gather(*(journal.claim("r", f"w{n}", 60) for n in range(8)))
            assert len([lease for lease in found if lease is not None]) == 1

        self.check(case)

    def test_two_openings_see_each_others_claims(self) -> None:
        clock = FakeClock()

        async def case(journal: Journal) -> None:
            other = self.open(clock)
            try:
                lease = await owned(journal)
                assert await other.claim("r", "two", 60) is None
                clock.advance(61)
                taken = await other.claim("r", "two", 60)
                assert taken is not None
                late = await journal.append("r", 0, lease.fence, [event("late")])
                assert late == Conflict(0, taken.fence)
                await put(other, taken, 0, event("a"))
                assert await contents(journal) == [(1, "a")]
            finally:
                await other.close()

        self.check(case, clock)

    def test_a_run_that_is_not_there_cannot_be_claimed(self) -> None:
        async def case(journal: Journal) -> None:
            with pytest.raises(UnknownRun, match="'nobody'"):
                await journal.claim("nobody", "one", 60)

        self.check(case)
