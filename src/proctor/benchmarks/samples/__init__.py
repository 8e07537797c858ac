"""The built-in sample data set: small portable tasks of several kinds, in the Harbor format.

They need a POSIX shell and `python3` (standard library only), no network and no image.
"""

from pathlib import Path


def path() -> Path:
    """The data set folder, for `--data` of the benchmark `harbor`."""
    return Path(__file__).parent / "tasks"
