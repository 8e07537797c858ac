"""One owner for a directory: a kernel lock, and a note for people saying who holds it.

The lock dies with its process, so a dead owner is recognised without guessing. Where the file
system does not share locks between hosts, the note (`owner.json`) is the second line: a note of
another host whose heartbeat is fresh counts as live.
"""

import contextlib
import fcntl
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from proctor.kernel import jsontext
from proctor.kernel.clock import iso
from proctor.kernel.errors import StorageError
from proctor.store.files import Sync, storage_error, write_json

HEARTBEAT_S = 10.0
"""How often a live owner renews its note."""
STALE_AFTER = timedelta(seconds=60)
"""A note of another host older than this counts as dead."""


def process_start_time(pid: int) -> str | None:
    """The kernel's start time of a process (clock ticks since boot); None when it is not known
    or the process has ended, even if nobody has reaped it yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *fields = stat.rsplit(")", 1)[-1].split()
    return None if state in "ZX" else fields[18]


def boot_id() -> str | None:
    """This boot of this machine, None where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a directory."""

    pid: int
    host: str
    process_start_time: str | None
    boot_id: str | None
    started_at: str
    heartbeat: str
    released_at: str | None = None

    @classmethod
    def current(cls, now: datetime) -> "Owner":
        """This process, now."""
        pid = os.getpid()
        stamp = iso(now)
        return cls(pid, socket.gethostname(), process_start_time(pid), boot_id(), stamp, stamp)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Owner":
        """Raises TypeError for a note that cannot be one."""
        values = {name: data.get(name) for name in cls.__dataclass_fields__}
        for name, value in values.items():
            if name != "pid" and value is not None and not isinstance(value, str):
                raise TypeError(f"{name} is {type(value).__name__}")
        if type(values["pid"]) is not int or values["host"] is None:
            raise TypeError("pid or host is missing")
        return cls(**values)  # type: ignore[arg-type]

    def alive(self, now: datetime) -> bool:
        """Whether this owner is still at work, as far as this host can tell."""
        if self.released_at is not None:
            return False
        if self.host != socket.gethostname():
            return now - _moment(self.heartbeat) < STALE_AFTER
        if self.boot_id != boot_id():
            return False
        start = process_start_time(self.pid)
        return start is not None and start == self.process_start_time


def _moment(text: str | None) -> datetime:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def read_owner(directory: str) -> Owner | None:
    """The note in `directory`, None when there is none or it is torn."""
    try:
        with open(os.path.join(directory, "owner.json"), "rb") as file:
            data = jsontext.loads(file.read())
        return Owner.from_json(data)
    except (OSError, jsontext.JsonError, TypeError, AttributeError):
        return None


def live_owner(directory: str, now: datetime) -> Owner | None:
    """The owner that is at work in `directory` now, None when nobody is."""
    owner = read_owner(directory)
    return owner if owner is not None and owner.alive(now) else None


class Claim:
    """The right to write in a directory, held until `release` or the end of the process."""

    def __init__(self, directory: str, fd: int, owner: Owner) -> None:
        self._directory = directory
        self._fd = fd
        self._owner = owner

    @classmethod
    def take(cls, directory: str, now: datetime) -> "Claim | Owner":
        """A claim on `directory`, or the live owner that has it. Raises StorageError."""
        path = os.path.join(directory, "owner.lock")
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise storage_error(error, path) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return read_owner(directory) or Owner(0, "unknown host", None, None, "", "")
        except OSError as error:  # a file system that cannot lock
            os.close(fd)
            raise storage_error(error, path) from error
        other = read_owner(directory)
        if other is not None and other.host != socket.gethostname() and other.alive(now):
            os.close(fd)
            return other
        claim = cls(directory, fd, Owner.current(now))
        try:
            claim._write()
        except BaseException:
            claim.abandon()
            raise
        return claim

    def beat(self, now: datetime) -> None:
        """Renew the note."""
        self._owner = _replace(self._owner, heartbeat=iso(now))
        self._write()

    def release(self, now: datetime) -> None:
        """Give the directory up, saying so in the note. Idempotent; never fails.

        A note that cannot be written any more is removed: it must not say that we are at work.
        """
        if self._fd < 0:
            return
        self._owner = _replace(self._owner, heartbeat=iso(now), released_at=iso(now))
        try:
            self._write()
        except StorageError:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._directory, "owner.json"))
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Give the directory up without a note. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self) -> None:
        path = os.path.join(self._directory, "owner.json")
        write_json(path, self._owner.to_json(), "owner", Sync.NONE)


def _replace(owner: Owner, **changes: str) -> Owner:
    return Owner.from_json({**owner.to_json(), **changes})
