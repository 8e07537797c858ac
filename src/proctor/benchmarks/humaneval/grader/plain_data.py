"""Plain values as JSON and back: what may cross between the checker and the candidate.

Nothing else may: no object with behaviour of its own gets from the candidate to the checker, so
that no comparison, conversion or attribute access there can run the candidate's code. `decode`
builds exact built-in types only (and `Fraction` and `Decimal`, which are immutable numbers).
"""

from __future__ import annotations

import sys
from typing import Any

SAFE_INTEGER = 2**53
MAX_EXPONENT = 5_000
"""A Decimal with a larger exponent does not cross: comparing it could take for ever."""


class NotPlain(Exception):
    """A value that cannot cross; the message says of which type it is."""


def encode(value: Any) -> Any:
    """`value` as JSON. A list is an array; every other container or odd number is tagged."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        number = int(value)
        return number if -SAFE_INTEGER < number < SAFE_INTEGER else {"int": hex(number)}
    if isinstance(value, float):
        number_ = float(value)
        return number_ if number_ - number_ == 0 else {"float": repr(number_)}
    return _container(value)


def _container(value: Any) -> Any:
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    for kind in (tuple, set, frozenset):
        if isinstance(value, kind):
            return {kind.__name__: [encode(item) for item in value]}
    if isinstance(value, (bytes, bytearray)):
        return {type(value).__name__: bytes(value).hex()}
    if isinstance(value, complex):
        return {"complex": [encode(value.real), encode(value.imag)]}
    # These modules are not worth importing here: who has such a value has imported them.
    fractions, decimal = sys.modules.get("fractions"), sys.modules.get("decimal")
    if fractions is not None and isinstance(value, fractions.Fraction):
        return {"Fraction": [encode(value.numerator), encode(value.denominator)]}
    if decimal is not None and isinstance(value, decimal.Decimal):
        return {"Decimal": str(value)}
    raise NotPlain(type(value).__name__)


def decode(value: Any) -> Any:
    """The value of parsed JSON. Raises ValueError for anything `encode` does not make."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [decode(item) for item in value]
    if isinstance(value, dict) and len(value) == 1:
        ((tag, content),) = value.items()
        if tag in _DECODERS:
            return _DECODERS[tag](content)
    raise ValueError("not an encoded value")


def _decimal(text: str) -> Any:
    from decimal import Decimal

    number = Decimal(text)
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and abs(exponent) > MAX_EXPONENT:
        raise ValueError("the exponent is too large")
    return number


def _complex(parts: Any) -> complex:
    real, imaginary = map(decode, parts)
    return complex(real, imaginary)


def _fraction(parts: Any) -> Any:
    from fractions import Fraction

    numerator, denominator = map(decode, parts)
    return Fraction(numerator, denominator)


_DECODERS: dict[str, Any] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "dict": lambda pairs: {decode(key): decode(item) for key, item in pairs},
    "tuple": lambda items: tuple(map(decode, items)),
    "set": lambda items: set(map(decode, items)),
    "frozenset": lambda items: frozenset(map(decode, items)),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "complex": _complex,
    "Fraction": _fraction,
    "Decimal": _decimal,
}
