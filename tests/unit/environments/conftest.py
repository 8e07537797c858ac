"""What the tests of this folder read from the process table and the descriptors of this process."""

import os
from pathlib import Path

import pytest


class Counts:
    """Counts of what this process holds."""

    def descriptors(self) -> int:
        """How many file descriptors are open."""
        return len(os.listdir("/proc/self/fd"))

    def zombies(self) -> list[int]:
        """Children that ended and were not reaped."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    row = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                except OSError:
                    continue
                if row[0] == "Z" and int(row[1]) == os.getpid():
                    found.append(int(entry.name))
        return found


@pytest.fixture
def counts():
    return Counts()


@pytest.fixture
def leak_free(counts):
    """The test must leave no descriptor open and no child unreaped."""
    before = counts.descriptors()
    yield
    assert counts.descriptors() == before
    assert counts.zombies() == []
