"""The shipped tables are those of the Core definitions, and their states those of the kernel."""

import re
from importlib.resources import files

import pytest

from proctor.kernel.agent_states import ACTION_STATES, RUN_STATES
from proctor.store.schema.generate import shipped_files
from proctor.store.schema.journal_columns import COLUMNS

FOLDER = files("proctor.store.schema")
SCRIPTS = ("journal.sqlite.sql", "journal.postgresql.sql")


@pytest.mark.parametrize("name", [*SCRIPTS, "journal_columns.py"])
def test_a_shipped_file_is_what_the_tables_give(name):
    shipped = FOLDER.joinpath(name).read_text("utf-8")
    assert shipped == shipped_files()[name], "run: python -m proctor.store.schema"


def checked_states(script: str, table: str) -> set[str]:
    """The names in the table's CHECK (state IN (…))."""
    body = re.search(rf"CREATE TABLE {table} \((.*?)\n\)[^\n]*;", script, re.S)[1]
    return set(re.findall(r"'(\w+)'", re.search(r"CHECK \(state IN \((.*?)\)\)", body)[1]))


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_states_in_sql_are_those_of_the_tables_in_code(name):
    script = FOLDER.joinpath(name).read_text("utf-8")
    assert checked_states(script, "run") == set(RUN_STATES)
    assert checked_states(script, "action") == set(ACTION_STATES)


def test_both_databases_have_the_same_tables_and_columns():
    found = []
    for name in SCRIPTS:
        script = FOLDER.joinpath(name).read_text("utf-8")
        tables = {}
        for table, body in re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)[^\n]*;", script, re.S):
            tables[table] = re.findall(r"^    ([a-z_]+) [A-Z]", body, re.M)
        found.append(tables)
    assert found[0] == found[1] == {table: list(columns) for table, columns in COLUMNS.items()}


def test_opening_a_journal_needs_no_sqlalchemy():
    import subprocess
    import sys

    code = (
        "import sys, proctor.store.journal.opening, proctor.store.journal.sqlite;"
        "sys.exit('sqlalchemy' in sys.modules or 'psycopg' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
