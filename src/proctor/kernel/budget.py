"""Budgets: what may be spent is reserved before, and settled after. Amounts are exact decimals.

A reservation that is never settled stays spent: a call whose outcome is unknown may have cost
its whole reservation. What a settled call did not need comes back at once; what it cost beyond
its reservation counts too (a single overshoot of at most its own excess).
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

from proctor.kernel.clock import Clock
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


class WallBudget:
    """Wall time that may pass before nothing new starts; what is running may end."""

    def __init__(self, name: str, limit_s: float, clock: Clock) -> None:
        self._name = name
        self._limit_s = limit_s
        self._clock = clock
        self._end = clock.monotonic() + limit_s

    def check(self) -> None:
        """Raises BudgetExhausted once the time has passed."""
        if self._clock.monotonic() >= self._end:
            message = f"budget {self._name!r}: {self._limit_s:g} s of wall time are spent"
            raise BudgetExhausted(message, permanent=True)


class SpendingLog(Protocol):
    """Where reservations are recorded before the money can be spent."""

    def reserved(self, number: int, amount: Amount) -> None:
        """Reservation `number` is about to be used."""

    def settled(self, number: int, reserved: Amount, actual: Amount) -> None:
        """Reservation `number`, of `reserved`, has cost `actual`."""


class Reservation:
    """The right to spend up to `amount`; settle it with what was really spent."""

    __slots__ = ("_budget", "_number", "_settled", "amount")

    def __init__(self, budget: "Budget", number: int, amount: Amount) -> None:
        self._budget = budget
        self._number = number
        self._settled = False
        self.amount = amount

    def settle(self, actual: Amount) -> None:
        """Replace the reservation by what it cost. Idempotent."""
        if not self._settled:
            self._settled = True
            self._budget._settle(self._number, self.amount, actual)

    def settle_unknown(self) -> None:
        """The outcome is unknown: the whole reservation counts as spent. Idempotent."""
        self.settle(self.amount)


class Budget:
    """One budget; a child's spending counts in its parent too.

    `lock` makes every change one step for all threads that share the budget; a child uses its
    parent's. Without one, the budget is for one thread.
    """

    def __init__(
        self,
        name: str,
        limits: BudgetLimits,
        *,
        spent: Amount = Amount(),
        parent: "Budget | None" = None,
        log: SpendingLog | None = None,
        first_number: int = 1,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.name = name
        self.limits = limits
        self._spent = spent
        self._reserved = Amount()
        self._parent = parent
        self._log = log
        self._next_number = first_number
        self._closed = False
        self._lock: AbstractContextManager[Any]
        self._lock = (lock or nullcontext()) if parent is None else parent._lock

    @property
    def spent(self) -> Amount:
        """Settled spending."""
        return self._spent

    @property
    def reserved(self) -> Amount:
        """Spending in flight."""
        return self._reserved

    @property
    def counts_usd(self) -> bool:
        """Whether money is limited, here or in a parent."""
        return any(budget.limits.usd is not None for budget in self._line())

    @property
    def exhausted(self) -> bool:
        """Whether a reservation was refused that will never fit, here or in a parent."""
        return any(budget._closed for budget in self._line())

    def check(self) -> None:
        """Raises BudgetExhausted once this budget or a parent is exhausted."""
        for budget in self._line():
            if budget._closed:
                spent = budget._spent
                message = (
                    f"budget {budget.name!r} is spent: ${spent.usd:f} and {spent.tokens} tokens"
                )
                raise BudgetExhausted(message, permanent=True)

    def reserve(self, amount: Amount) -> Reservation:
        """Reserve `amount` here and in every parent, or raise BudgetExhausted and reserve
        nothing. One lock makes this atomic."""
        with self._lock:
            for budget in self._line():
                budget._refuse(amount)
            number = self._next_number
            if self._log is not None:
                self._log.reserved(number, amount)
            self._next_number += 1
            for budget in self._line():
                budget._reserved += amount
        return Reservation(self, number, amount)

    def charge(self, amount: Amount) -> None:
        """Count spending that happened without a reservation (an earlier execution's)."""
        with self._lock:
            for budget in self._line():
                budget._spent += amount

    def _settle(self, number: int, reserved: Amount, actual: Amount) -> None:
        with self._lock:
            if self._log is not None:
                self._log.settled(number, reserved, actual)
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
        limits, total = self.limits, self._spent + self._reserved + amount
        money = limits.usd is not None and total.usd > limits.usd
        tokens = limits.tokens is not None and total.tokens > limits.tokens
        if not money and not tokens:
            return
        settled = self._spent + amount
        never_money = limits.usd is not None and settled.usd > limits.usd
        never_tokens = limits.tokens is not None and settled.tokens > limits.tokens
        self._closed = self._closed or never_money or never_tokens
        raise BudgetExhausted(self._describe(amount, money=money), permanent=True)

    def _describe(self, amount: Amount, *, money: bool) -> str:
        spent, reserved, limits = self._spent, self._reserved, self.limits
        if money:
            return (
                f"budget {self.name!r}: ${spent.usd:f} spent and ${reserved.usd:f} reserved of "
                f"${limits.usd:f}; ${amount.usd:f} more does not fit"
            )
        return (
            f"budget {self.name!r}: {spent.tokens} tokens spent and {reserved.tokens} reserved of "
            f"{limits.tokens}; {amount.tokens} more do not fit"
        )
