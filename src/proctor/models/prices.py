"""What a call costs, in exact decimals.

No price list is built in: prices change without notice, and a wrong cost is worse than none.
Give them per request: `-p model.prices.input_per_mtok=0.15 -p model.prices.output_per_mtok=0.6`.
"""

from decimal import Decimal

from pydantic import BaseModel, ConfigDict, Field

from proctor.models.contract import Usage

_MTOK = Decimal(1_000_000)


class Prices(BaseModel):
    """US dollars per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input_per_mtok: Decimal = Field(ge=0, allow_inf_nan=False)
    output_per_mtok: Decimal = Field(ge=0, allow_inf_nan=False)
    cached_input_per_mtok: Decimal | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Input read from the endpoint's cache. Default: the price of other input."""

    def cost_usd(self, usage: Usage) -> Decimal:
        """`((input - cached) * input price + cached * cached price + output * output price) / 10^6`

        Reasoning tokens are part of the output tokens.
        """
        cached_price = self.cached_input_per_mtok
        if cached_price is None:
            cached_price = self.input_per_mtok
        cached = min(usage.cached_tokens, usage.input_tokens)
        fresh = usage.input_tokens - cached
        return (
            fresh * self.input_per_mtok
            + cached * cached_price
            + usage.output_tokens * self.output_per_mtok
        ) / _MTOK
