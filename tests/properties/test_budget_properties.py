"""Budgets under random interleavings of reservations, settlements and restarts."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from proctor.evals.results.spending import SpendingFile, read_spending
from proctor.kernel.budget import Amount, Budget, BudgetExhausted, BudgetLimits

cents = st.integers(0, 60).map(lambda n: Decimal(n) / 100)
amounts = st.builds(Amount, cents, st.integers(0, 60))
limits = st.builds(BudgetLimits, st.none() | cents.filter(bool), st.none() | st.integers(1, 100))
steps = st.lists(
    st.tuples(st.sampled_from(["reserve", "settle", "unknown"]), amounts, st.integers(0, 5)),
    max_size=40,
)


def fits(amount: Amount, limit: BudgetLimits) -> bool:
    money = limit.usd is None or amount.usd <= limit.usd
    return money and (limit.tokens is None or amount.tokens <= limit.tokens)


@given(limits, limits, steps)
def test_what_is_reserved_and_spent_never_exceeds_any_limit(whole, part, made):
    """Calls cost at most what was reserved; two runs share a launch's budget."""
    parent = Budget("launch", whole)
    runs = [Budget("a", part, parent=parent), Budget("b", BudgetLimits(), parent=parent)]
    held = []
    for what, amount, choice in made:
        run = runs[choice % 2]
        if what == "reserve":
            before = [(b.spent, b.reserved) for b in (parent, *runs)]
            allowed = all(fits(b.spent + b.reserved + amount, b.limits) for b in (run, parent))
            try:
                held.append((run, run.reserve(amount)))
                assert allowed
            except BudgetExhausted:
                assert not allowed
                assert [(b.spent, b.reserved) for b in (parent, *runs)] == before
        elif held:
            _, reservation = held.pop(choice % len(held))
            if what == "unknown":
                reservation.settle_unknown()
            else:
                cost = Amount(
                    min(amount.usd, reservation.amount.usd),
                    min(amount.tokens, reservation.amount.tokens),
                )
                reservation.settle(cost)
                reservation.settle(amount)  # only the first counts
        for budget in (parent, *runs):
            assert fits(budget.spent + budget.reserved, budget.limits)
        assert parent.spent == runs[0].spent + runs[1].spent
        assert parent.reserved == runs[0].reserved + runs[1].reserved
    for _, reservation in held:
        reservation.settle_unknown()
    assert parent.reserved == Amount()
    assert fits(parent.spent, whole)


@given(limits, steps)
def test_a_call_that_costs_more_overshoots_by_its_own_excess_at_most(limit, made):
    budget, held = Budget("run", limit), []
    excess = Amount()
    for what, amount, choice in made:
        if what == "reserve":
            try:
                held.append(budget.reserve(amount))
            except BudgetExhausted:
                continue
        elif held:
            reservation = held.pop(choice % len(held))
            reservation.settle(amount)
            excess += Amount(
                max(amount.usd - reservation.amount.usd, Decimal(0)),
                max(amount.tokens - reservation.amount.tokens, 0),
            )
        assert fits(budget.spent + budget.reserved - excess, limit)


@given(limits, steps, st.lists(st.integers(0, 40), max_size=3))
def test_what_was_spent_is_counted_after_a_restart(tmp_path_factory, limit, made, restarts):
    """Whatever was in flight when the process ended counts as spent whole."""
    run_dir = str(tmp_path_factory.mktemp("run"))
    budget, held, expected, log = None, [], Amount(), None

    def restart() -> Budget:
        nonlocal log
        if log is not None:
            log.close()
        spent, number = read_spending(run_dir)
        assert spent == expected
        log = SpendingFile(run_dir)
        return Budget("run", limit, spent=spent, log=log, first_number=number)

    budget = restart()
    for position, (what, amount, choice) in enumerate(made):
        if position in restarts:
            for reservation in held:
                expected += reservation.amount
            held.clear()
            budget = restart()
        if what == "reserve":
            try:
                held.append(budget.reserve(amount))
            except BudgetExhausted:
                continue
        elif held:
            held.pop(choice % len(held)).settle(amount)
            expected += amount
    for reservation in held:
        expected += reservation.amount
    restart()
    assert log is not None
    log.close()


@given(limits, st.lists(amounts, max_size=20))
def test_a_budget_is_exhausted_only_when_a_refused_call_can_never_fit(limit, asked):
    budget = Budget("run", limit)
    for amount in asked:
        try:
            budget.reserve(amount).settle(Amount())
        except BudgetExhausted:
            assert not fits(amount, limit)
            assert budget.exhausted
        else:
            assert fits(amount, limit)
