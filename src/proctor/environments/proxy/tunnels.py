"""Connections that the driver makes for a sandbox: bounded, and closed when its policy changes."""

import asyncio
import ipaddress
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from proctor.environments.proxy.allowed import Address, Allowed

TUNNELS = 64
"""Connections of one sandbox at a time; more wait. Each takes two descriptors of the driver."""

RESOLVING = 8
"""Names that are looked up at a time, for all sandboxes of the driver."""

_CHUNK = 131_072
_CONNECT_LIMIT_S = 30.0
_OUT_OF_DESCRIPTORS_WAIT_S = 0.2
_RESET = struct.pack("ii", 1, 0)

Check = Callable[[Allowed], bool]
"""Whether a tunnel may stay open under another policy."""


class Refused(Exception):
    """The policy does not let this destination through."""


class Unreachable(Exception):
    """The destination does not answer."""


class Tunnels:
    """The open connections of one sandbox, and the policy that they are under."""

    def __init__(self, allowed: Allowed) -> None:
        self.allowed = allowed
        self._room = asyncio.Semaphore(TUNNELS)
        self._open: dict[asyncio.Task[None], Check] = {}

    def switch(self, allowed: Allowed) -> None:
        """From now on `allowed` holds; what it does not let through is closed."""
        self.allowed = allowed
        for task, check in list(self._open.items()):
            if not check(allowed):
                task.cancel()

    async def serve(
        self, listener: socket.socket, handle: Callable[[socket.socket], Awaitable[None]]
    ) -> None:
        """Accept for ever, as far as there is room; `handle` owns each connection."""
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:  # out of descriptors, or the other end is gone again
                self._room.release()
                await asyncio.sleep(_OUT_OF_DESCRIPTORS_WAIT_S)
                continue
            except BaseException:
                self._room.release()
                raise
            task = loop.create_task(_handled(handle, connection))
            self._open[task] = _anything
            task.add_done_callback(self._done)

    def hold(self, check: Check) -> None:
        """The running connection may stay open while `check` says so."""
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = check

    async def close(self) -> None:
        """Close every connection."""
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._open.pop(task, None)
        self._room.release()
        if not task.cancelled():
            task.exception()  # looked at: a broken connection is the sandbox's own affair


async def connected(addresses: Iterable[Address], port: int) -> socket.socket:
    """A connection to the first of the addresses that answers. Raises Unreachable."""
    loop = asyncio.get_running_loop()
    reason = "no address"
    for address in addresses:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            async with asyncio.timeout(_CONNECT_LIMIT_S):
                await loop.sock_connect(made, (str(address), port))
            return made
        except (OSError, TimeoutError) as error:
            made.close()
            reason = str(error) or "no answer in time"
        except BaseException:
            made.close()
            raise
    raise Unreachable(reason)


async def resolved(allowed: Allowed, host: str, port: int) -> list[Address]:
    """The addresses that a host, as a client named it, may be reached at.

    Names are resolved here, outside the sandbox. Raises Refused and Unreachable.
    """
    try:
        literal = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        literal = None
    if literal is not None:
        if allowed.address(literal):
            return [literal]
        raise Refused(host)
    if not allowed.name(host):
        raise Refused(host)
    try:
        rows = await asyncio.get_running_loop().run_in_executor(
            _resolver(), lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"cannot resolve {host}") from error
    found = [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
    usable = [address for address in dict.fromkeys(found) if allowed.resolved(address)]
    if not usable:
        raise Refused(f"{host} stands for an address that is not allowed")
    return usable


@cache
def _resolver() -> ThreadPoolExecutor:
    """Threads for names alone: an agent that asks for many slow ones must not fill those that
    carry the files of other sandboxes."""
    return ThreadPoolExecutor(max_workers=RESOLVING, thread_name_prefix="proctor-names")


async def join(inside: socket.socket, outside: socket.socket) -> None:
    """Carry bytes both ways until both ends are done; closes `outside`."""
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_pump(inside, outside))
            both.create_task(_pump(outside, inside))
    finally:
        outside.close()


def reset(connection: socket.socket) -> None:
    """Close with a reset, as a host does that refuses."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    except OSError:
        pass
    connection.close()


async def _pump(source: socket.socket, sink: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, _CHUNK):
        await loop.sock_sendall(sink, data)
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:  # gone already
        pass


async def _handled(
    handle: Callable[[socket.socket], Awaitable[None]], connection: socket.socket
) -> None:
    connection.setblocking(False)
    try:
        await handle(connection)
    finally:
        connection.close()


def _anything(_: Allowed) -> bool:
    return True
