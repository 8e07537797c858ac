"""A small HTTP/1.1 server on asyncio and h11, able to hold ten thousand waiting requests."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import h11

from proctor.models.http.descriptors import make_room
from proctor.models.http.serving import ConnectionClosed, Incoming, ServerConnection

BACKLOG = 4096


class Responder:
    """Answers one request: `send` a whole response, or `start`, `write` …, `end` a stream."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def send(
        self, status: int, body: bytes, content_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """One response with its length."""
        sized = {"Content-Length": str(len(body)), **(headers or {})}
        head = _head(status, content_type, sized)
        self._connection.send(head, h11.Data(data=body), h11.EndOfMessage())

    def start(
        self, status: int, content_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Status and headers; without a Content-Length the body is sent in chunks."""
        self._connection.send(_head(status, content_type, headers or {}))

    async def write(self, data: bytes) -> None:
        """A piece of the body; waits while the client does not read. Raises ConnectionClosed."""
        self._connection.send(h11.Data(data=data))
        await self._connection.drain()

    def end(self) -> None:
        """The response is complete."""
        self._connection.send(h11.EndOfMessage())

    def cut(self) -> None:
        """Close the connection where it is, in the middle of the response."""
        self._connection.close()

    def reset(self) -> None:
        """Reset the connection."""
        self._connection.reset()


def _head(status: int, content_type: str, headers: Mapping[str, str]) -> h11.Response:
    fields = [("Content-Type", content_type), *headers.items()]
    return h11.Response(status_code=status, headers=fields)


Handler = Callable[[Incoming, Responder], Awaitable[None]]


class HttpServer:
    """Listens on one address and gives each request to `handler`, in a task of its own.

    A handler whose client is gone is cancelled. One that raises answers 500.
    """

    def __init__(self, handler: Handler, host: str = "127.0.0.1", port: int = 0) -> None:
        self._handler = handler
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: set[ServerConnection] = set()
        self.opened = 0
        """Connections accepted so far."""

    @property
    def open_connections(self) -> int:
        """Connections open now."""
        return len(self._connections)

    @property
    def port(self) -> int:
        """The port listened on. Only after `start`."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Begin to listen. Raises OSError when the address is taken or not this machine's."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ServerConnection(self), self._host, self._port, backlog=BACKLOG
        )

    async def close(self) -> None:
        """Stop listening, cancel handlers, drop connections. Idempotent."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)  # lets the transports close

    # What connections call.

    def opened_by(self, connection: ServerConnection) -> None:
        self.opened += 1
        self._connections.add(connection)
        make_room(len(self._connections) + 64)

    def closed_by(self, connection: ServerConnection) -> None:
        self._connections.discard(connection)

    def handle(self, incoming: Incoming, connection: ServerConnection) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(self._run(incoming, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, incoming: Incoming, connection: ServerConnection) -> None:
        try:
            await self._handler(incoming, Responder(connection))
        except ConnectionClosed:
            return
        except Exception as error:  # noqa: BLE001 - a handler's bug ends its request only
            connection.refuse(500, f"{type(error).__name__} in the handler")
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"handler of {incoming.path}", "exception": error}
            )
        connection.answered()
