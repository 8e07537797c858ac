"""TLS for one client connection, over memory buffers.

asyncio's own TLS reserves 256 KiB for every connection; ten thousand waiting ones would need
2.5 GB. This layer keeps nothing between records. Certificates and host names are verified by
the SSL context as usual.
"""

import asyncio
import functools
import ssl
from typing import Protocol

READ_BYTES = 64 * 1024


class Wire(Protocol):
    """What a connection asks of its transport, plain or TLS."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def is_closing(self) -> bool: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Inner(Protocol):
    """The protocol above: fed with plain text."""

    def attach(self, wire: Wire) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


@functools.cache
def default_context() -> ssl.SSLContext:
    """Verifies against the system's certificates and those of certifi. One per process."""
    import certifi

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


class TlsProtocol(asyncio.Protocol):
    """Sits between a TCP transport and the protocol that wants plain text.

    `ready` is done when the handshake is, or failed with its exception.
    """

    def __init__(
        self,
        inner: Inner,
        context: ssl.SSLContext,
        host: str,
        ready: "asyncio.Future[None]",
    ) -> None:
        self._inner = inner
        self._ready = ready
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        # Some Python releases set this option: a connection that is cut would look like its end.
        context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._transport: asyncio.Transport | None = None
        self._backlog: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._handshake()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if not self._ready.done():
            self._handshake()
        if self._ready.done() and not self._ready.cancelled():
            self._pump()

    def eof_received(self) -> None:
        self._incoming.write_eof()
        if self._ready.done():
            self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._ready.done():
            self._ready.set_exception(exc or ConnectionError("closed during the TLS handshake"))
        else:
            self._inner.connection_lost(exc)

    def _handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._flush()  # the alert that tells the other side why
            if not self._ready.done():
                self._ready.set_exception(error)
            self.close()
            return
        else:
            if not self._ready.done():
                self._ready.set_result(None)
                self._inner.attach(self)
        self._flush()

    def _pump(self) -> None:
        if self._backlog:
            waiting, self._backlog = self._backlog, []
            for data in waiting:
                self.write(data)
        try:
            while data := self._tls.read(READ_BYTES):
                self._inner.data_received(data)
            self._closed_by_peer(None)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._closed_by_peer(None)
        except ssl.SSLError as error:
            self._closed_by_peer(ConnectionError(f"TLS: {error.reason or error}"))
        self._flush()

    def _closed_by_peer(self, error: Exception | None) -> None:
        if error is None:
            self._inner.eof_received()
            self.close()
        else:
            self._inner.connection_lost(error)
            self.abort()

    def _flush(self) -> None:
        if self._transport is not None and (data := self._outgoing.read()):
            self._transport.write(data)

    def write(self, data: bytes) -> None:
        """Encrypt and send."""
        view = memoryview(data)
        try:
            while view:
                view = view[self._tls.write(view) :]
        except ssl.SSLWantReadError:  # keys are being renewed: go on when the peer has answered
            self._backlog.append(bytes(view))
        self._flush()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()
