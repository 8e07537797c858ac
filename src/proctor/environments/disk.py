"""Keeps sandboxes from filling the disk: looked at while a command runs, ended when it is too much.

No quota of the file system is needed. How much space is free costs a microsecond to ask; only when
it has shrunk enough is the session's own tree measured, in a thread. What has been written between
two looks comes on top of the limit.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FLOOR_BYTES = 1_000_000_000
"""What always stays free: below it, sessions that hold a good part of it end their commands."""

_LOOK_S = 0.2
_MB = 1_048_576
_BLOCK = 512


class DiskWatch:
    """Of one session's tree. `full` is set when it held more than it may."""

    def __init__(self, tree: str, limit_mb: int) -> None:
        self.full = False
        self._tree = tree
        self._limit = limit_mb * _MB
        self._free_at_first = -1
        self._running = 0
        self._kill: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._measuring: asyncio.Future[int] | None = None

    @contextmanager
    def watched(self, kill: Callable[[], None]) -> Iterator[None]:
        """While a command runs. `kill` ends all commands of the session."""
        self._kill = kill
        self._running += 1
        if self._free_at_first < 0:
            self._free_at_first = self._free()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)
        try:
            yield
        finally:
            self._running -= 1
            if not self._running and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_LOOK_S, self._look)
        free = self._free()
        gone = self._free_at_first - free
        if free < FLOOR_BYTES and gone > self._limit:  # also what is deleted but still open
            self._end()
        elif (gone > self._limit or free < FLOOR_BYTES) and self._measuring is None:
            self._measuring = loop.run_in_executor(None, used_bytes, self._tree)
            self._measuring.add_done_callback(self._measured)

    def _measured(self, future: "asyncio.Future[int]") -> None:
        self._measuring = None
        if future.cancelled() or not self._running:
            return
        used = future.result()
        if used > self._limit or (self._free() < FLOOR_BYTES and used > FLOOR_BYTES / 4):
            self._end()

    def _end(self) -> None:
        self.full = True
        if self._kill is not None:
            self._kill()

    def _free(self) -> int:
        try:
            facts = os.statvfs(self._tree)
        except OSError:  # the tree is gone, which others notice
            return FLOOR_BYTES
        return facts.f_bavail * facts.f_frsize


def used_bytes(tree: str) -> int:
    """What a tree takes on its disk. Follows no link; folders that vanish meanwhile count 0."""
    total = 0
    for _, _, names, folder in os.fwalk(tree, onerror=None, follow_symlinks=False):
        for name in names:
            try:
                total += os.stat(name, dir_fd=folder, follow_symlinks=False).st_blocks * _BLOCK
            except OSError:
                continue
    return total
