"""What a run may spend: reserved before, settled after, as a value inside the view.

Money is an exact decimal in US dollars; time is in whole milliseconds. A reservation whose outcome
is unknown stays reserved, and counts as spent when nobody will ever know.
"""

from collections.abc import Mapping
from decimal import Decimal
from operator import attrgetter
from typing import Any

from msgspec import Struct, field

ZERO = Decimal(0)
DIMENSIONS = ("usd", "tokens", "steps", "tool_ms", "wall_ms")
_amounts = attrgetter(*DIMENSIONS)


class Cost(Struct, frozen=True, gc=False):
    """An amount in every dimension. `steps` counts turns; `tool_ms` is time spent in tools."""

    usd: Decimal = ZERO
    tokens: int = 0
    steps: int = 0
    tool_ms: int = 0
    wall_ms: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        return Cost(
            self.usd + other.usd,
            self.tokens + other.tokens,
            self.steps + other.steps,
            self.tool_ms + other.tool_ms,
            self.wall_ms + other.wall_ms,
        )

    def __sub__(self, other: "Cost") -> "Cost":
        if other is NOTHING:
            return self
        return Cost(
            self.usd - other.usd,
            self.tokens - other.tokens,
            self.steps - other.steps,
            self.tool_ms - other.tool_ms,
            self.wall_ms - other.wall_ms,
        )

    def most(self, other: "Cost") -> "Cost":
        """The larger amount in each dimension."""
        return Cost(*map(max, _amounts(self), _amounts(other)))

    def to_json(self) -> dict[str, Any]:
        """Only what is not zero; money as text."""
        if self is NOTHING:
            return {}
        if self is ONE_STEP:
            return dict(_ONE_STEP)
        found: dict[str, Any] = {n: v for n in DIMENSIONS[1:] if (v := getattr(self, n))}
        if self.usd:
            found["usd"] = format(self.usd, "f")
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Cost":
        if not data:
            return NOTHING
        if data == _ONE_STEP:
            return ONE_STEP
        return cls(
            Decimal(data["usd"]) if "usd" in data else ZERO,
            *[int(data.get(name, 0)) for name in DIMENSIONS[1:]],
        )


NOTHING = Cost()
ONE_STEP = Cost(steps=1)
_ONE_STEP = {"steps": 1}
_MOST = 10**15
_DIGITS = 30  # behind the point, and in all: no text of money is longer than that


def problem_of(value: Any, name: str) -> str | None:
    """Why `value` is not an amount of this dimension, or None."""
    if name != "usd":
        good = type(value) is int and 0 <= value <= _MOST
    else:
        money = Decimal(value) if type(value) is int else value
        good = type(money) is Decimal and money.is_finite() and 0 <= money <= _MOST
        good = good and -_DIGITS <= int(money.as_tuple().exponent) <= _DIGITS
    return None if good else f"budget {name}: {str(value)[:40]} is not an amount of 0 or more"


def flaw(amounts: "Cost | Limits") -> str | None:
    """Why these are not amounts to reckon with (negative, not finite, of another type), or None.
    What a policy, a tool or a message says is asked here first."""
    if amounts is NOTHING or amounts is ONE_STEP or amounts is UNLIMITED:
        return None
    for name in DIMENSIONS:
        value = getattr(amounts, name)
        if value is not None and (found := problem_of(value, name)):
            return found
    return None


def amount(data: Any) -> Cost | None:
    """The cost that JSON from outside says, or None if it is none."""
    try:
        cost = Cost.from_json(data)
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    return None if flaw(cost) else cost


class Limits(Struct, frozen=True, gc=False):
    """None is no limit. Wall time counts while a worker owns the run, not while it waits."""

    usd: Decimal | None = None
    tokens: int | None = None
    steps: int | None = None
    tool_ms: int | None = None
    wall_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        found = {n: v for n in DIMENSIONS if (v := getattr(self, n)) is not None}
        return {n: format(v, "f") if isinstance(v, Decimal) else v for n, v in found.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Limits":
        if not data:
            return UNLIMITED
        usd = data.get("usd")
        return cls(
            None if usd is None else Decimal(str(usd)),
            *(None if data.get(n) is None else int(data[n]) for n in DIMENSIONS[1:]),
        )


UNLIMITED = Limits()


class Budgets(Struct, frozen=True, gc=False):
    """Limits, what was spent, and the open reservations by the id of what they are for."""

    limits: Limits = UNLIMITED
    spent: Cost = NOTHING
    reserved: Cost = NOTHING
    open: Mapping[str, Cost] = field(default_factory=dict)

    def problem(self, amount: Cost) -> str | None:
        """Why `amount` more does not fit, or None."""
        if self.limits is UNLIMITED or amount is NOTHING:
            return None
        total = self.spent + self.reserved + amount
        for name in DIMENSIONS:
            limit = getattr(self.limits, name)
            if limit is not None and getattr(amount, name) and getattr(total, name) > limit:
                return (
                    f"budget {name}: {getattr(self.spent, name)} spent and "
                    f"{getattr(self.reserved, name)} reserved of {limit}; "
                    f"{getattr(amount, name)} more does not fit"
                )
        return None

    @property
    def exhausted(self) -> str | None:
        """The dimension of which nothing is left for another turn, or None. Tool time that is
        spent keeps tools from running, and not the policy from concluding."""
        if self.limits is UNLIMITED:
            return None
        for name in ("usd", "tokens", "steps", "wall_ms"):
            limit = getattr(self.limits, name)
            if limit is not None and getattr(self.spent, name) >= limit:
                return name
        return None

    @property
    def time_is_over(self) -> bool:
        """Whether the wall time is spent, whatever else is."""
        return self.limits.wall_ms is not None and self.spent.wall_ms >= self.limits.wall_ms

    @property
    def left(self) -> Limits:
        """What is neither spent nor reserved."""
        if self.limits is UNLIMITED:
            return UNLIMITED
        used = self.spent + self.reserved
        return Limits(
            *(
                None if (limit := getattr(self.limits, n)) is None else limit - getattr(used, n)
                for n in DIMENSIONS
            )
        )

    def reserve(self, source: str, amount: Cost) -> "Budgets":
        """With `amount` set aside for `source`; whether it fits was asked before."""
        if amount is NOTHING:
            return self
        reserved = self.reserved + amount
        return Budgets(self.limits, self.spent, reserved, {**self.open, source: amount})

    def settle(self, source: str, actual: Cost | None) -> "Budgets":
        """With the reservation of `source` replaced by what it cost; None: all of it.

        A source without a reservation is charged all the same.
        """
        held = self.open.get(source)
        if held is None:
            return self if actual is None or actual is NOTHING else self.spend(actual)
        rest = {name: cost for name, cost in self.open.items() if name != source}
        spent = self.spent + (held if actual is None else actual)
        return Budgets(self.limits, spent, self.reserved - held, rest)

    def spend(self, amount: Cost) -> "Budgets":
        """With `amount` spent without a reservation."""
        return Budgets(self.limits, self.spent + amount, self.reserved, self.open)

    def charge_wall(self, passed_ms: int) -> "Budgets":
        """With wall time spent without a reservation."""
        usd, tokens, steps, tool_ms, wall_ms = _amounts(self.spent)
        spent = Cost(usd, tokens, steps, tool_ms, wall_ms + passed_ms)
        return Budgets(self.limits, spent, self.reserved, self.open)
