"""The HTTP client of the model adapters.

HTTP/1.1 with keep-alive, plain or TLS. Nothing in it looks at all connections or all waiting
requests, so ten thousand requests may wait at once. Not spoken, on purpose: redirects (a key
must not follow them), proxies, compressed bodies (none is asked for), HTTP/2.
"""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType

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

    def request(self, request: Request) -> "Exchange":
        """`async with client.request(…) as response`; the response is valid inside.

        Raises RequestFailed: connection, timeout, truncated, too_large, malformed.
        """
        return Exchange(self.pool(), request, self._bounds)

    async def close(self) -> None:
        """Close the connections of all event loops. Idempotent."""
        here = asyncio.get_running_loop()
        for loop, pool in list(self._pools.items()):
            if loop is here:
                pool.close()
                await pool.closed()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(pool.close)
        self._pools.clear()

    def pool(self) -> Pool:
        """The connections of the running event loop."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for gone in [known for known in self._pools if known.is_closed()]:
                del self._pools[gone]
            pool = Pool(self._endpoint, self._bounds.connect_s, self._context)
            self._pools[loop] = pool
        return pool


class Exchange:
    """One request and its response, bounded in time.

    A class with few parts, not a generator: with ten thousand of them waiting, every object
    that the garbage collector must visit counts.
    """

    __slots__ = ("_bounds", "_connection", "_pool", "_request", "_timeout")

    def __init__(self, pool: Pool, request: Request, bounds: Bounds) -> None:
        self._pool = pool
        self._request = request
        self._bounds = bounds
        self._connection: Connection | None = None
        self._timeout: asyncio.Timeout | None = None

    async def __aenter__(self) -> Response:
        request, bounds = self._request, self._bounds
        connection = self._connection = await self._pool.acquire()
        try:
            timeout = self._timeout = asyncio.timeout(bounds.total_s)
            await timeout.__aenter__()
            connection.send(request.method, request.target, request.headers, request.body())
            if bounds.first_byte_s is None:
                head = await connection.head()
            else:
                head = await _head_within(connection, bounds.first_byte_s)
        except BaseException:
            # The timeout turns its own cancellation into a TimeoutError on the way out.
            await self.__aexit__(*sys.exc_info())
            raise
        return Response(connection, head, bounds.response_bytes)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        connection, timeout = self._connection, self._timeout
        assert connection is not None
        try:
            if timeout is not None:
                await timeout.__aexit__(kind, error, traceback)
            if kind is None and not connection.finished:
                await _drain(connection)
        except TimeoutError:
            message = f"no complete reply within {self._bounds.total_s:g} s"
            raise failed(Category.TIMEOUT, message, connection.status) from None
        finally:
            self._pool.release(connection)


async def _head_within(connection: Connection, limit_s: float) -> h11.Response:
    try:
        async with asyncio.timeout(limit_s) as first_byte:
            return await connection.head()
    except TimeoutError:
        if not first_byte.expired():
            raise
        raise failed(Category.TIMEOUT, f"no answer within {limit_s:g} s") from None


async def _drain(connection: Connection) -> None:
    try:
        async with asyncio.timeout(DRAIN_S):
            async for _ in connection.chunks():
                pass
    except (TimeoutError, RequestFailed):
        pass  # all that was wanted is here: the connection will be closed, not used again
