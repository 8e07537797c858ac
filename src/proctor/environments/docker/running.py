"""A command that runs: its streams over the raw connection, its input, its end."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from proctor.environments.contract import ExecResult
from proctor.environments.docker.http import Connection
from proctor.environments.docker.wrapper import Output, Wrapper, parsed

_READ_BYTES = 262_144
_HEADER = 8
_STDERR = 2
_MESSAGE_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class Ended:
    """What the ending line said."""

    exit_code: int
    out_of_memory: bool


class Running:
    """Follows one started exec. Once the process id is known, or never will be, `started` is set
    and `entered` called."""

    def __init__(
        self,
        exec_id: str,
        connection: Connection,
        wrapper: Wrapper,
        output_limit_bytes: int,
        entered: Callable[[], None],
    ) -> None:
        self.exec_id = exec_id
        self.started = asyncio.Event()
        self._entered = entered
        self._connection = connection
        self._out = Output(output_limit_bytes, wrapper.end)
        self._err = Output(output_limit_bytes, wrapper.end, wrapper.hello)
        self._pending = bytearray()

    @property
    def pid(self) -> int | None:
        """The process that leads the command's group, as numbered inside."""
        return self._err.pid

    @property
    def ended(self) -> Ended | None:
        """How the command ended, once both streams have said so."""
        found = parsed(self._err.report)
        return None if self._out.report is None or found is None else Ended(*found)

    async def follow(self, stdin: bytes | None) -> None:
        """Until the command has ended, or its stream."""
        feeding = None if stdin is None else asyncio.ensure_future(self._feed(stdin))
        try:
            await self._read()
        finally:
            self._begun()
            if feeding is not None:
                feeding.cancel()
                await asyncio.wait((feeding,))
            self._connection.close()
            self._out.finish()
            self._err.finish()

    def text(self) -> str:
        """What came before the command could start: the engine's own words."""
        parts = (self._err.capture.result().text, self._out.capture.result().text)
        loose = bytes(self._pending).decode("utf-8", "replace")
        return " ".join((*parts, loose)).strip()[-500:]

    def result(self, exit_code: int | None, *, timed_out: bool, duration_s: float) -> ExecResult:
        """The answer to the caller."""
        out, err = self._out.capture.result(), self._err.capture.result()
        dropped = out.dropped_bytes + err.dropped_bytes
        return ExecResult(
            exit_code,
            out.text,
            err.text,
            timed_out=timed_out,
            truncated=dropped > 0,
            dropped_bytes=dropped,
            out_of_memory=bool(self.ended and self.ended.out_of_memory),
            duration_s=duration_s,
            stdout_raw=out.raw,
            stderr_raw=err.raw,
        )

    async def _read(self) -> None:
        self._take(self._connection.upgraded())
        reader = self._connection.reader
        while self._out.report is None or self._err.report is None:
            try:
                data = await reader.read(_READ_BYTES)
            except OSError:  # as good as its end: the caller asks the engine what became of it
                return
            if not data:
                return
            self._take(data)

    def _take(self, data: bytes) -> None:
        """Sort the frames: a stream's number, three zeros, four bytes of length, the bytes."""
        pending = self._pending
        pending += data
        at = 0
        while len(pending) - at >= _HEADER:
            if pending[at] > _STDERR or pending[at + 1 : at + 4] != b"\0\0\0":
                break  # plain text, which the engine writes when it could not start the command
            size = int.from_bytes(pending[at + 4 : at + _HEADER])
            if len(pending) - at - _HEADER < size:
                break
            sink = self._err if pending[at] == _STDERR else self._out
            sink.feed(bytes(pending[at + _HEADER : at + _HEADER + size]))
            at += _HEADER + size
        del pending[:at]
        if self._err.pid is not None:
            self._begun()

    def _begun(self) -> None:
        if not self.started.is_set():
            self.started.set()
            self._entered()

    async def _feed(self, stdin: bytes) -> None:
        writer = self._connection.writer
        try:
            writer.write(stdin)
            await writer.drain()
            writer.write_eof()
        except OSError:  # the command does not want the rest
            pass


async def collect_raw(connection: Connection, limit_s: float) -> str:
    """The first bytes of a raw stream as text, for messages; drops the connection at the end."""
    data = bytearray(connection.upgraded())
    try:
        async with asyncio.timeout(limit_s):
            while chunk := await connection.reader.read(_READ_BYTES):
                data += chunk[: max(0, _MESSAGE_BYTES - len(data))]
    except (OSError, TimeoutError):  # what came is what there is to tell
        pass
    finally:
        connection.close()
    return bytes(byte for byte in data if byte >= 32 or byte == 10).decode("utf-8", "replace")
