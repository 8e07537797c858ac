"""From the contract's values to a database's and back, and rows made ready for a statement.

Everything is checked here, in the caller's thread, before a transaction begins: table and column
names against the schema (they become part of a statement), values against their column's kind.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeAlias

from msgspec import Struct

from proctor.kernel import jsontext
from proctor.store.journal.contract import Encoded, Event, Form, Message, Row
from proctor.store.journal.errors import ConstraintBroken
from proctor.store.schema.journal_columns import COLUMNS, KEYS

Cell: TypeAlias = str | int | bytes | None
"""What is bound to a statement."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LARGEST = 2**63

VIEW = (
    "task", "run", "action", "attempt", "wait", "inbox", "budget_entry", "workspace", "process",
)  # fmt: skip
"""The tables whose rows an append may write."""
RUN_COLUMNS = ("state", "config_digest", "permission_epoch", "cancel_seq", "body")
"""What an append may change of its run; the rest follows from compare and swap."""


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970. Raises ConstraintBroken for a moment without a time zone."""
    try:
        if moment.tzinfo is UTC:  # of other zones, two moments of one wall time are equal
            return _kept_microseconds(moment)
        return (moment - _EPOCH) // _MICROSECOND
    except (AttributeError, TypeError):
        raise ConstraintBroken(f"{moment!r} is not a moment with a time zone") from None


@lru_cache(maxsize=64)  # what happens together is at one time
def _kept_microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def moment(value: int) -> datetime:
    """The moment of `microseconds`."""
    return _EPOCH + value * _MICROSECOND


def _is_usual(value: str) -> bool:
    """Whether it needs no closer look, as nearly every text."""
    return value.isascii() and "\0" not in value


def text(value: Any) -> str:
    """Text that every database holds. Raises ConstraintBroken."""
    if type(value) is str and _is_usual(value):
        return value
    if not isinstance(value, str):
        raise ConstraintBroken(f"{value!r:.80} is not text")
    if "\0" in value:
        raise ConstraintBroken(f"{value!r:.80} holds NUL")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ConstraintBroken(f"{value!r:.80} is not valid Unicode") from None
    return value


def integer(value: Any) -> int:
    """An integer of 64 bits. Raises ConstraintBroken."""
    if type(value) is int and -_LARGEST <= value < _LARGEST:
        return value
    if not isinstance(value, int) or not -_LARGEST <= value < _LARGEST:
        raise ConstraintBroken(f"{value!r:.80} is not an integer of 64 bits")
    return int(value)


def json(value: Any) -> str:
    """A JSON value as text. Raises ConstraintBroken."""
    if type(value) is Encoded:
        return text(value.text)
    try:
        return jsontext.dumps(value)
    except jsontext.JsonError as error:
        raise ConstraintBroken(f"not a JSON value: {error}") from None


def json_object(value: Any) -> str:
    """A JSON object as text. Raises ConstraintBroken."""
    if not isinstance(value, dict):
        if not isinstance(value, Mapping):
            raise ConstraintBroken(f"{value!r:.80} is not a JSON object")
        value = dict(value)
    return json(value)


def _decimal(value: Any) -> str:
    try:
        number = Decimal(value)
    except (InvalidOperation, TypeError, ValueError):
        raise ConstraintBroken(f"{value!r:.80} is not a decimal") from None
    if isinstance(value, float) or not number.is_finite():
        raise ConstraintBroken(f"{value!r:.80} is not an exact decimal")
    return str(number)


_ENCODE: dict[str, Callable[[Any], Cell]] = {
    "text": text, "integer": integer, "json": json, "decimal": _decimal, "moment": microseconds,
}  # fmt: skip
_DECODE: dict[str, Callable[[Any], Any]] = {
    "json": jsontext.loads, "decimal": Decimal, "moment": moment,
}  # fmt: skip


Picked: TypeAlias = Callable[[tuple[Any, ...]], tuple[Any, ...]]


class Shape(Struct, frozen=True, eq=False):
    """Which columns of a table rows of one kind give; the statement follows from it. Made by
    `shape`, which gives the same object again, so that it is compared by identity.

    `complete`: a row that is not there yet can be made of them. `of_run`: `run_no` is part of the
    key (and comes first). The rest is for `cells`: which of the values are texts and integers.
    """

    table: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    complete: bool
    of_run: bool
    encoders: tuple[Callable[[Any], Cell], ...]
    texts: Picked
    all_texts: tuple[type, ...]
    integers: Picked
    all_integers: tuple[type, ...]
    others: tuple[int, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Keys, then values."""
        return self.keys + self.values


@lru_cache(maxsize=1024)
def shape(table: str, keys: tuple[str, ...], values: tuple[str, ...]) -> Shape:
    """The shape of a row. Raises ConstraintBroken for what the table does not have."""
    if table not in VIEW:
        raise ConstraintBroken(f"there is no table {table!r:.80} for rows")
    columns = COLUMNS[table]
    wanted = tuple(k for k in KEYS[table] if k != "run_no") if table != "run" else ()
    if tuple(sorted(keys)) != tuple(sorted(wanted)):
        raise ConstraintBroken(f"{table}: the key is {', '.join(wanted) or 'empty'}")
    writable = _writable(table)
    for name in values:
        if name not in writable:
            raise ConstraintBroken(f"{table}: no column {name!r:.80} can be written")
    given = {*keys, *values, "run_no"}
    complete = all(name in given for name, (_, needed) in columns.items() if needed)
    encoders = tuple(_ENCODE[columns[name][0]] for name in (*keys, *values))
    made = complete and table not in ("run", "inbox")
    texts = [place for place, encode in enumerate(encoders) if encode is text]
    integers = [place for place, encode in enumerate(encoders) if encode is integer]
    others = tuple(sorted({*range(len(encoders))} - {*texts, *integers}))
    return Shape(
        table, keys, values, made, KEYS[table][0] == "run_no", encoders,
        _picker(texts), (str,) * len(texts), _picker(integers), (int,) * len(integers), others,
    )  # fmt: skip


def _picker(places: Sequence[int]) -> Picked:
    """The values at these places."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1)) if places else itemgetter(slice(0, 0))


def _writable(table: str) -> set[str]:
    if table == "run":
        return set(RUN_COLUMNS)
    if table == "inbox":
        return {"applied_seq"}
    return set(COLUMNS[table]) - set(KEYS[table])


@lru_cache(maxsize=256)
def shape_of_form(form: Form) -> Shape:
    """The shape of a form. Raises ConstraintBroken for what the table does not have."""
    found = shape(form.table, form.keys, form.values)
    if form.keys != tuple(k for k in KEYS[form.table] if k != "run_no"):
        raise ConstraintBroken(f"{form.table}: a form has the keys as the schema orders them")
    return found


def cells(given: tuple[Any, ...], of: Shape) -> tuple[Cell, ...]:
    """Values in the order of the shape's columns, for a statement. Raises ConstraintBroken."""
    if len(given) != len(of.encoders):
        raise ConstraintBroken(f"{of.table}: {len(given)} values for {len(of.encoders)} columns")
    texts, integers = of.texts(given), of.integers(given)
    if tuple(map(type, texts)) == of.all_texts and tuple(map(type, integers)) == of.all_integers:
        whole = "".join(texts)
        if _is_usual(whole) and _fit(integers):
            if not of.others:
                return given
            found = list(given)
            for place in of.others:
                found[place] = _cell(given[place], of.encoders[place])
            return tuple(found)
    return tuple(_cell(value, encode) for value, encode in zip(given, of.encoders, strict=True))


def _fit(integers: Sequence[int]) -> bool:
    """Whether they have at most 64 bits."""
    return not integers or (min(integers) >= -_LARGEST and max(integers) < _LARGEST)


def _cell(value: Any, encode: Callable[[Any], Cell]) -> Cell:
    # JSON null is a value; of the other columns, the database judges which may be NULL.
    return encode(value) if value is not None or encode is json else None


def read_row(table: str, columns: Sequence[str], values: Sequence[Any]) -> Row:
    """A row as the contract has it, from what a query gave."""
    kinds = COLUMNS[table]
    found = {}
    for name, value in zip(columns, values, strict=True):
        decode = _DECODE.get(kinds[name][0])
        found[name] = value if decode is None or value is None else decode(value)
    keys = [k for k in KEYS[table] if k != "run_no"] if table != "run" else []
    return Row(table, {k: found.pop(k) for k in keys}, found)


EventCells: TypeAlias = tuple[int, str, str, int, int, int, str]
"""seq, event_id, kind, version, fence, at, body"""


def all_event_cells(events: Sequence[Event], seq: int, fence: int) -> list[EventCells]:
    """The values of events for a statement, the first of them with number `seq`. Events that
    happened together often share their moment."""
    found: list[EventCells] = []
    last, at = None, 0
    for number, event in enumerate(events, seq):
        if event.at is not last:
            last, at = event.at, microseconds(event.at)
        body, name, kind = event.body, event.event_id, event.kind
        encoded = body.text if type(body) is Encoded else json_object(body)
        usual = type(name) is type(kind) is type(encoded) is str and _is_usual(
            name + kind + encoded
        )
        if not usual:
            name, kind, encoded = text(name), text(kind), text(encoded)
        found.append((number, name, kind, integer(event.version), fence, at, encoded))
    return found


MessageCells: TypeAlias = tuple[str, str, str, int]
"""message_id, kind, body, at"""


def message_cells(message: Message) -> MessageCells:
    """The values of a message for a statement."""
    return (
        text(message.message_id), text(message.kind), json_object(message.body),
        microseconds(message.at),
    )  # fmt: skip
