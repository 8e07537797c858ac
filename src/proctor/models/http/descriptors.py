"""Every open connection is a file descriptor; a process starts with few of them allowed."""

import contextlib
import resource
import threading

_lock = threading.Lock()
_soft = 0


def make_room(wanted: int) -> None:
    """Let the process have about `wanted` descriptors: raise the soft limit to the hard one.

    Done only when they would take more than half of the soft limit, because child processes
    inherit it. When the hard limit is too low too, the connections over it fail with EMFILE.
    """
    global _soft
    if wanted * 2 <= _soft:
        return
    with _lock:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and wanted * 2 > soft and (soft < hard or hard < 0):
            with contextlib.suppress(OSError, ValueError):  # the limit then stays as it is
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        _soft = soft if soft != resource.RLIM_INFINITY else 2**31
