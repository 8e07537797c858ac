"""Every journal passes the suite that ships with proctor."""

import secrets

import pytest

from proctor.store.journal.contract import Access
from proctor.store.journal.sqlite import open_sqlite
from proctor.store.journal.upgrades import AS_WRITTEN
from proctor.testing.conformance.journal import JournalConformance


class TestSqlite(JournalConformance):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path):
        self.path = tmp_path / "journal.sqlite"

    def open(self, clock, access=Access.OWN, upgrades=AS_WRITTEN):
        return open_sqlite(self.path, access=access, clock=clock, upgrades=upgrades)


class TestPostgresql(JournalConformance):
    @pytest.fixture(autouse=True)
    def _place(self, postgresql_url):
        from proctor.store.journal.postgresql import open_postgresql

        self.url, self.schema = postgresql_url, f"test_{secrets.token_hex(8)}"
        self.opener = open_postgresql
        yield
        import psycopg

        with psycopg.connect(postgresql_url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")

    def open(self, clock, access=Access.OWN, upgrades=AS_WRITTEN):
        return self.opener(
            self.url, access=access, clock=clock, upgrades=upgrades, schema=self.schema
        )
