"""Which of the tests that repeat another engine's run by default.

docker and podman speak one API, and every test of containers exists for both. Without `--full` all
run on docker, and on podman those marked `every_engine` (what the engines do each in their own way)
and every third of the rest, chosen by name.
"""

import zlib

import pytest

_ONE_IN = 3


def repeats(item: pytest.Item) -> bool:
    """Whether a test repeats on podman what runs on docker too."""
    if "podman" not in item.nodeid.lower():
        return False
    return item.get_closest_marker("every_engine") is None


def chosen(item: pytest.Item) -> bool:
    """Whether a test that repeats another is in the sample. By its name without the path: the
    same wherever the suite is started."""
    name = item.nodeid.rpartition("/")[2]
    return zlib.crc32(name.encode()) % _ONE_IN == 0
