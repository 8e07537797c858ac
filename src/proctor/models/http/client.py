"""The HTTP client of the model adapters.

HTTP/1.1 with keep-alive, plain or TLS. Nothing in it looks at all connections or all waiting
requests, so ten thousand requests may wait at once. Not spoken, on purpose: redirects (a key
must not follow them), proxies, compressed bodies (none is asked for), HTTP/2.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import h11

from proctor.models.errors import Category, RequestFailed, failed
from proctor.models.http.connection import Connection, Headers
from proctor.models.http.endpoint import Endpoint
from proctor.models.http.pool import Pool

DRAIN_S = 1.0
"""How long the rest of a response is waited for, so that its connection can be used again."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one request. Waiting for a turn to connect counts towards none of them."""

    connect_s: float = 10.0
    """Name look-up, TCP and TLS."""
    first_byte_s: float | None = None
    """From the request's last byte to the response's head; None: only the total counts."""
    total_s: float = 600.0
    """From the request's first byte to the response's last."""
    response_bytes: int = 32 * 1024 * 1024
    """Longest response body."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request; `body` is called when it is sent, so that nothing is held while waiting."""

    method: str
    target: str
    headers: Headers
    body: Callable[[], bytes]


class Response:
    """Status, headers (lower-case names, repeated ones joined by commas) and the body."""

    def __init__(self, connection: Connection, head: h11.Response, max_bytes: int) -> None:
        self._connection = connection
        self._max_bytes = max_bytes
        self.status = head.status_code
        self.headers: dict[str, str] = {}
        for raw_name, raw_value in head.headers:
            name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body in pieces. Raises RequestFailed: truncated, too_large."""
        size = 0
        async for chunk in self._connection.chunks():
            size += len(chunk)
            if size > self._max_bytes:
                message = f"the reply is longer than {self._max_bytes:,} bytes"
                raise failed(Category.TOO_LARGE, message, self.status)
            yield chunk

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([chunk async for chunk in self.chunks()])


class HttpClient:
    """Sends requests to one endpoint, from any number of event loops."""

    def __init__(
        self, endpoint: Endpoint, bounds: Bounds, context: ssl.SSLContext | None = None
    ) -> None:
        self._endpoint = endpoint
        self._bounds = bounds
        self._context = context
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}

    @property
    def opened(self) -> int:
        """Connections made so far."""
        return sum(pool.opened for pool in self._pools.values())

    @asynccontextmanager
    async def request(self, request: Request) -> AsyncIterator[Response]:
        """Send `request`; the response is valid inside the `async with`.

        Raises RequestFailed: connection, timeout, truncated, too_large, malformed.
        """
        pool = self._pool()
        connection = await pool.acquire()
        try:
            async with asyncio.timeout(self._bounds.total_s) as total:
                connection.send(request.method, request.target, request.headers, request.body())
                head = await self._head(connection)
                yield Response(connection, head, self._bounds.response_bytes)
                await _drain(connection)
        except TimeoutError:
            if not total.expired():
                raise
            message = f"no complete reply within {self._bounds.total_s:g} s"
            raise failed(Category.TIMEOUT, message, connection.status) from None
        finally:
            pool.release(connection)

    async def close(self) -> None:
        """Close the connections of all event loops. Idempotent."""
        here = asyncio.get_running_loop()
        for loop, pool in list(self._pools.items()):
            if loop is here:
                pool.close()
                await asyncio.sleep(0)  # lets the transports close
            elif not loop.is_closed():
                loop.call_soon_threadsafe(pool.close)
        self._pools.clear()

    async def _head(self, connection: Connection) -> h11.Response:
        if self._bounds.first_byte_s is None:
            return await connection.head()
        try:
            async with asyncio.timeout(self._bounds.first_byte_s) as first_byte:
                return await connection.head()
        except TimeoutError:
            if not first_byte.expired():
                raise
            message = f"no answer within {self._bounds.first_byte_s:g} s"
            raise failed(Category.TIMEOUT, message) from None

    def _pool(self) -> Pool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for gone in [known for known in self._pools if known.is_closed()]:
                del self._pools[gone]
            pool = Pool(self._endpoint, self._bounds.connect_s, self._context)
            self._pools[loop] = pool
        return pool


async def _drain(connection: Connection) -> None:
    if connection.finished:
        return
    try:
        async with asyncio.timeout(DRAIN_S):
            async for _ in connection.chunks():
                pass
    except (TimeoutError, RequestFailed):
        pass  # all that was wanted is here: the connection will be closed, not used again
