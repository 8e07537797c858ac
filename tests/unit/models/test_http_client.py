"""The HTTP client against real sockets."""

import asyncio
import contextlib
import queue
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from proctor.models.errors import RequestFailed
from proctor.models.http.client import Bounds, HttpClient, Request
from proctor.models.http.endpoint import Endpoint
from proctor.models.http.pool import MAX_CONNECTING
from proctor.models.http.server import HttpServer, Responder
from proctor.models.http.serving import MAX_BODY_BYTES, Incoming

TLS = Path(__file__).parent / "tls"
DEFAULT = Bounds()
Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 30))


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until `condition` holds."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never happened")


def request(endpoint: Endpoint, body: bytes = b"", target: str = "/") -> Request:
    return Request("POST", target, [(b"Host", endpoint.authority.encode())], lambda: body)


async def ask(client: HttpClient, endpoint: Endpoint, body: bytes = b"") -> tuple[int, bytes]:
    async with client.request(request(endpoint, body)) as response:
        return response.status, await response.read()


async def echo(incoming: Incoming, responder: Responder) -> None:
    responder.send(200, incoming.body, "text/plain", {"X-Method": incoming.method})


class Server:
    """An HttpServer and a client of it."""

    def __init__(
        self, handler: Callable[[Incoming, Responder], Awaitable[None]], bounds: Bounds = DEFAULT
    ) -> None:
        self.http = HttpServer(handler)
        self.bounds = bounds

    async def __aenter__(self) -> tuple[HttpClient, Endpoint, HttpServer]:
        await self.http.start()
        endpoint = Endpoint.parse(f"http://127.0.0.1:{self.http.port}")
        self.client = HttpClient(endpoint, self.bounds)
        return self.client, endpoint, self.http

    async def __aexit__(self, *exc: object) -> None:
        await self.client.close()
        await self.http.close()


class RawPeer:
    """A peer that does exactly what it is told, byte by byte."""

    def __init__(self, peer: Peer, bounds: Bounds = DEFAULT) -> None:
        self.peer, self.bounds = peer, bounds
        self.serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def listen(self, tls: ssl.SSLContext | None = None) -> int:
        self.server = await asyncio.start_server(self.accept, "127.0.0.1", 0, ssl=tls)
        port: int = self.server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> tuple[HttpClient, Endpoint]:
        endpoint = Endpoint.parse(f"http://127.0.0.1:{await self.listen()}")
        self.client = HttpClient(endpoint, self.bounds)
        return self.client, endpoint

    async def __aexit__(self, *exc: object) -> None:
        await self.client.close()
        self.server.close()
        for task, writer in self.serving.items():
            task.cancel()
            with contextlib.suppress(AttributeError):  # Python 3.11.2: one that has closed already
                writer.transport.abort()
        for ended in await asyncio.gather(*self.serving, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        await asyncio.sleep(0)  # lets the transports close

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving[asyncio.ensure_future(self.serve(reader, writer))] = writer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.peer(reader, writer)
        except (ConnectionError, EOFError):
            pass  # the client hung up
        finally:
            writer.close()


def answering(data: bytes, *, close: bool = True) -> Peer:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        if close:
            writer.close()
        else:
            await reader.read()
            writer.close()

    return peer


async def failure(client: HttpClient, endpoint: Endpoint) -> tuple[str, str]:
    with pytest.raises(RequestFailed) as caught:
        await ask(client, endpoint)
    return caught.value.failure.category.value, str(caught.value)


def test_one_connection_serves_many_requests_in_turn() -> None:
    async def main() -> None:
        async with Server(echo) as (client, endpoint, server):
            for number in range(20):
                body = b"x" * number * 10_000
                assert await ask(client, endpoint, body) == (200, body)
            assert (client.opened, server.opened) == (1, 1)

    run(main())


def test_concurrent_requests_use_connections_again() -> None:
    async def main() -> None:
        async with Server(echo) as (client, endpoint, server):
            for _ in range(5):
                await asyncio.gather(*(ask(client, endpoint, b"x") for _ in range(100)))
            assert server.opened <= 100
            assert server.open_connections == server.opened

    run(main())


def test_headers_come_with_lower_case_names_and_repeated_ones_joined() -> None:
    data = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 2\r\n\r\nok"

    async def main() -> None:
        async with (
            RawPeer(answering(data)) as (client, endpoint),
            client.request(request(endpoint)) as response,
        ):
            assert response.headers == {"x-a": "1, 2", "content-length": "2"}
            assert await response.read() == b"ok"

    run(main())


@pytest.mark.parametrize(
    ("data", "category", "reason"),
    [
        (b"", "connection", "closed before an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-", "connection", "closed before an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "truncated", "cut in the reply"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", "truncated", "cut"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "malformed", "HTTP/1.1"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "malformed", "does not speak HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, "malformed", "does not speak HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000, "too_large", "1,000"),
    ],
)
def test_broken_answers(data: bytes, category: str, reason: str) -> None:
    async def main() -> None:
        bounds = Bounds(response_bytes=1000)
        async with RawPeer(answering(data), bounds) as (client, endpoint):
            found, message = await failure(client, endpoint)
            assert (found, reason in message) == (category, True), message

    run(main())


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    async def main() -> None:
        async with RawPeer(answering(b"HTTP/1.0 200 OK\r\n\r\nall of it")) as (client, endpoint):
            assert await ask(client, endpoint) == (200, b"all of it")

    run(main())


def test_nobody_listens() -> None:
    async def main() -> None:
        async with Server(echo) as (_, endpoint, server):
            await server.close()
            client = HttpClient(endpoint, Bounds())
            category, message = await failure(client, endpoint)
            assert category == "connection"
            assert f"cannot connect to {endpoint.authority}" in message

    run(main())


def test_an_unknown_host() -> None:
    async def main() -> None:
        endpoint = Endpoint.parse("http://no-such-host.invalid")
        client = HttpClient(endpoint, Bounds())
        category, message = await failure(client, endpoint)
        assert category in ("connection", "timeout")  # a slow resolver takes its time to say no
        assert "cannot connect to no-such-host.invalid" in message

    run(main())


def test_a_name_is_looked_up_and_every_address_tried() -> None:
    try:
        socket.getaddrinfo("localhost", 80)
    except socket.gaierror:
        pytest.skip("this machine does not know the name localhost (no /etc/hosts)")

    async def main() -> None:
        async with Server(echo) as (_, endpoint, _server):
            named = Endpoint("http", "localhost", endpoint.port)  # ::1 first, where there is one
            client = HttpClient(named, Bounds())
            assert await ask(client, named, b"x") == (200, b"x")
            await client.close()

    run(main())


@pytest.mark.parametrize(
    ("bounds", "data", "reason"),
    [
        (Bounds(first_byte_s=0.05), b"", "no answer within 0.05 s"),
        (Bounds(total_s=0.05), b"", "no complete reply within 0.05 s"),
        (
            Bounds(total_s=0.05, first_byte_s=10),
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
            "no complete reply within 0.05 s",
        ),
    ],
)
def test_time_limits(bounds: Bounds, data: bytes, reason: str) -> None:
    async def main() -> None:
        async with RawPeer(answering(data, close=False), bounds) as (client, endpoint):
            assert await failure(client, endpoint) == ("timeout", reason)

    run(main())


def test_a_tls_handshake_that_never_ends_is_a_connect_timeout() -> None:
    async def main() -> None:
        async with RawPeer(answering(b"", close=False)) as (_, endpoint):
            secure = Endpoint("https", endpoint.host, endpoint.port)
            client = HttpClient(secure, Bounds(connect_s=0.1))
            category, message = await failure(client, secure)
            assert category in ("timeout", "connection")
            assert "cannot connect" in message

    run(main())


def test_a_timeout_of_the_caller_stays_the_callers() -> None:
    async def main() -> None:
        async with RawPeer(answering(b"", close=False)) as (client, endpoint):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await ask(client, endpoint)

    run(main())


def test_cancelling_closes_the_connection() -> None:
    gone = asyncio.Event()
    here = asyncio.Event()

    async def handler(incoming: Incoming, responder: Responder) -> None:
        here.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    async def main() -> None:
        async with Server(handler) as (client, endpoint, server):
            task = asyncio.ensure_future(ask(client, endpoint))
            await here.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await gone.wait()
            assert server.open_connections == 0

    run(main())


def test_an_endless_body_is_bounded_in_memory_too() -> None:
    written = 0

    async def handler(incoming: Incoming, responder: Responder) -> None:
        nonlocal written
        responder.start(200, "text/plain")
        while True:
            await responder.write(b"x" * 65536)
            written += 65536

    async def main() -> None:
        async with Server(handler, Bounds(response_bytes=1_000_000)) as (client, endpoint, _):
            assert (await failure(client, endpoint))[0] == "too_large"
            async with client.request(request(endpoint)) as response:
                before = written
                first = await anext(response.chunks())  # then read nothing more for a while
                for _ in range(200):
                    await asyncio.sleep(0)
                assert written - before < 8_000_000, "a reader that waits stops the sender"
                assert len(first) > 0

    run(main())


def test_starts_are_paced() -> None:
    accepted = 0

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted  # reads the TLS greeting and never answers it
        accepted += 1
        await reader.read(-1)
        writer.close()

    async def main() -> None:
        async with RawPeer(peer) as (_, endpoint):
            secure = Endpoint("https", endpoint.host, endpoint.port)
            client = HttpClient(secure, Bounds(connect_s=20))
            tasks = [asyncio.ensure_future(ask(client, secure)) for _ in range(200)]
            await until(lambda: accepted >= MAX_CONNECTING)
            for _ in range(200):
                await asyncio.sleep(0)
            assert accepted == MAX_CONNECTING
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await client.close()

    run(main())


def test_waiting_for_a_turn_can_be_cancelled_in_any_order() -> None:
    async def main() -> None:
        async with Server(echo) as (client, endpoint, _):
            tasks = [asyncio.ensure_future(ask(client, endpoint, b"x")) for _ in range(500)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert [d for d in done if d == (200, b"x")] == [(200, b"x")] * 250
            assert await ask(client, endpoint, b"y") == (200, b"y")

    run(main())


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> None:
        async with RawPeer(peer) as (client, endpoint):
            for number in range(1, 4):
                assert await ask(client, endpoint) == (200, b"")
                await until(lambda: client.pool().idle == 0)  # the end has been seen
                assert client.opened == number

    run(main())


@pytest.mark.parametrize("extra", [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", b"x"])
def test_bytes_after_the_answer_are_never_taken_for_the_next_one(extra: bytes) -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + extra)
        await reader.read()
        writer.close()

    async def main() -> None:
        async with RawPeer(peer) as (client, endpoint):
            for number in range(1, 4):
                assert await ask(client, endpoint) == (200, b"ok")
                assert client.opened == number

    run(main())


def test_answers_without_a_body_do_not_add_up() -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 204 No Content\r\nX-Long: " + b"x" * 30_000 + b"\r\n\r\n"
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 10 + head)

    async def main() -> None:
        async with RawPeer(peer) as (client, endpoint):
            for _ in range(20):  # 600 KB of heads on one connection
                assert await ask(client, endpoint) == (204, b"")
            assert client.opened == 1

    asyncio.run(asyncio.wait_for(main(), 30))


def test_an_unasked_answer_closes_the_connection() -> None:
    again = asyncio.Event()

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await again.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        await reader.read()
        writer.close()

    async def main() -> None:
        async with RawPeer(peer) as (client, endpoint):
            assert await ask(client, endpoint) == (200, b"ok")
            again.set()
            await until(lambda: client.pool().idle == 0)
            assert await ask(client, endpoint) == (200, b"ok")
            assert client.opened == 2

    run(main())


def tls_context() -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(TLS / "localhost.pem"))
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF  # as Python 3.11.2 sets it
    return context


class TlsPeer(RawPeer):
    """A TLS server with the test certificate."""

    async def __aenter__(self) -> tuple[HttpClient, Endpoint]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "localhost.pem", TLS / "localhost.key")
        endpoint = Endpoint.parse(f"https://127.0.0.1:{await self.listen(context)}")
        self.client = HttpClient(endpoint, self.bounds, tls_context())
        return self.client, endpoint


def test_tls_with_large_bodies_both_ways_and_keep_alive() -> None:
    seen: list[int] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            seen.append(len(body))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + body)
            await writer.drain()
            if len(seen) == 3:
                break
        writer.close()

    async def main() -> None:
        async with TlsPeer(peer) as (client, endpoint):
            for size in (0, 100, 3_000_000):
                body = b"z" * size
                assert await ask(client, endpoint, body) == (200, body)
            assert (seen, client.opened) == ([0, 100, 3_000_000], 1)

    run(main())


def test_tls_certificates_are_verified() -> None:
    async def main() -> None:
        async with TlsPeer(answering(b"HTTP/1.1 200 OK\r\n\r\n")) as (_, endpoint):
            untrusting = HttpClient(endpoint, Bounds())
            category, message = await failure(untrusting, endpoint)
            assert category == "connection"
            assert "certificate" in message.lower()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_tls_cut_without_a_goodbye_is_not_an_end() -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhalf")
        await writer.drain()
        writer.transport.abort()

    async def main() -> None:
        async with TlsPeer(peer) as (client, endpoint):
            category, _ = await failure(client, endpoint)
            assert category in ("truncated", "connection")

    run(main())


def test_plain_http_on_a_tls_endpoint_is_said() -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def main() -> None:
        async with RawPeer(peer) as (_, endpoint):
            secure = Endpoint("https", endpoint.host, endpoint.port)
            client = HttpClient(secure, Bounds())
            category, message = await failure(client, secure)
            assert (category, "cannot connect" in message) == ("connection", True), message

    run(main())


# The server's own refusals.


async def raw(server: HttpServer, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return answer


def test_the_server_refuses_what_is_not_http() -> None:
    async def main() -> None:
        async with Server(echo) as (_, _endpoint, server):
            assert (await raw(server, b"NONSENSE\r\n\r\n")).startswith(b"HTTP/1.1 400")
            head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (2**40)
            big = await raw_until_refused(server, head)
            assert big.startswith(b"HTTP/1.1 413")

    async def raw_until_refused(server: HttpServer, head: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head)
        sent = 0
        try:
            while sent <= MAX_BODY_BYTES:
                writer.write(b"x" * 1_000_000)
                sent += 1_000_000
                await writer.drain()
        except ConnectionError:
            pass
        answer = await reader.read(100)
        writer.close()
        return answer

    run(main())


def test_a_handler_that_raises_answers_500_and_the_server_goes_on() -> None:
    async def handler(incoming: Incoming, responder: Responder) -> None:
        if incoming.path == "/bad path":
            raise KeyError("oops")
        await echo(incoming, responder)

    async def main() -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, c: reported.append(c))
        async with Server(handler) as (client, endpoint, _):
            async with client.request(request(endpoint, target="/bad%20path?x=1")) as response:
                assert response.status == 500
                assert b"oops" not in await response.read()
            assert await ask(client, endpoint, b"x") == (200, b"x")
        assert [context["message"] for context in reported] == ["handler of /bad path"]

    run(main())


def test_closing_a_client_closes_its_connections() -> None:
    async def main() -> None:
        async with Server(echo) as (client, endpoint, server):
            await ask(client, endpoint)
            assert server.open_connections == 1
            await client.close()
            await client.close()
            await until(lambda: server.open_connections == 0)

    run(main())


def test_a_client_serves_several_event_loops_at_once_and_in_turn() -> None:
    ready: queue.Queue[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        stop = asyncio.Event()
        server = HttpServer(echo)
        await server.start()
        ready.put((server.port, asyncio.get_running_loop(), stop))
        await stop.wait()
        await server.close()

    serving = threading.Thread(target=lambda: asyncio.run(serve()))
    serving.start()
    port, loop, stop = ready.get(timeout=10)
    endpoint = Endpoint.parse(f"http://127.0.0.1:{port}")
    client = HttpClient(endpoint, Bounds())
    answers: list[tuple[int, bytes]] = []

    async def use() -> None:
        for _ in range(20):
            answers.append(await ask(client, endpoint, b"x"))
        client.pool().close()

    for _ in range(2):
        threads = [threading.Thread(target=lambda: asyncio.run(use())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=20)
    loop.call_soon_threadsafe(stop.set)
    serving.join(timeout=10)
    assert answers == [(200, b"x")] * 120
