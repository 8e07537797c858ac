"""The pure parts of the agent runtime against simple oracles."""

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.agent.core.budgets import Budgets, Cost, Limits
from proctor.agent.core.locks import Access, LockTable, Mode, startable
from proctor.agent.core.sequence import Sequence32

paths = st.lists(st.sampled_from("abc"), max_size=3).map("/".join)
accesses = st.lists(st.builds(Access, st.sampled_from(Mode), paths), max_size=3).map(tuple)


def overlap(one: Access, two: Access) -> bool:
    """The oracle: two accesses exclude each other if one writes and one path holds the other."""
    if one.mode is two.mode is Mode.READ:
        return False
    a, b = one.path.split("/") if one.path else [], two.path.split("/") if two.path else []
    shorter = min(len(a), len(b))
    return a[:shorter] == b[:shorter]


def exclude(one, two) -> bool:
    return any(overlap(x, y) for x in one for y in two)


@given(st.lists(accesses, max_size=4), st.lists(accesses, max_size=6))
@settings(max_examples=400)
def test_what_may_start_is_what_the_pairwise_rule_says(held, queue):
    held = [h for i, h in enumerate(held) if not any(exclude(h, o) for o in held[:i])]
    expected = tuple(
        place
        for place, wanted in enumerate(queue)
        if not any(exclude(wanted, other) for other in held + queue[:place])
    )
    assert startable(held, queue) == expected


@given(st.lists(st.tuples(st.integers(0, 4), accesses), max_size=30))
def test_a_table_that_is_given_back_is_empty_and_never_lets_two_writers_in(steps):
    table, model = LockTable(), {}
    for owner, wanted in steps:
        if owner in model:
            table.release(owner)
            del model[owner]
        free = not any(exclude(wanted, other) for other in model.values())
        assert table.fits(wanted) == free
        if free:
            table.hold(owner, wanted)
            model[owner] = wanted
        assert all(table.holds(o) for o in model)
    for owner in model:
        table.release(owner)
    assert table.fits((Access(Mode.WRITE, ""),))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10_000)), max_size=200))
def test_a_sequence_is_a_list_and_old_versions_stay(steps):
    model, found, versions = [], Sequence32(), []
    for append, value in steps:
        versions.append((found, list(model)))
        if append or not model:
            found = found.append(value)
            model.append(value)
        else:
            found = found.replace(value % len(model), -value)
            model[value % len(model)] = -value
    assert list(found) == model
    assert [found[i] for i in range(len(found))] == model
    assert all(list(old) == copy for old, copy in versions)


def test_a_sequence_grows_over_its_levels():
    found = Sequence32()
    for number in range(33_000):
        found = found.append(number)
    assert list(found) == list(range(33_000))
    for length in (0, 1, 31, 32, 33, 1024, 1025, 33_000):
        made = Sequence32.of(range(length))
        assert list(made) == list(range(length))
        assert list(made.append("x")) == [*range(length), "x"]
        for start, stop in ((0, length), (0, 40_000), (5, 40), (31, 33), (32, 32), (1000, 1030)):
            assert made.span(start, stop) == list(range(length))[start:stop]
    assert found.replace(32_768, "x")[32_768] == "x"


amounts = st.builds(Cost, st.integers(0, 50).map(lambda n: Decimal(n) / 100), st.integers(0, 50))
moves = st.tuples(st.sampled_from(["reserve", "settle", "lose"]), amounts, st.integers(0, 9))


@given(st.integers(0, 200), st.integers(0, 200), st.lists(moves, max_size=60))
def test_budgets_never_promise_more_than_their_limits_and_forget_nothing(cents, tokens, made):
    """Calls cost at most their reservation here; the sums are kept beside."""
    budgets = Budgets(Limits(usd=Decimal(cents) / 100, tokens=tokens))
    held, spent, number = {}, Cost(), 0
    for move, amount, which in made:
        if move == "reserve":
            if budgets.problem(amount) is None:
                number += 1
                budgets = budgets.reserve(f"s{number}", amount)
                held[f"s{number}"] = amount
        elif held:
            source = sorted(held)[which % len(held)]
            reserved = held.pop(source)
            actual = Cost(min(amount.usd, reserved.usd), min(amount.tokens, reserved.tokens))
            budgets = budgets.settle(source, None if move == "lose" else actual)
            spent += reserved if move == "lose" else actual
        assert budgets.spent == spent
        assert budgets.reserved == sum(held.values(), Cost())
        total = budgets.spent + budgets.reserved
        assert total.usd <= budgets.limits.usd
        assert total.tokens <= budgets.limits.tokens
        left = budgets.left
        assert (budgets.problem(amount) is None) == (
            (not amount.usd or amount.usd <= left.usd)
            and (not amount.tokens or amount.tokens <= left.tokens)
        )


@given(amounts)
def test_costs_are_exact_through_json(amount):
    assert Cost.from_json(amount.to_json()) == amount
