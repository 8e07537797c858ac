"""What the tests of this folder read from the process table and the descriptors of this process."""

import os
from pathlib import Path

import pytest


class Counts:
    """Counts of what this process holds."""

    def descriptors(self) -> set[tuple[str, str]]:
        """The open file descriptors, each with what it is open on."""
        found = set()
        for fd in os.listdir("/proc/self/fd"):
            try:
                found.add((fd, os.readlink(f"/proc/self/fd/{fd}")))
            except OSError:  # the one that listed the folder
                pass
        return found

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
    # Fewer are no leak: what an earlier test dropped may be collected during this one.
    assert counts.descriptors() - before == set()
    assert counts.zombies() == []
