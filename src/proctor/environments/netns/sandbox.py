"""The network of one sandbox: a namespace, its firewall, and the relays that are its way out."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from ipaddress import ip_address
from pathlib import Path

from proctor.environments.netns import firewall, links, nftables
from proctor.environments.netns.door import Doors
from proctor.environments.netns.namespace import NetworkNamespace
from proctor.environments.network import NetworkMode, NetworkPolicy
from proctor.environments.proxy.allowed import Allowed
from proctor.environments.proxy.http import HttpProxy
from proctor.environments.proxy.names import NameRelay
from proctor.environments.proxy.relay import Relay
from proctor.environments.proxy.tunnels import Tunnels
from proctor.kernel.errors import EnvironmentFault

_BACKLOG = 64
_NOTHING = NetworkPolicy(NetworkMode.NO_NETWORK)
RESOLVER = f"nameserver {links.NAMESERVER}\noptions timeout:10\n".encode()
"""What /etc/resolv.conf holds inside."""
PROXY_URL = f"http://127.0.0.1:{firewall.PROXY_PORT}"


def proxy_variables() -> dict[str, str]:
    """What programs inside need in order to use the proxy."""
    own = "localhost,127.0.0.1,::1"
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    return {**dict.fromkeys(names, PROXY_URL), "no_proxy": own, "NO_PROXY": own}


@cache
def problem() -> str:
    """Why policies cannot be switched on this machine; empty when they can. Found out once, by
    making a namespace with a firewall."""
    if reason := nftables.load_problem():
        return reason
    try:
        namespace = NetworkNamespace()
    except OSError as error:
        return f"it takes root (CAP_SYS_ADMIN and CAP_NET_ADMIN): {error.strerror}"
    try:
        with namespace.entered():
            links.set_up(ipv6=_has_ipv6())
            nftables.apply_now(firewall.ruleset(Allowed(NetworkPolicy())))
    except OSError as error:
        return str(error)
    finally:
        namespace.close()
    return ""


class SandboxNetwork:
    """Open it before the first program starts in it; `switch` while they run; close it once.
    `make` gives the namespace, a new one unless somebody else made it (an engine, say).

    All methods belong to one event loop.
    """

    def __init__(
        self, policy: NetworkPolicy, make: Callable[[], NetworkNamespace] = NetworkNamespace
    ) -> None:
        self._policy = policy
        self._make = make
        self._namespace: NetworkNamespace | None = None
        self._sockets: list[socket.socket] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._tunnels: Tunnels | None = None
        self._changing = asyncio.Lock()
        self._doors = Doors()
        self._closed = False

    @property
    def policy(self) -> NetworkPolicy:
        """What is in force."""
        return self._policy

    async def open(self) -> None:
        """Make the namespace, unless it is there. Raises EnvironmentFault `cannot_start`."""
        if self._tunnels is not None:
            return
        async with self._changing:
            if self._tunnels is None and not self._closed:
                try:
                    await self._open()
                except BaseException as error:
                    await self._drop()
                    if isinstance(error, OSError):
                        raise _failed(str(error)) from error
                    raise

    async def switch(self, policy: NetworkPolicy) -> None:
        """Put a policy in force, for running programs too: connections that it does not let
        through are closed. Raises EnvironmentFault, and lets nothing through from then on."""
        async with self._changing:
            if self._tunnels is None:
                self._policy = policy
                return
            allowed = Allowed(policy)
            if not allowed.everything:  # the relays follow first where less is let through
                self._tunnels.switch(allowed)
            try:
                await self._apply(policy)
            except BaseException:
                self._tunnels.switch(Allowed(_NOTHING))
                raise
            self._tunnels.switch(allowed)
            self._policy = policy

    async def driver_address(self, port: int) -> str:
        """Where the driver's own port is reached inside. Raises EnvironmentFault."""
        await self.open()
        try:
            return await self._doors.address(self._where, port)
        except OSError as error:
            raise _failed(str(error)) from error

    async def end_driver_access(self) -> None:
        """Close the doors to the driver."""
        await self._doors.close()

    def entered(self) -> AbstractContextManager[None]:
        """What is started inside is in this network."""
        if self._namespace is None:
            raise _failed("it is closed")
        return self._namespace.entered()

    async def close(self) -> None:
        """Close every connection and let go of the namespace. Idempotent."""
        self._closed = True
        await self._doors.close(for_good=True)
        async with self._changing:
            await self._drop()

    # --- parts

    async def _where(self) -> AbstractContextManager[NetworkNamespace]:
        if self._namespace is None:
            raise _failed("it is closed")
        return nullcontext(self._namespace)

    async def _open(self) -> None:
        self._namespace = self._make()
        await self._apply(self._policy, first=True)
        with self._namespace.entered():
            proxy = self._listener(socket.AF_INET, "127.0.0.1", firewall.PROXY_PORT)
            relays = [self._listener(socket.AF_INET, "127.0.0.1", firewall.RELAY_PORT)]
            if _has_ipv6():
                relays.append(self._listener(socket.AF_INET6, "::1", firewall.RELAY_PORT))
            names = self._socket(socket.AF_INET, socket.SOCK_DGRAM)
            names.bind(("127.0.0.1", firewall.NAMES_PORT))
        tunnels = Tunnels(Allowed(self._policy))
        relay = Relay(tunnels, ip_address(links.NAMESERVER))
        start = asyncio.get_running_loop().create_task
        self._tasks = [
            start(tunnels.serve(proxy, HttpProxy(tunnels).handle)),
            *(start(tunnels.serve(listener, relay.handle)) for listener in relays),
            start(NameRelay(tunnels, names).serve()),
        ]
        self._tunnels = tunnels

    def _socket(self, family: int, kind: int) -> socket.socket:
        made = socket.socket(family, kind)
        self._sockets.append(made)
        made.setblocking(False)
        return made

    def _listener(self, family: int, host: str, port: int) -> socket.socket:
        made = self._socket(family, socket.SOCK_STREAM)
        made.bind((host, port))
        made.listen(_BACKLOG)
        return made

    async def _apply(self, policy: NetworkPolicy, *, first: bool = False) -> None:
        assert self._namespace is not None
        rules = firewall.ruleset(Allowed(policy))
        try:
            await nftables.changed(self._namespace, rules, first=first, ipv6=_has_ipv6())
        except OSError as error:
            raise _failed(str(error)) from error

    async def _drop(self) -> None:
        await self._doors.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._tunnels is not None:
            await self._tunnels.close()
        for made in self._sockets:
            made.close()
        if self._namespace is not None:
            self._namespace.close()
        self._tasks, self._sockets = [], []
        self._tunnels = self._namespace = None


@cache
def _has_ipv6() -> bool:
    """Whether this machine has a way out by IPv6."""
    try:
        rows = [
            line.split() for line in Path("/proc/net/ipv6_route").read_text("utf-8").split("\n")
        ]
    except OSError:
        return False
    return any(len(row) == 10 and row[:2] == ["0" * 32, "00"] and row[9] != "lo" for row in rows)


def _failed(reason: str) -> EnvironmentFault:
    return EnvironmentFault(f"the sandbox's network failed: {reason}", code="cannot_start")
