"""Databases that tests run against."""

import os
from collections.abc import Iterator

import pytest

from proctor.testing.postgresql import NoPostgresql, temporary_postgresql


@pytest.fixture(scope="session")
def postgresql_url(need) -> Iterator[str]:
    """A PostgreSQL: that of DATABASE_URL, else one that is started for this session."""
    given = os.environ.get("DATABASE_URL", "")
    if given.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        yield given
        return
    server = temporary_postgresql()
    try:
        url = server.__enter__()
    except NoPostgresql as error:
        need(False, str(error))
    else:
        try:
            yield url
        finally:
            server.__exit__(None, None, None)
