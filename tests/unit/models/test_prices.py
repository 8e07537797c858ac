"""Costs are exact decimals."""

from decimal import Decimal

import pytest
from pydantic import ValidationError

from proctor.models.contract import Usage
from proctor.models.prices import Prices


def test_cost_is_exact() -> None:
    prices = Prices.model_validate({"input_per_mtok": 0.1, "output_per_mtok": "0.3"})
    assert prices.cost_usd(Usage(3, 1)) == Decimal("0.0000006")
    assert prices.cost_usd(Usage(1_000_000, 1_000_000)) == Decimal("0.4")


def test_cached_input_has_its_own_price() -> None:
    prices = Prices.model_validate(
        {"input_per_mtok": 2, "output_per_mtok": 8, "cached_input_per_mtok": "0.5"}
    )
    assert prices.cost_usd(Usage(1_000_000, 0, 400_000)) == Decimal("1.4")
    plain = Prices.model_validate({"input_per_mtok": 2, "output_per_mtok": 8})
    assert plain.cost_usd(Usage(1_000_000, 0, 400_000)) == Decimal(2)


def test_a_cache_larger_than_the_input_never_lowers_the_cost_below_zero() -> None:
    prices = Prices.model_validate(
        {"input_per_mtok": 2, "output_per_mtok": 8, "cached_input_per_mtok": 0}
    )
    assert prices.cost_usd(Usage(10, 0, 1_000)) == 0


@pytest.mark.parametrize("bad", [-1, "NaN", "Infinity", "x"])
def test_prices_are_finite_and_not_negative(bad: object) -> None:
    with pytest.raises(ValidationError):
        Prices.model_validate({"input_per_mtok": bad, "output_per_mtok": 1})
