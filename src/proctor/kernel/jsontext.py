"""JSON as it should be: no NaN or Infinity in either direction, records end only at `\n`.

Integers keep all their digits. An integer with more digits than Python converts by default
(4,300) is refused like any other malformed value, so that one line cannot crash a whole load.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None


class JsonError(ValueError):
    """Text that is not JSON, with the reason in one short line."""


def _refuse_constant(name: str) -> Any:
    raise JsonError(f"{name} is not JSON")


_INFINITE = math.inf, -math.inf


def _parse_float(text: str) -> float:
    value = float(text)
    if value in _INFINITE:
        raise JsonError(f"number out of range: {text[:40]}")
    return value


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built: dict[str, Any] = {}
    for key, value in pairs:
        if key in built:
            raise JsonError(f"key {key[:40]!r} is given twice")
        built[key] = value
    return built


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)
_UNIQUE_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_parse_float, object_pairs_hook=_refuse_repeated
)


_scan: Callable[[str, int], tuple[Any, int]] = _DECODER.scan_once  # type: ignore[attr-defined]


def _decoded(text: str) -> Any:
    """`_DECODER.decode(text)`, without its search for blanks around what has none, as records."""
    try:
        value, end = _scan(text, 0)
    except StopIteration:  # blanks before it, or no JSON
        return _DECODER.decode(text)
    return value if text[end : end + 2] in ("", "\n") else _DECODER.decode(text)


def loads(text: str | bytes, *, unique_keys: bool = False) -> Any:
    """Parse strict JSON. Raises JsonError with a one-line reason.

    `unique_keys` also refuses an object that gives a key twice; otherwise the last one wins.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        if unique_keys:
            return _UNIQUE_DECODER.decode(text)
        return _decoded(text)
    except JsonError:
        raise
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg} at column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise JsonError(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise JsonError("nested too deeply") from None
    except ValueError as error:  # the interpreter's limit on integer digits
        raise JsonError(str(error).split(";")[0]) from None


_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_CANONICAL = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
)
_PRETTY = json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=2)


def _made_once(encoder: json.JSONEncoder) -> Callable[[Any], str]:
    """`encoder.encode` with its C part made once instead of at every call, which for a small value
    takes longer than the value itself. Endless values end as RecursionError."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # another interpreter
        return encoder.encode
    text = json.encoder.encode_basestring
    between = (encoder.key_separator, encoder.item_separator)
    parts = make(None, encoder.default, text, None, *between, encoder.sort_keys, False, False)
    return lambda value: "".join(parts(value, 0))


_compact, _canonical, _pretty = _made_once(_COMPACT), _made_once(_CANONICAL), _PRETTY.encode
_quoted: Callable[[str], str] = json.encoder.encode_basestring


def _encode(encode: Callable[[Any], str], value: Any) -> str:
    try:
        text = encode(value)
    except RecursionError:
        raise JsonError("nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise JsonError(str(error)) from None
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # A lone surrogate cannot be stored as UTF-8; escape it so that nothing is lost.
        text = "".join(f"\\u{ord(ch):04x}" if 0xD800 <= ord(ch) <= 0xDFFF else ch for ch in text)
    return text


def dumps(value: Any) -> str:
    """One compact line without a newline. Raises JsonError for NaN, Infinity or odd types."""
    return _encode(_compact, value)


def canonical(value: Any) -> str:
    """The one text of a value: sorted keys, no blanks. What digests are made of."""
    return _encode(_quoted if type(value) is str else _canonical, value)


def pretty(value: Any) -> str:
    """For files that people open."""
    return _encode(_pretty, value) + "\n"


SANITIZED_DEPTH = 100
SANITIZED_VALUES = 200_000
"""Values in one sanitized copy. A value that holds itself many times over would have no end."""
_INT_BITS = 14_000  # what the interpreter still turns into decimal digits by default


def sanitized(value: Any, values: int = SANITIZED_VALUES) -> Any:
    """A copy of `value` that JSON can hold: odd numbers and types become text, and what lies
    deeper than `SANITIZED_DEPTH` or comes after that many `values` is left out, saying so.

    For evidence and diagnostics of plug-ins, where losing the record would be worse than
    changing the type of one field. Never used for observations. Never raises.
    """
    return _sanitized(value, SANITIZED_DEPTH, [values])


_AS_THEY_ARE = frozenset((str, bool, type(None)))


def _sanitized(value: Any, depth: int, left: list[int]) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _INT_BITS else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict | list | tuple | set | frozenset):
        if depth == 0:
            return "nested too deeply"
        left[0] -= len(value)
        if left[0] < 0:
            return "left out: too many values"
        if isinstance(value, dict):
            return {
                (k if type(k) is str else text_of(k)): (
                    v if type(v) in _AS_THEY_ARE else _sanitized(v, depth - 1, left)
                )
                for k, v in value.items()
            }
        return [_sanitized(v, depth - 1, left) for v in value]
    return text_of(value)


_LARGE = 2**63


def is_flat(value: dict[Any, Any]) -> bool:
    """Whether it is JSON beyond doubt, as most arguments are: names with texts and whole
    numbers. What is not may be JSON too."""
    if len(value) > SANITIZED_VALUES:
        return False
    for name, item in value.items():
        kind = type(item)
        if type(name) is not str or (kind not in _AS_THEY_ARE and kind is not int):
            return False
        if kind is int and not -_LARGE <= item < _LARGE:
            return False
    return True


def copied(value: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a JSON object of at most `SANITIZED_VALUES` values, for somebody who may change
    it."""
    plain = dict(value)
    if is_flat(plain):
        return plain
    found: dict[str, Any] = sanitized(plain)
    return found


def text_of(value: Any) -> str:
    """`str(value)`, or that it cannot be shown. Never raises."""
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - somebody else's __str__
        return f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
