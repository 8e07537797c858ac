"""One client connection: a request out, a response in, one at a time."""

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence

import h11

from proctor.models.errors import Category, RequestFailed, failed
from proctor.models.http.tls import Wire
from proctor.models.http.turns import Turns

MAX_HEAD_BYTES = 64 * 1024
"""Longest status line and headers of a response."""

PAUSE_BYTES = 256 * 1024
"""A reader that is this far behind stops the sender."""

Headers = Sequence[tuple[bytes, bytes]]


class Connection(asyncio.Protocol):
    """The protocol object of one connection. `usable` says whether it can take a request."""

    __slots__ = (
        "_arrived", "_chunks", "_cut_by", "_eof", "_failure", "_finished", "_h11", "_head",
        "_loop", "_lost", "_paused", "_turns", "_unread", "_waiter", "_waiting", "_wire",
        "idle_since",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, turns: Turns) -> None:
        self._loop = loop
        self._turns = turns
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._wire: Wire | None = None
        self._head: h11.Response | None = None
        self._arrived: list[bytes] = []  # as received; looked at when it is our turn
        self._eof = False
        self._cut_by: Exception | None = None
        self._waiting = False
        self._chunks: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._finished = False
        self._lost = False
        self._failure: RequestFailed | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.idle_since = 0.0

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.attach(transport)

    def attach(self, wire: Wire) -> None:
        """Take the wire to write to."""
        self._wire = wire

    def data_received(self, data: bytes) -> None:
        self._arrived.append(data)
        self._unread += len(data)
        if self._unread > PAUSE_BYTES and not self._paused and self._wire is not None:
            self._paused = True
            self._wire.pause_reading()
        self._take_a_turn()

    def eof_received(self) -> None:
        self._eof = True
        self._take_a_turn()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._cut_by = exc
            self._wire = None
            self._take_a_turn()

    def _take_a_turn(self) -> None:
        if not self._waiting:
            self._waiting = True
            self._turns.add(self)

    def work(self) -> None:
        """Look at what has arrived. Called by `Turns`."""
        self._waiting = False
        if self._h11.our_state is h11.IDLE:
            if self._arrived:  # an answer to nothing: not to be trusted
                self.abort()
            return
        if self._arrived:
            data = b"".join(self._arrived)
            self._arrived.clear()
            self._unread -= len(data)
            self._feed(data)
            self._go_on_reading()
        if self._eof or (self._lost and self._cut_by is None):
            self._feed(b"")
        if self._lost and not self._finished and self._failure is None:
            self._failure = self._cut(self._cut_by)
        self._wake()

    def _feed(self, data: bytes) -> None:
        if self._finished:
            if data:  # more than the whole answer
                self.abort()
            return
        if self._failure is not None:
            return
        try:
            self._h11.receive_data(data)
            self._take_events()
        except h11.RemoteProtocolError as error:
            if data:
                message = f"the endpoint does not speak HTTP/1.1: {error}"
                self._failure = failed(Category.MALFORMED, message, self.status)
            else:
                self._failure = self._cut(None)
            self.abort()

    def _take_events(self) -> None:
        while True:
            event = self._h11.next_event()
            if type(event) is h11.Data:
                self._chunks.append(bytes(event.data))
                self._unread += len(event.data)
            elif type(event) is h11.Response:
                self._head = event
            elif type(event) is h11.EndOfMessage:
                self._finished = True
            elif type(event) is not h11.InformationalResponse:
                break  # NEED_DATA, PAUSED or closed

    def _cut(self, exc: Exception | None) -> RequestFailed:
        why = f": {describe(exc)}" if exc is not None else ""
        if self._head is None:
            return failed(Category.CONNECTION, f"the connection was closed before an answer{why}")
        return failed(Category.TRUNCATED, f"the connection was cut in the reply{why}", self.status)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What the client calls.

    @property
    def usable(self) -> bool:
        """Open, and with no request on it."""
        wire = self._wire
        if wire is None or wire.is_closing() or self._eof or self._arrived:
            return False
        return self._h11.our_state is h11.IDLE

    @property
    def status(self) -> int | None:
        """The response's status once it is known."""
        return self._head.status_code if self._head is not None else None

    def send(self, method: str, target: str, headers: Headers, body: bytes) -> None:
        """Write one whole request. Raises RequestFailed when the connection was just lost."""
        if self._wire is None or not self.usable:
            raise failed(Category.CONNECTION, "the connection was closed before the request")
        fields = [*headers, (b"Content-Length", b"%d" % len(body))]
        request = h11.Request(method=method, target=target, headers=fields)
        parts = [self._h11.send(request)]
        if body:
            parts.append(self._h11.send(h11.Data(data=body)))
        parts.append(self._h11.send(h11.EndOfMessage()))
        self._wire.write(b"".join(part for part in parts if part))

    async def head(self) -> h11.Response:
        """Wait for status and headers. Raises RequestFailed."""
        while self._head is None:
            if self._failure is not None:
                raise self._failure
            await self._change()
        return self._head

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises RequestFailed when it is cut."""
        while True:
            if self._chunks:
                yield self._take()
            elif self._finished:
                return
            elif self._failure is not None:
                raise self._failure
            else:
                await self._change()

    @property
    def finished(self) -> bool:
        """Whether the whole response was received and taken."""
        return self._finished and not self._chunks

    def _change(self) -> "asyncio.Future[None]":
        """Done when the transport has brought something new."""
        self._waiter = self._loop.create_future()
        return self._waiter

    def _take(self) -> bytes:
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._unread -= len(data)
        self._go_on_reading()
        return data

    def _go_on_reading(self) -> None:
        if self._paused and self._unread <= PAUSE_BYTES and self._wire is not None:
            self._paused = False
            self._wire.resume_reading()

    def next_request(self, now: float) -> bool:
        """Make ready for another request; False when the connection cannot be used again."""
        if not self.finished or self._lost or self._failure is not None:
            return False
        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        if self._h11.trailing_data[0]:  # more than the whole answer
            return False
        self._h11.start_next_cycle()
        self._head = None
        self._finished = False
        self.idle_since = now
        return self.usable

    def close(self) -> None:
        """Close after what is written has left."""
        if self._wire is not None:
            self._wire.close()

    def abort(self) -> None:
        """Close at once."""
        if self._wire is not None:
            self._wire.abort()


def describe(error: Exception) -> str:
    """A connection error in a few words."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return "too many open files: raise the limit (`ulimit -n`) or lower `model.concurrency`"
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error) or type(error).__name__
