"""What is handed from a caller to a journal's thread."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from proctor.store.journal.contract import (
    AnyRow,
    AppendResult,
    Durability,
    Event,
    FormedRow,
    Message,
    Row,
)
from proctor.store.journal.encoding import (
    Cell,
    MessageCells,
    Shape,
    all_event_cells,
    cells,
    integer,
    message_cells,
    shape,
    shape_of_form,
    text,
)
from proctor.store.journal.errors import ConstraintBroken
from proctor.store.schema.journal_columns import KEYS

Params: TypeAlias = Sequence[Cell]


class Session(Protocol):
    """A connection as jobs see it. Statements are written with `?`; their texts are constants.
    `holding_rows` ends a query whose rows nobody may change before the transaction is over."""

    holding_rows: str

    def rows(self, sql: str, params: Params = ()) -> list[tuple[Any, ...]]:
        """What a query or a statement with RETURNING gives."""
        ...

    def append(self, jobs: "Sequence[Append]") -> None:
        """Compare and append, for jobs of different runs; each job gets its answer."""
        ...


class Job:
    """One call, waiting for its answer. `role` names its fault points."""

    __slots__ = ("answer", "barrier", "error", "future", "role")

    def __init__(self, role: str, barrier: bool) -> None:
        self.role = role
        self.barrier = barrier
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.answer: Any = None
        self.error: Exception | None = None

    def settle(self) -> None:
        """Give the answer to whoever waits; in the loop of the future."""
        if self.future.done():  # cancelled meanwhile
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)


class Call(Job):
    """A function of the session; it may run twice if a group of jobs has to be repeated."""

    __slots__ = ("function",)

    def __init__(
        self, role: str, function: Callable[[Session], Any], barrier: bool = False
    ) -> None:
        super().__init__(role, barrier)
        self.function = function


class Append(Job):
    """An append with everything encoded. `run_changes`: what changes of the run's own row; `rows`
    and `deliveries` are ready for a statement but for the run."""

    __slots__ = ("deliveries", "events", "expected", "fence", "rows", "run_changes", "run_id")

    def __init__(
        self, run_id: str, expected: int, fence: int, events: Sequence[Event],
        durability: Durability = Durability.BARRIER,
    ) -> None:  # fmt: skip
        super().__init__("append", durability is Durability.BARRIER)
        self.run_id = text(run_id)
        self.expected = integer(expected)
        self.fence = integer(fence)
        self.events = all_event_cells(events, expected + 1, fence)
        self.rows: list[tuple[Shape, tuple[Cell, ...]]] = []
        self.run_changes: dict[str, Cell] = {}
        self.deliveries: list[tuple[str, MessageCells]] = []
        self.answer: AppendResult | None = None

    @property
    def version(self) -> int:
        """The version after it."""
        return self.expected + len(self.events)

    def add_rows(self, rows: Sequence[AnyRow]) -> None:
        """Encode rows; of several for one row of the database, later values win."""
        for row in rows if len(rows) < 2 or _all_differ(rows) else _merged(rows):
            if type(row) is FormedRow:
                of, given = shape_of_form(row.form), row.cells
            else:
                of = shape(row.table, tuple(row.key), tuple(row.values))
                given = (*row.key.values(), *row.values.values())
            values = cells(given, of)
            if of.table == "run":
                self.run_changes = dict(zip(of.values, values, strict=True))
            else:
                self.rows.append((of, values))

    def add_deliveries(self, messages: Sequence[Message]) -> None:
        """Encode messages for the inboxes of runs."""
        self.deliveries += [(text(m.run_id), message_cells(m)) for m in messages]


def _all_differ(rows: Sequence[AnyRow]) -> bool:
    """Whether no two are for one row of the database; a false no costs time only."""
    return len({_named(row) for row in rows}) == len(rows)


def _named(row: AnyRow) -> tuple[Any, ...]:
    """The same for two rows that are one in the database."""
    if type(row) is FormedRow:
        form = row.form
        return (form.table, *row.cells[: len(form.keys)])
    keys = KEYS.get(row.table, ())
    return (row.table, *[row.key[name] for name in keys if name in row.key])


def _merged(rows: Sequence[AnyRow]) -> list[AnyRow]:
    found: dict[tuple[Any, ...], AnyRow] = {}
    for row in rows:
        if type(row) is FormedRow and len(row.cells) != row.form.width:
            raise ConstraintBroken(f"{row.table}: {len(row.cells)} values in a row")
        name = _named(row)
        before = found.get(name)
        if before is not None:
            row = Row(row.table, before.key, {**before.values, **row.values})
        found[name] = row
    return list(found.values())
