"""The connections of one event loop to one endpoint. Every step costs the same for any number."""

import asyncio
import ssl
from collections import deque

from proctor.models.errors import Category, RequestFailed, failed
from proctor.models.http.connection import Connection, describe
from proctor.models.http.descriptors import make_room
from proctor.models.http.endpoint import Endpoint
from proctor.models.http.resolve import Resolver
from proctor.models.http.tls import TlsProtocol, default_context
from proctor.models.http.turns import Turns

MAX_CONNECTING = 64
"""Connections of one pool that may be in their handshake at once; the others wait in turn."""

CLOSED_TOGETHER = 64
"""Connections closed in one turn of the loop."""

KEEP_ALIVE_S = 20.0
"""An idle connection is not used again after this long."""


class Pool:
    """Hands out connections: an idle one, else a new one when its turn to connect has come."""

    def __init__(
        self, endpoint: Endpoint, connect_timeout_s: float, context: ssl.SSLContext | None = None
    ) -> None:
        self._endpoint = endpoint
        self._connect_timeout_s = connect_timeout_s
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._resolver = Resolver(endpoint.host, endpoint.port)
        self._turns = Turns(self._loop)
        self._idle: deque[Connection] = deque()
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._connecting = 0
        self._in_use = 0
        self._closed = False
        self.opened = 0
        """Connections made so far."""

    @property
    def idle(self) -> int:
        """Idle connections that could serve now."""
        return sum(1 for connection in self._idle if connection.usable)

    async def acquire(self) -> Connection:
        """A connection that can take a request. Raises RequestFailed."""
        connection = self._idle_connection() or await self._turn()
        if connection is None:
            try:
                connection = await self._connect()
            finally:
                self._connecting -= 1
                self._grant()
        self._in_use += 1
        return connection

    def release(self, connection: Connection) -> None:
        """Take back a connection; closed unless it can serve again."""
        self._in_use -= 1
        now = self._loop.time()
        if self._closed or not connection.next_request(now):
            connection.abort()
        else:
            self._offer(connection)
            self._drop_expired(now)

    def close(self) -> None:
        """Close the idle connections in this and the next turns of the loop (ten thousand at once
        would hold it up), the others when they are released."""
        self._closed = True
        for _ in range(min(len(self._idle), CLOSED_TOGETHER)):
            self._idle.popleft().close()
        if self._idle:
            self._loop.call_soon(self.close)

    async def closed(self) -> None:
        """Wait until no connection is idle any more, and the transports have closed."""
        while self._idle:  # noqa: ASYNC110 - `close` empties it, a few a turn
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _offer(self, connection: Connection) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        self._idle.append(connection)

    def _idle_connection(self) -> Connection | None:
        # The latest used is the likeliest to be still open.
        expired = self._loop.time() - KEEP_ALIVE_S
        while self._idle and self._idle[-1].idle_since > expired:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.close()
        self._drop_expired(self._loop.time())
        return None

    def _drop_expired(self, now: float) -> None:
        for _ in range(CLOSED_TOGETHER):
            if not self._idle or self._idle[0].idle_since > now - KEEP_ALIVE_S:
                return
            self._idle.popleft().close()

    async def _turn(self) -> Connection | None:
        """A connection that became free, or None: this caller may connect."""
        while self._connecting >= MAX_CONNECTING:
            waiter: asyncio.Future[Connection | None] = self._loop.create_future()
            self._waiting.append(waiter)
            try:
                connection = await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._pass_on(waiter.result())
                raise
            if connection is None or connection.usable:
                return connection
            connection.close()
        self._connecting += 1
        return None

    def _pass_on(self, granted: Connection | None) -> None:
        if granted is not None:
            self._offer(granted)
        else:
            self._connecting -= 1
            self._grant()

    def _grant(self) -> None:
        while self._waiting and self._connecting < MAX_CONNECTING:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._connecting += 1
                waiter.set_result(None)

    async def _connect(self) -> Connection:
        make_room(self._in_use + len(self._idle) + MAX_CONNECTING)
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                connection = await self._try_addresses()
        except TimeoutError:
            self._resolver.forget()
            problem = f"not within {self._connect_timeout_s:g} s"
            raise self._failed(Category.TIMEOUT, problem) from None
        self.opened += 1
        return connection

    async def _try_addresses(self) -> Connection:
        try:
            addresses = await self._resolver.addresses()
        except OSError as error:
            raise self._failed(Category.CONNECTION, describe(error)) from None
        problem = "no address"
        for address in addresses:
            try:
                async with asyncio.timeout(self._connect_timeout_s / len(addresses)):
                    connection = await self._open(address)
            except TimeoutError:
                problem = f"{address} does not answer"
            except OSError as error:
                problem = describe(error)
            else:
                self._resolver.worked(address)
                return connection
        self._resolver.forget()
        raise self._failed(Category.CONNECTION, problem)

    async def _open(self, address: str) -> Connection:
        connection = Connection(self._loop, self._turns)
        if not self._endpoint.secure:
            await self._loop.create_connection(lambda: connection, address, self._endpoint.port)
            return connection
        ready: asyncio.Future[None] = self._loop.create_future()
        context = self._context or default_context()
        tls = TlsProtocol(connection, context, self._endpoint.host, ready)
        await self._loop.create_connection(lambda: tls, address, self._endpoint.port)
        try:
            await ready
        except BaseException:
            tls.abort()
            raise
        return connection

    def _failed(self, category: Category, problem: str) -> RequestFailed:
        return failed(category, f"cannot connect to {self._endpoint.authority}: {problem}")
