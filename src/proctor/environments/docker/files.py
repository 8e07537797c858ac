"""Files of a container through the engine's archive calls, which need no program inside.

The engine follows links of the container within the container. What may be a link is therefore
looked at first, name by name: an operation through a link is refused. Whoever exchanges a name
between the look and the operation reaches other files of the same container, never the host's.
"""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from proctor.environments.copying import Stopped
from proctor.environments.docker.container import Container, gone
from proctor.environments.docker.engine import CALL_S, EngineError, collected, within
from proctor.environments.docker.http import Broken, Connection
from proctor.environments.docker.images import file_chunks
from proctor.environments.docker.packing import Pack, first_file, folders, one_file, too_large
from proctor.environments.docker.unpacking import Unpack
from proctor.kernel import jsontext
from proctor.kernel.errors import EnvironmentFault

_FOLDER, _LINK = 1 << 31, 1 << 27
_SPECIAL = _FOLDER | _LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
_TAR_MARGIN = 100_000
_TREE_S = 3_600.0
_STOP_WAIT_S = 10.0
_STAT = "x-docker-container-path-stat"
_LOOPS = ("evalSymlinksInScope: too many links", ": too many levels of symbolic links")
"""How docker and podman say that links lead in a circle."""
_KERNEL = ("proc", "sys", "dev")


@dataclass(frozen=True, slots=True)
class Entry:
    """What has a name: `mode` as the engine's language counts it."""

    mode: int
    size: int

    @property
    def folder(self) -> bool:
        return bool(self.mode & _FOLDER) and not self.mode & _LINK

    @property
    def regular(self) -> bool:
        return not self.mode & _SPECIAL

    @property
    def kind(self) -> str:
        if self.mode & _LINK:
            return "a symbolic link"
        return "a folder" if self.folder else "a pipe, socket or device"


class ContainerFiles:
    """File operations on normalised absolute paths. New files belong to `ids` (user, group)."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self.ids = (0, 0)

    async def read(self, path: str, limit_bytes: int) -> bytes:
        """A regular file's bytes."""
        found = await self._present(path)
        if not found.regular:
            raise _not_a_file(path, found)
        if found.size > limit_bytes:
            raise too_large(path, limit_bytes)
        async with within(CALL_S, f"read {path}"), self._archive(path) as answer:
            data = await collected(answer, limit_bytes + _TAR_MARGIN)
        return first_file(data, path, limit_bytes)

    async def write(self, path: str, data: bytes, mode: int) -> None:
        """Write a file in place of whatever file or link has its name."""
        await self._no_folder_in_the_way(path)
        tar = one_file(path.lstrip("/"), data, mode, self.ids, time.time())
        async with within(CALL_S, f"write {path}"):
            await self._put(tar)

    async def make_folders(self, paths: Sequence[str], mode: int) -> None:
        """Make those of the folders that are not there."""
        new = [path for path in paths if await self.entry(path) is None]
        if new:
            names = [path.lstrip("/") for path in new]
            await self._put(folders(names, self.ids, mode, time.time()))

    async def upload(self, source: Path, path: str) -> None:
        """Copy a host file or tree in; everything is checked before anything is sent."""
        pack = Pack(self.ids)
        with pack.stream:
            existing = await self._safe_entry(path)
            merge = existing is not None and existing.folder
            name = path.lstrip("/") or "."

            def work() -> bool:
                folder = source.is_dir() and not source.is_symlink()
                if merge and not folder:
                    raise _in_the_way(path)
                pack.entry(source, name, top=not merge)
                return True

            await _in_thread(work, pack.stop)
            headers = {"Content-Length": str(pack.size())}
            async with within(_TREE_S, f"upload {path}"):
                await self._put(file_chunks(pack.stream), headers)

    async def download(self, path: str, target: Path, limit_bytes: int) -> None:
        """Copy a file or tree out to the host."""
        found = await self._present(path)
        if not (found.regular or found.folder):
            raise _not_a_file(path, found)
        if found.regular and found.size > limit_bytes:
            raise too_large(path, limit_bytes)
        unpack = Unpack(limit_bytes, path)
        async with within(_TREE_S, f"download {path}"), self._archive(path) as answer:
            pipe = _Pipe(answer)
            await _in_thread(lambda: unpack.run(pipe.read, target), unpack.stop, pipe.stop)

    async def entry(self, path: str) -> Entry | None:
        """What has the name `path`; None when nothing has. A link is not followed."""
        engine, name = self._container.engine, self._container.name
        target = f"/containers/{name}/archive"
        try:
            async with (
                within(CALL_S, f"look at {path}"),
                engine.answer("HEAD", target, {"path": path}) as answer,
            ):
                text = answer.headers.get(_STAT, "")
        except EngineError as error:
            if error.status == 500 and await self._loops(path):
                return Entry(_LINK, 0)
            if error.status != 404:
                raise self._container.fault(error, f"look at {path}") from error
            text = error.headers.get(_STAT, "")  # podman: the link that leads nowhere
        if not text:
            return None
        # docker and podman use different alphabets for two of the digits
        facts = jsontext.loads(base64.b64decode(text.replace("-", "+").replace("_", "/")))
        return Entry(int(facts["mode"]), int(facts["size"]))

    async def _loops(self, path: str) -> bool:
        """Whether the engine fails because links lead in a circle, which anybody inside can make.
        It says so only where its answer has a body."""
        target = f"/containers/{self._container.name}/archive"
        try:
            async with (
                within(CALL_S, f"look at {path}"),
                self._container.engine.answer("GET", target, {"path": path}),
            ):
                return False
        except EngineError as error:
            return error.message.startswith(_LOOPS[0]) or error.message.endswith(_LOOPS[1])

    async def safe(self, path: str) -> bool:
        """Whether the folder that holds `path` is there, reached without any link.

        Raises EnvironmentFault `refused_path` for links and files on the way, for `/` itself and
        for what belongs to the kernel.
        """
        parts = [part for part in path.split("/") if part]
        if not parts or parts[0] in _KERNEL or "\0" in path:
            message = f"{path!r} is not a file or folder of this environment"
            raise EnvironmentFault(message, code="refused_path", permanent=True)
        for end in range(1, len(parts)):
            above = "/" + "/".join(parts[:end])
            found = await self.entry(above)
            if found is None:
                return False
            if not found.folder:
                raise EnvironmentFault(
                    f"{path}: {above} is {found.kind if not found.regular else 'a file'}",
                    code="refused_path",
                    permanent=True,
                )
        return True

    # --- parts

    async def _safe_entry(self, path: str) -> Entry | None:
        return await self.entry(path) if await self.safe(path) else None

    async def _present(self, path: str) -> Entry:
        found = await self._safe_entry(path)
        if found is None:
            await self._container.ensure_running()
            raise FileNotFoundError(f"{path} does not exist")
        return found

    async def _no_folder_in_the_way(self, path: str) -> None:
        found = await self._safe_entry(path)
        if found is not None and found.folder:
            raise _in_the_way(path)

    async def _put(
        self, body: bytes | AsyncIterator[bytes], headers: dict[str, str] | None = None
    ) -> None:
        kind = {"Content-Type": "application/x-tar", **(headers or {})}
        engine, name = self._container.engine, self._container.name
        query = {"path": "/"}
        try:
            async with engine.answer(
                "PUT", f"/containers/{name}/archive", query, body, kind
            ) as answer:
                await collected(answer)
        except EngineError as error:
            raise self._container.fault(error, "write files") from error
        except EnvironmentFault as fault:
            if fault.fault_code == "engine_unreachable":  # it hangs up on those who go on sending
                await self._container.ensure_running()
            raise

    @asynccontextmanager
    async def _archive(self, path: str) -> AsyncIterator[Connection]:
        engine, name = self._container.engine, self._container.name
        try:
            async with engine.answer(
                "GET", f"/containers/{name}/archive", {"path": path}
            ) as answer:
                yield answer
        except EngineError as error:
            text = error.message.lower()
            if error.status == 404 and "no such container" not in text:
                raise FileNotFoundError(f"{path} does not exist") from error
            raise self._container.fault(error, f"read {path}") from error


class _Pipe:
    """The body of an answer as a blocking file for a thread."""

    def __init__(self, answer: Connection) -> None:
        self._chunks = answer.chunks()
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._rest = b""

    def read(self, size: int) -> bytes:
        """At most `size` bytes; empty at the end."""
        parts, wanted = [], size
        while wanted > 0:
            if not self._rest:
                self._rest = asyncio.run_coroutine_threadsafe(self._next(), self._loop).result()
                if not self._rest:
                    break
            parts.append(self._rest[:wanted])
            self._rest = self._rest[wanted:]
            wanted -= len(parts[-1])
        return b"".join(parts)

    def stop(self) -> None:
        """Wake a thread that reads."""
        self._answer.close()

    async def _next(self) -> bytes:
        try:
            async for chunk in self._chunks:
                if chunk:
                    return chunk
        except Broken as error:
            raise Stopped from error
        return b""


async def _in_thread(work: Callable[[], object], *stops: Callable[[], None]) -> None:
    """Run `work` in a thread. When we are cancelled it is stopped and waited for."""
    future: Awaitable[object] = asyncio.get_running_loop().run_in_executor(None, work)
    running = asyncio.ensure_future(future)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        for stop in stops:
            stop()
        await asyncio.wait((running,), timeout=_STOP_WAIT_S)
        if running.done() and not running.cancelled():
            running.exception()  # looked at: the cancellation is what is told
        raise
    except Stopped:
        raise gone("the container was removed, or its engine stopped, during a copy") from None


def _not_a_file(path: str, found: Entry) -> EnvironmentFault:
    message = f"{path} is {found.kind}: refused"
    return EnvironmentFault(message, code="not_a_file", permanent=True)


def _in_the_way(path: str) -> EnvironmentFault:
    message = f"{path}: a folder of that name is in the way"
    return EnvironmentFault(message, code="not_a_file", permanent=True)
