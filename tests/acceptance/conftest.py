"""What the tests of the command line share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.command import Bell, questions


@pytest.fixture
def rows(tmp_path) -> Path:
    """Three tasks, t1 to t3, whose input is their target."""
    return questions(tmp_path / "rows.jsonl", 3)


@pytest.fixture
def bell(tmp_path) -> Iterator[Bell]:
    made = Bell(tmp_path / "bell")
    yield made
    made.close()
