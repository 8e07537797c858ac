"""From the Core tables to the shipped files: one SQL file a database, and the columns as data."""

from sqlalchemy import BigInteger, Column, Integer, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from proctor.store.schema.journal_tables import METADATA

_SQLITE_APPEND_ONLY = """\
CREATE TRIGGER event_update BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;

CREATE TRIGGER event_delete BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
"""

_POSTGRESQL_APPEND_ONLY = """\
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'events are never changed' USING ERRCODE = 'check_violation'; END $$;

CREATE TRIGGER event_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON event
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION require_rows(there BIGINT, wanted BIGINT, state TEXT) RETURNS BOOLEAN
LANGUAGE plpgsql AS
$$ BEGIN
    IF there <> wanted THEN
        RAISE EXCEPTION '% of % rows are there', there, wanted USING ERRCODE = state;
    END IF;
    RETURN TRUE;
END $$;
"""

_FIRST_VERSION = "INSERT INTO schema_version (version) VALUES (1);\n"
_HEADING = "generated from journal_tables.py by `python -m proctor.store.schema`; do not edit"
SCHEMA_VERSION = 1
"""The version of the tables as they are now; `_FIRST_VERSION` notes it in a new database."""


def shipped_files() -> dict[str, str]:
    """File name → content."""
    lite, post = sqlite.dialect(), postgresql.dialect()  # type: ignore[no-untyped-call]
    return {
        "journal.sqlite.sql": "\n".join([_statements(lite), _SQLITE_APPEND_ONLY, _FIRST_VERSION]),
        "journal.postgresql.sql": "\n".join(
            [_statements(post), _POSTGRESQL_APPEND_ONLY, _FIRST_VERSION]
        ),
        "journal_columns.py": _columns(),
    }


def _statements(dialect: Dialect) -> str:
    """CREATE statements in an order in which tables exist before they are referred to."""
    found = [f"-- {_HEADING}\n"]
    for table in METADATA.sorted_tables:
        found.append(_sql(CreateTable(table), dialect))
        ordered = sorted(table.indexes, key=lambda index: str(index.name))
        found += [_sql(CreateIndex(index), dialect) for index in ordered]
    return "\n".join(found)


def _sql(statement: CreateTable | CreateIndex, dialect: Dialect) -> str:
    text = str(statement.compile(dialect=dialect)).strip().replace("\t", "    ")
    text = text.replace(")\n WITH", ") WITH")
    return "\n".join(line.rstrip() for line in text.splitlines()) + ";\n"


def _columns() -> str:
    lines = [
        '"""The journal\'s columns as data.',
        "",
        f"{_HEADING[0].upper()}{_HEADING[1:]}.",
        '"""',
        "",
        f"SCHEMA_VERSION = {SCHEMA_VERSION}",
        "",
        "# table → column → (kind, needed when the row is new)",
        "COLUMNS: dict[str, dict[str, tuple[str, bool]]] = {",
    ]
    for table in METADATA.sorted_tables:
        lines.append(f'    "{table.name}": {{')
        lines += [f'        "{c.name}": ("{_kind(c)}", {_needed(c)}),' for c in table.columns]
        lines.append("    },")
    lines += [
        "}",
        "",
        "# table → columns that identify a row",
        "KEYS: dict[str, tuple[str, ...]] = {",
    ]
    lines += [f'    "{t.name}": {_tuple(_key(t))},' for t in METADATA.sorted_tables]
    return "\n".join([*lines, "}"]) + "\n"


def _kind(column: "Column[object]") -> str:
    if "kind" in column.info:
        return str(column.info["kind"])
    if isinstance(column.type, BigInteger | Integer):
        return "integer"
    return "bytes" if column.name == "data" else "text"


def _needed(column: "Column[object]") -> bool:
    return not column.nullable and column.server_default is None and column.identity is None


def _key(table: Table) -> tuple[str, ...]:
    if table.name == "inbox":
        return ("run_no", "message_id")  # its primary key is the order of arrival
    return tuple(c.name for c in table.primary_key.columns)


def _tuple(names: tuple[str, ...]) -> str:
    inner = ", ".join(f'"{n}"' for n in names)
    return f"({inner},)" if len(names) == 1 else f"({inner})"
