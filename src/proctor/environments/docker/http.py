"""One HTTP/1.1 connection to an engine: requests, streamed bodies, and the upgrade to raw bytes."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

import h11

from proctor.environments.docker.endpoint import Endpoint

Body: TypeAlias = bytes | AsyncIterator[bytes]

_READ_BYTES = 262_144
_CONNECT_S = 10.0


class Broken(Exception):
    """The other side is not there, or does not keep to HTTP."""


class Connection:
    """One connection. Every method raises Broken when the other side fails."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self.status = 0
        self.headers: Mapping[str, str] = {}

    @classmethod
    async def open(cls, endpoint: Endpoint) -> "Connection":
        """Connect, within ten seconds."""
        limit = 2 * _READ_BYTES
        with _breaking():
            async with asyncio.timeout(_CONNECT_S):
                if endpoint.path is not None:
                    return cls(*await asyncio.open_unix_connection(endpoint.path, limit=limit))
                host, port = endpoint.host, endpoint.port
                return cls(*await asyncio.open_connection(host, port, limit=limit))

    async def request(
        self, method: str, target: str, headers: Mapping[str, str], body: Body = b""
    ) -> None:
        """Send a request and read the head of its answer into `status` and `headers`."""
        own = {"Host": "engine", **headers}
        if not isinstance(body, bytes):
            own.setdefault("Transfer-Encoding", "chunked")
        elif body or method in ("POST", "PUT"):
            own["Content-Length"] = str(len(body))
        event = h11.Request(method=method, target=target, headers=list(own.items()))
        await self._send(event)
        if isinstance(body, bytes):
            if body:
                await self._send(h11.Data(data=body))
        else:
            async for chunk in body:
                await self._send(h11.Data(data=chunk))
        await self._send(h11.EndOfMessage())
        await self._head()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body of the answer."""
        while True:
            event = await self._next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            else:
                return

    def upgraded(self) -> bytes:
        """After an answer 101: what of the raw stream came with it."""
        return bytes(self._http.trailing_data[0])

    def reusable(self) -> bool:
        """Whether the next request may go over this connection; prepares it for that."""
        done = (h11.DONE, h11.DONE)
        if (self._http.our_state, self._http.their_state) != done or self.reader.at_eof():
            return False
        self._http.start_next_cycle()
        return True

    def close(self) -> None:
        """Drop the connection, whatever state it is in."""
        self.writer.transport.abort()  # also with input that nobody took

    async def _head(self) -> None:
        while True:
            event = await self._next()
            if isinstance(event, h11.Response) or (
                isinstance(event, h11.InformationalResponse) and event.status_code == 101
            ):
                self.status = event.status_code
                self.headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in event.headers}
                return
            if event is None or isinstance(event, h11.ConnectionClosed):
                raise Broken("it closed the connection")

    async def _send(self, event: h11.Event) -> None:
        with _breaking():
            data = self._http.send(event)
            if data:
                self.writer.write(data)
                await self.writer.drain()

    async def _next(self) -> h11.Event | None:
        """The next part of the answer; None when the stream is no HTTP any more."""
        with _breaking():
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self.reader.read(_READ_BYTES))
        return event if isinstance(event, h11.Event) else None


@contextmanager
def _breaking() -> Iterator[None]:
    try:
        yield
    except (OSError, TimeoutError, h11.ProtocolError) as error:
        raise Broken(str(error) or type(error).__name__) from error
