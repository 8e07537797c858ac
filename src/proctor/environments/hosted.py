"""Sessions whose files lie in a private temporary folder of this host.

The folder is made on first use: an attempt that never touches its environment never touches the
disk. Blocking work on whole trees runs in threads that `close` stops and waits for.
"""

import asyncio
import os
import secrets
import shutil
import stat
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from proctor.environments.child import Child
from proctor.environments.contract import DOWNLOAD_LIMIT_BYTES, Command, EnvironmentSession
from proctor.environments.copying import Ids, Stopped, TreeCopy
from proctor.environments.owner import MARKER, Owner
from proctor.environments.patience import Patience
from proctor.environments.removal import remove_entry
from proctor.environments.rooted import RootedFiles, gone
from proctor.kernel.errors import EnvironmentFault

_INLINE_BYTES = 262_144
_INLINE_ENTRIES = 64  # removing a folder can take a millisecond; the loop must not stall
_LONG_SCRIPT = 100_000  # one argument holds at most 128 KiB
_STOP_WAIT_S = 5.0
_REMOVAL_TIMEOUT_S = 60.0


@cache
def temp_dir() -> str:
    """The system's folder for temporary files, free of links."""
    return os.path.realpath(tempfile.gettempdir())


@cache
def shell() -> str:
    """bash where the machine has it, else sh."""
    for path in ("/bin/bash", "/usr/bin/bash"):
        if os.access(path, os.X_OK):
            return path
    return shutil.which("bash") or "/bin/sh"


class HostedSession(EnvironmentSession):
    """File operations and life cycle; a provider adds `exec` and where its paths lie.

    `tree` is the folder below the private root that the session's files live in, and `folders`
    are made in it with the root. `ids` own everything in it, None: who runs this process.
    """

    def __init__(
        self,
        provider: str,
        labels: Mapping[str, str],
        *,
        tree: str,
        folders: Sequence[str],
        ids: Ids = None,
    ) -> None:
        self._provider = provider
        self._labels = dict(labels)
        self._owner = Owner.this_process()
        self._name = self._owner.new_name()
        self._root = os.path.join(temp_dir(), self._name)
        self._tree = os.path.join(self._root, tree) if tree else self._root
        self._folders = folders
        self._ids = ids
        self._files = RootedFiles(self._tree, ids)
        self._running: set[Child] = set()
        self._kills = 0
        self._made = False
        self._closed = False
        self._closing = asyncio.Lock()
        self._copies: dict[TreeCopy, asyncio.Future[None]] = {}

    @abstractmethod
    def locate(self, path: str) -> list[str]:
        """The names from `tree` to a path inside. Raises EnvironmentFault `refused_path`."""

    def make_more(self) -> None:
        """Whatever else belongs into a new root. Default: nothing."""

    async def release(self) -> None:
        """Give back whatever else the session holds, after its commands and before its root.
        Idempotent. Default: nothing."""

    # --- files

    async def upload(self, source: Path, target: str) -> None:
        parts = self.ready(target)
        copy = TreeCopy(ids=self._ids)
        if _is_small_file(source):
            self._files.upload(copy, source, parts, target)
            return
        await self._in_thread(copy, lambda: self._files.upload(copy, source, parts, target))

    async def download(
        self, source: str, target: Path, *, limit_bytes: int = DOWNLOAD_LIMIT_BYTES
    ) -> None:
        parts = self.ready(source)
        copy = TreeCopy(limit_bytes)
        await self._in_thread(copy, lambda: self._files.download(copy, parts, source, target))

    async def read(self, path: str, *, limit_bytes: int = 10_000_000) -> bytes:
        return self._files.read(self.ready(path), path, limit_bytes)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._files.write(self.ready(path), path, data, mode)

    async def remove(self, path: str) -> None:
        parts = self.ready(path)
        await self.in_slices(lambda most: self._files.remove(parts, path, max_entries=most))

    # --- life cycle

    async def kill_processes(self) -> None:
        """Kill the commands that still run; whoever waits for them gets their results."""
        patience = Patience(_STOP_WAIT_S)
        while self._running:
            self._kills += 1
            for child in self._running:
                child.kill()
            if patience.over():
                raise EnvironmentFault("killed commands do not end", code="unkillable")
            await patience.pause()

    async def alive(self) -> bool:
        return not self._closed and (not self._made or self._is_there())

    async def close(self) -> None:
        """Kill what is left and remove the root.

        Raises EnvironmentFault when something could not be removed; calling it again tries again.
        """
        self._closed = True
        if not self._made:
            return
        async with self._closing:
            if self._is_left():
                await self._stop_copies()
                try:
                    await self.kill_processes()
                    await self.release()
                finally:
                    await self._remove_root()

    def _is_left(self) -> bool:
        return self._made

    async def _remove_root(self) -> None:
        try:
            place = os.open(os.path.dirname(self._root), os.O_RDONLY | os.O_DIRECTORY)
            try:
                await self._remove_from(place)
            finally:
                os.close(place)
        except FileNotFoundError:  # not even the folder around it is there
            pass
        except OSError as error:
            raise EnvironmentFault(f"cannot remove {self._root}: {error}") from error
        self._made = False

    async def _remove_from(self, place: int) -> None:
        if remove_entry(place, self._name, max_entries=_INLINE_ENTRIES):
            return
        own = os.dup(place)  # a cancelled caller closes its descriptor while the thread goes on

        def remove() -> bool:
            try:
                return remove_entry(own, self._name, timeout_s=_REMOVAL_TIMEOUT_S)
            finally:
                os.close(own)

        if not await asyncio.to_thread(remove):
            raise EnvironmentFault(
                f"{self._root} was not removed within {_REMOVAL_TIMEOUT_S:g} s",
                hint=f"remove it by hand: rm -rf {self._root}",
            )

    # --- for providers

    def ensure_root(self) -> None:
        """Make the root unless it is there; a fault when it vanished or the session is closed."""
        if self._closed:
            raise gone("this environment is closed")
        if self._made:
            if not self._is_there():
                raise gone(f"the environment's folder {self._tree} is gone")
            return
        try:
            self._make_root()
        except OSError as error:
            self._made = True  # whatever of it exists is removed by `close`
            raise EnvironmentFault(
                f"cannot make {self._root}: {error.strerror}",
                hint="set TMPDIR to a folder with room that you may write to",
            ) from error

    def _is_there(self) -> bool:
        return os.path.isdir(self._tree)

    def _make_root(self) -> None:
        os.mkdir(self._root, 0o700)
        self._made = True
        if self._ids is not None:
            os.chown(self._root, *self._ids)
        marker = self._owner.marker(self._provider, self._labels)
        RootedFiles(self._root).write([MARKER], MARKER, marker, 0o600)
        folders = [os.path.join(self._tree, folder) for folder in self._folders]
        if self._tree != self._root:
            folders.insert(0, self._tree)
        for folder in folders:
            os.mkdir(folder, 0o755)
            if self._ids is not None:
                os.chown(folder, *self._ids)
        self.make_more()

    def ready(self, path: str) -> list[str]:
        """Make sure that the root is there, and locate a path in it."""
        self.ensure_root()
        if "\0" in path:
            message = f"{path!r} holds a NUL byte"
            raise EnvironmentFault(message, code="refused_path", permanent=True)
        return self.locate(self.resolve(path))

    async def argv(self, command: Command, shell: str, scratch: str) -> list[str]:
        """`command` as a list; a script too long for an argument goes into a file in `scratch`."""
        if not isinstance(command, str):
            return [str(part) for part in command]
        data = command.encode("utf-8", "replace")
        if len(data) < _LONG_SCRIPT:
            return [shell, "-c", command]
        path = f"{scratch}/script-{secrets.token_hex(6)}.sh"
        await self.write(path, data, mode=0o700)
        return [shell, path]

    async def in_slices(self, work: Callable[[int | None], bool]) -> None:
        """Do a removal here when it is short, else go on in a thread."""
        if not work(_INLINE_ENTRIES):
            await asyncio.to_thread(work, None)

    async def _in_thread(self, copy: TreeCopy, work: Callable[[], None]) -> None:
        """Run `work` in a thread. When we are cancelled, the copy is stopped, not left behind."""
        future = asyncio.get_running_loop().run_in_executor(None, work)
        self._copies[copy] = future
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError:
            copy.stop()
            await self._settled([future])
            raise
        except Stopped:
            raise gone("this environment was closed during a copy") from None
        finally:
            self._copies.pop(copy, None)

    async def _stop_copies(self) -> None:
        for copy in self._copies:
            copy.stop()
        await self._settled(list(self._copies.values()))

    async def _settled(self, futures: Sequence["asyncio.Future[None]"]) -> None:
        if not futures:
            return
        done, _ = await asyncio.wait(futures, timeout=_STOP_WAIT_S)
        for future in done:
            future.exception()  # looked at, so that asyncio does not report it: nobody waits for it


def _is_small_file(source: Path) -> bool:
    try:
        facts = os.lstat(source)
    except OSError:
        return True  # the copy itself says what is wrong
    return not stat.S_ISDIR(facts.st_mode) and facts.st_size <= _INLINE_BYTES
