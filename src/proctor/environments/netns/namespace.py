"""Network namespaces that no name or file of the host knows.

Each is held by one descriptor of the driver and by the processes in it. When those are gone, so
are the namespace, its interfaces and its firewall: a killed driver leaves nothing to clean up.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_NEW_NETWORK = 0x4000_0000  # CLONE_NEWNET
_MINE = "/proc/thread-self/ns/net"


class NetworkNamespace:
    """A new namespace with nothing but a loopback that is down. Raises OSError."""

    def __init__(self) -> None:
        home = os.open(_MINE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _called("unshare", _NEW_NETWORK)
            try:
                self._fd: int | None = os.open(_MINE, os.O_RDONLY | os.O_CLOEXEC)
            finally:
                _called("setns", home, _NEW_NETWORK)
        finally:
            os.close(home)

    @classmethod
    def of_process(cls, pid: int) -> "NetworkNamespace":
        """The one that a process is in. Raises OSError."""
        found = object.__new__(cls)
        found._fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        return found

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This thread is in the namespace, and what it starts or opens is too. Never await
        inside: other code of the thread would be in it as well."""
        if self._fd is None:
            raise OSError("the network namespace is closed")
        home = os.open(_MINE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            try:
                _called("setns", self._fd, _NEW_NETWORK)
                yield
            finally:
                _called("setns", home, _NEW_NETWORK)
        finally:
            os.close(home)

    def borrowed(self) -> "NetworkNamespace":
        """The same namespace with a descriptor of its own, for another thread. Close it too."""
        if self._fd is None:
            raise OSError("the network namespace is closed")
        other = object.__new__(NetworkNamespace)
        other._fd = os.dup(self._fd)
        return other

    def close(self) -> None:
        """Let go of it. Idempotent."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


@cache
def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _called(name: str, *arguments: int) -> None:
    import ctypes

    if getattr(_libc(), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
