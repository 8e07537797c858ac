"""Ending processes that were found by looking: an id may be given away between look and signal."""

import os
import signal
from collections.abc import Callable, Collection, Sequence

_AT_ONCE = 128


def kill_found(pids: Sequence[int], again: Callable[[], Collection[int]]) -> None:
    """Send SIGKILL to those of `pids` that `again`, the same look once more, still finds.

    Each is held by a descriptor meanwhile, which names a process and not an id. Who is gone, may
    not be signalled or cannot be held is passed over: the caller looks again anyway.
    """
    for at in range(0, len(pids), _AT_ONCE):
        held: dict[int, int] = {}
        try:
            for pid in pids[at : at + _AT_ONCE]:
                try:
                    held[pid] = os.pidfd_open(pid)
                except OSError:
                    continue
            for pid in held.keys() & set(again()) if held else ():
                try:
                    signal.pidfd_send_signal(held[pid], signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    continue
        finally:
            for fd in held.values():
                os.close(fd)
