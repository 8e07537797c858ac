"""Budgets: what may be spent is reserved before, and settled after. Amounts are exact decimals.

A reservation that is never settled stays spent: a call whose outcome is unknown may have cost
its whole reservation. What a settled call did not need comes back at once; what it cost beyond
its reservation counts too (a single overshoot of at most its own excess).
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from proctor.kernel.errors import Fault
from proctor.kernel.issues import Cause

ZERO = Decimal(0)


class BudgetExhausted(Fault):
    """The budget is spent."""

    code = "budget_exhausted"
    cause = Cause.BUDGET


@dataclass(frozen=True, slots=True)
class Amount:
    """Money in US dollars and tokens."""

    usd: Decimal = ZERO
    tokens: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.usd - other.usd, self.tokens - other.tokens)


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """None is no limit."""

    usd: Decimal | None = None
    tokens: int | None = None

    @property
    def unlimited(self) -> bool:
        return self.usd is None and self.tokens is None

    @classmethod
    def from_mapping(cls, data: Mapping[str, object]) -> "BudgetLimits":
        usd, tokens = data.get("usd"), data.get("tokens")
        return cls(
            None if usd is None else Decimal(str(usd)),
            None if tokens is None else int(str(tokens)),
        )


class Reservation:
    """The right to spend up to `amount`; settle it with what was really spent."""

    __slots__ = ("_budget", "_settled", "amount")

    def __init__(self, budget: "Budget", amount: Amount) -> None:
        self._budget = budget
        self._settled = False
        self.amount = amount

    def settle(self, actual: Amount) -> None:
        """Replace the reservation by what it cost. Idempotent."""
        if not self._settled:
            self._settled = True
            self._budget._settle(self.amount, actual)

    def settle_unknown(self) -> None:
        """The outcome is unknown: the whole reservation counts as spent. Idempotent."""
        self.settle(self.amount)


class Budget:
    """One budget, shared by threads; a child's spending counts in its parent too."""

    def __init__(
        self,
        name: str,
        limits: BudgetLimits,
        *,
        spent: Amount = Amount(),
        parent: "Budget | None" = None,
    ) -> None:
        self.name = name
        self.limits = limits
        self._spent = spent
        self._reserved = Amount()
        self._parent = parent
        self._lock: threading.Lock = threading.Lock() if parent is None else parent._lock

    @property
    def spent(self) -> Amount:
        """Settled spending."""
        return self._spent

    @property
    def reserved(self) -> Amount:
        """Spending in flight."""
        return self._reserved

    @property
    def exhausted(self) -> bool:
        """Whether nothing at all may be spent any more, here or in a parent."""
        return any(b._full() for b in self._line())

    def reserve(self, amount: Amount) -> Reservation:
        """Reserve `amount` here and in every parent, or raise BudgetExhausted and reserve
        nothing. One lock makes this atomic."""
        with self._lock:
            for budget in self._line():
                budget._refuse(amount)
            for budget in self._line():
                budget._reserved += amount
        return Reservation(self, amount)

    def charge(self, amount: Amount) -> None:
        """Count spending that happened without a reservation (an earlier execution's)."""
        with self._lock:
            for budget in self._line():
                budget._spent += amount

    def _settle(self, reserved: Amount, actual: Amount) -> None:
        with self._lock:
            for budget in self._line():
                budget._reserved -= reserved
                budget._spent += actual

    def _line(self) -> list["Budget"]:
        line: list[Budget] = []
        budget: Budget | None = self
        while budget is not None:
            line.append(budget)
            budget = budget._parent
        return line

    def _refuse(self, amount: Amount) -> None:
        total = self._spent + self._reserved + amount
        limits = self.limits
        if limits.usd is not None and total.usd > limits.usd:
            raise BudgetExhausted(
                f"budget {self.name!r}: ${self._spent.usd:f} spent and ${self._reserved.usd:f} "
                f"reserved of ${limits.usd:f}; ${amount.usd:f} more does not fit",
                permanent=True,
            )
        if limits.tokens is not None and total.tokens > limits.tokens:
            raise BudgetExhausted(
                f"budget {self.name!r}: {self._spent.tokens} tokens spent and "
                f"{self._reserved.tokens} reserved of {limits.tokens}; {amount.tokens} more "
                "do not fit",
                permanent=True,
            )

    def _full(self) -> bool:
        limits, used = self.limits, self._spent + self._reserved
        over_money = limits.usd is not None and used.usd >= limits.usd
        over_tokens = limits.tokens is not None and used.tokens >= limits.tokens
        return over_money or over_tokens
