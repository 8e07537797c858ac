"""One connection of the HTTP server."""

import asyncio
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote, urlsplit

import h11

MAX_BODY_BYTES = 32 * 1024 * 1024
"""Longest request body; a longer one is answered with 413."""

READ_TIMEOUT_S = 120.0
"""How long a client may take to send a request, or to keep an idle connection."""

PIPELINE_BYTES = 64 * 1024
"""A client that sends this much before its last request is answered is not read any further."""

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: drop what is unsent and send RST


@dataclass(frozen=True, slots=True)
class Incoming:
    """A whole request. `path` is decoded, `headers` have lower-case names."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class ConnectionClosed(Exception):
    """The client is gone."""


class Owner(Protocol):
    """The server, as its connections see it."""

    def opened_by(self, connection: "ServerConnection") -> None: ...

    def closed_by(self, connection: "ServerConnection") -> None: ...

    def handle(
        self, incoming: Incoming, connection: "ServerConnection"
    ) -> "asyncio.Task[None]": ...


class ServerConnection(asyncio.Protocol):
    """One client. Requests are answered one after the other."""

    def __init__(self, server: Owner) -> None:
        self._server = server
        self._h11 = h11.Connection(h11.SERVER)
        self._transport: asyncio.Transport | None = None
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._ahead = 0
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writable: asyncio.Future[None] | None = None
        self._full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.opened_by(self)
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._stop_timer()
        self._server.closed_by(self)
        self.resume_writing()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def data_received(self, data: bytes) -> None:
        try:
            self._h11.receive_data(data)
            if self._task is None:
                self._take_events()
                return
        except h11.RemoteProtocolError as error:
            self.refuse(error.error_status_hint, "not an HTTP/1.1 request")
            return
        self._ahead += len(data)
        if self._ahead > PIPELINE_BYTES and self._transport is not None:
            self._transport.pause_reading()

    def _take_events(self) -> None:
        while self._task is None:
            event = self._h11.next_event()
            if type(event) is h11.Request:
                self._request = event
                if self._h11.they_are_waiting_for_100_continue:
                    self.send(h11.InformationalResponse(status_code=100, headers=[]))
            elif type(event) is h11.Data:
                self._body += event.data
                if len(self._body) > MAX_BODY_BYTES:
                    self.refuse(413, f"a request body has at most {MAX_BODY_BYTES:,} bytes")
                    return
            elif type(event) is h11.EndOfMessage:
                self._dispatch()
            else:
                return

    def _dispatch(self) -> None:
        assert self._request is not None
        self._stop_timer()
        target = urlsplit(self._request.target.decode("ascii"))
        incoming = Incoming(
            self._request.method.decode("ascii"),
            unquote(target.path),
            target.query,
            {
                name.decode("ascii"): value.decode("latin-1")
                for name, value in self._request.headers
            },
            bytes(self._body),
        )
        self._request, self._body = None, bytearray()
        self._task = self._server.handle(incoming, self)

    def answered(self) -> None:
        """The handler is done: close, or go on with the next request."""
        self._task = None
        if self._transport is None or self._transport.is_closing():
            return
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            if self._ahead > PIPELINE_BYTES:
                self._transport.resume_reading()
            self._ahead = 0
            self._wait_for_request()
            try:
                self._take_events()
            except h11.RemoteProtocolError as error:
                self.refuse(error.error_status_hint, "not an HTTP/1.1 request")
        else:
            self.close()

    def send(self, *events: h11.Event) -> None:
        """Send events in one write. Raises ConnectionClosed when the client is gone."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionClosed
        data = b"".join(part for event in events if (part := self._h11.send(event)))
        if data:
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the client has taken most of what was sent."""
        while self._full and self._transport is not None:
            self._writable = asyncio.get_running_loop().create_future()
            try:
                await self._writable
            finally:
                self._writable = None

    def refuse(self, status: int, reason: str) -> None:
        """Answer with an error, if that is still possible, and close."""
        if self._transport is None:
            return
        if self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            text = reason.encode("utf-8")
            fields = [("Content-Length", str(len(text))), ("Connection", "close")]
            head = h11.Response(status_code=status, headers=fields)
            self.send(head, h11.Data(data=text), h11.EndOfMessage())
        self.close()

    def close(self) -> None:
        """Close after what is written has left."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def reset(self) -> None:
        """Close at once with RST, as a crashed peer does."""
        if self._transport is not None:
            sock: socket.socket = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()

    def _wait_for_request(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(READ_TIMEOUT_S, self.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
