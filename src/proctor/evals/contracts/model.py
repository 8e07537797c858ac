"""The model as one attempt sees it: every call is charged to that attempt."""

from collections.abc import Sequence
from typing import Any

from proctor.kernel.budget import ZERO, Amount, Budget, BudgetExhausted
from proctor.kernel.errors import ModelFault
from proctor.models.contract import CallContext, Message, Model, ModelReply, Usage

UNCHARGED = frozenset(["authentication", "invalid_request", "context_exceeded", "rate_limited"])
"""Faults by which the endpoint says that it did nothing; any other may have cost everything."""


class AttemptModel:
    """`await model.complete(messages)`; `usage` is what this attempt has spent so far."""

    def __init__(self, model: Model, call: CallContext, budget: Budget | None = None) -> None:
        self._model = model
        self._call = call
        self._budget = budget
        self.usage = Usage()

    @property
    def name(self) -> str:
        """The model's id as the user wrote it."""
        return self._model.name

    async def complete(self, messages: Sequence[Message], **parameters: Any) -> ModelReply:
        """One completion. Raises ModelFault, or BudgetExhausted before anything is sent."""
        if self._budget is None:
            reply = await self._model.complete(messages, context=self._call, **parameters)
        else:
            reply = await self._within(self._budget, messages, parameters)
        self.usage += reply.usage
        return reply

    async def _within(
        self, budget: Budget, messages: Sequence[Message], parameters: dict[str, Any]
    ) -> ModelReply:
        bound = self._model.worst_case(messages, parameters)
        if bound is None or (budget.counts_usd and bound.cost_usd is None):
            raise BudgetExhausted(
                f"budget {budget.name!r}: model {self.name!r} cannot bound what a call costs",
                hint="limit its answers, for example with -p model.max_tokens=1024",
                permanent=True,
            )
        reservation = budget.reserve(_amount(bound))
        try:
            reply = await self._model.complete(messages, context=self._call, **parameters)
        except ModelFault as error:
            if error.fault_code in UNCHARGED:
                reservation.settle(Amount())
            else:
                reservation.settle_unknown()
            raise
        except BaseException:
            reservation.settle_unknown()
            raise
        reservation.settle(_cost(reply.usage, bound))
        return reply


def _amount(usage: Usage) -> Amount:
    return Amount(usage.cost_usd or ZERO, usage.input_tokens + usage.output_tokens)


def _cost(usage: Usage, bound: Usage) -> Amount:
    """What a call cost; what the endpoint does not say counts as much as it can have been."""
    amount = _amount(usage)
    if not amount.tokens and not amount.usd:
        return _amount(bound)
    return amount if usage.cost_usd is not None else Amount(bound.cost_usd or ZERO, amount.tokens)
