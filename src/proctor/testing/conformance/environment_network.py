"""Network policies, proved by a probe that runs inside.

For providers that switch the policy of a live session. The probe knocks at services of the machine
that runs the tests; it needs python3 inside, and a network address besides the loopback outside.
"""

import asyncio
import ipaddress
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from proctor.environments.contract import EnvironmentSession, EnvironmentSpec
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.testing.conformance.environment_base import COMMAND_LIMIT_S, EnvironmentCases

PUBLIC = NetworkPolicy()
NOTHING = NetworkPolicy(NetworkMode.NO_NETWORK)
ELSEWHERE = NetworkPolicy(
    NetworkMode.ALLOWLIST, ("example.org", "*.example.org", "198.51.100.0/24", "2001:db8::/32")
)
METADATA = "169.254.169.254"
_GREETING = b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"

_PROBE = """
import http.client, json, os, socket, sys

def knock(host, port, kind=socket.SOCK_STREAM):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, kind) as s:
        s.settimeout(5)
        try:
            s.connect((host, port))
            s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            return "answer" if s.recv(100) else "nothing"
        except OSError as error:
            return type(error).__name__

def ask(host, port):
    proxy = os.environ.get("http_proxy", "").rpartition("//")[2]
    if not proxy:
        return "no proxy"
    try:
        c = http.client.HTTPConnection(proxy, timeout=5)
        c.set_tunnel(host, port)
        c.request("GET", "/")
        return c.getresponse().read().decode()
    except (OSError, http.client.HTTPException) as error:
        return f"refused: {error}"

def look(name):
    try:
        return bool(socket.getaddrinfo(name, 80))
    except OSError:
        return False

wanted = json.loads(sys.argv[1])
print(json.dumps({
    "tcp": {t: knock(*t.rsplit(" ", 1)[:1], int(t.rsplit(" ", 1)[1])) for t in wanted["tcp"]},
    "udp": {t: knock(*t.rsplit(" ", 1)[:1], int(t.rsplit(" ", 1)[1]), socket.SOCK_DGRAM)
            for t in wanted["udp"]},
    "proxy": {t: ask(*t.rsplit(" ", 1)[:1], int(t.rsplit(" ", 1)[1])) for t in wanted["proxy"]},
    "names": {n: look(n) for n in wanted["names"]},
}))
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a probe reached: answers to connections, to datagrams, through the proxy, to names."""

    tcp: dict[str, str]
    udp: dict[str, str]
    proxy: dict[str, str]
    names: dict[str, bool]

    @property
    def answers(self) -> list[str]:
        """Everything that answered, by whatever way."""
        direct = [t for t, said in (*self.tcp.items(), *self.udp.items()) if said == "answer"]
        asked = [t for t, said in self.proxy.items() if said == "hello"]
        return [*direct, *asked, *(name for name, known in self.names.items() if known)]


async def probe(
    session: EnvironmentSession,
    tcp: tuple[str, ...] = (),
    udp: tuple[str, ...] = (),
    proxy: tuple[str, ...] = (),
    names: tuple[str, ...] = (),
) -> Seen:
    """Knock from inside at targets written as `ADDRESS PORT`, and look names up."""
    wanted = json.dumps({"tcp": tcp, "udp": udp, "proxy": proxy, "names": names})
    result = await session.exec(["python3", "-c", _PROBE, wanted], timeout_s=COMMAND_LIMIT_S)
    assert result.exit_code == 0, result
    return Seen(**json.loads(result.stdout))


def host_address() -> str | None:
    """An IPv4 address of this machine besides the loopback; None where it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("1.1.1.1", 9))  # which sends nothing
        except OSError:
            return None
        address = str(asking.getsockname()[0])
    return None if ipaddress.ip_address(address).is_loopback else address


@asynccontextmanager
async def service(
    host: str = "0.0.0.0",  # noqa: S104 - as careless ones do
    port: int = 0,
) -> AsyncIterator[int]:
    """A service of this machine that greets whoever connects; yields its port (0: a free one)."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readline()
            writer.write(_GREETING)
            await writer.drain()
        except ConnectionError:  # the probe was cut off, which is the point
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(greet, host, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


class NetworkCases(EnvironmentCases):
    """What `set_network` promises."""

    def phased(self, *policies: NetworkPolicy) -> EnvironmentSpec:
        """`spec` with these policies of baseline, run and evaluation."""
        return replace(self.spec(), network=NetworkPhases(*policies))

    def host(self) -> str:
        """Where services of this machine are reached from inside under `public`."""
        address = host_address()
        assert address is not None, "this machine has no network address besides the loopback"
        return address

    def test_policies_hold_from_phase_to_phase(self) -> None:
        async def case() -> None:
            spec = self.phased(PUBLIC, NOTHING, ELSEWHERE)
            async with service() as port, self.opened(spec) as session:
                target = f"{self.host()} {port}"
                for policy, reached in (
                    (PUBLIC, [target]), (NOTHING, []), (PUBLIC, [target]), (ELSEWHERE, []),
                    (NOTHING, []), (ELSEWHERE, []), (PUBLIC, [target]),
                ):  # fmt: skip
                    await session.set_network(policy)
                    assert (await probe(session, (target,))).answers == reached, policy

        self.run_bare(case)

    def test_closed_means_closed(self) -> None:
        async def case() -> None:
            spec = self.phased(NOTHING, ELSEWHERE, PUBLIC)
            async with service() as port, self.opened(spec) as session:
                local = tuple(f"{a} {port}" for a in ("127.0.0.1", "0.0.0.0", "::1"))  # noqa: S104
                far = (f"{self.host()} {port}", f"{METADATA} 80", "1.1.1.1 443", "2606:4700::1 443")
                datagrams = ("1.1.1.1 53", f"{self.host()} 53", f"{METADATA} 53", "2606:4700::1 53")
                names = ("example.com", "localhost.example.com")
                for policy in (NOTHING, ELSEWHERE):
                    await session.set_network(policy)
                    seen = await probe(session, local + far, datagrams, far[:2], names)
                    assert seen.answers == [], policy

        self.run_bare(case)

    def test_public_reaches_neither_the_metadata_nor_anothers_loopback(self) -> None:
        async def case() -> None:
            spec = self.phased(PUBLIC, NOTHING, PUBLIC)
            async with service("127.0.0.1") as port, self.opened(spec) as session:
                targets = (f"127.0.0.1 {port}", f"::ffff:{METADATA} 80", f"{METADATA} 80")
                assert (await probe(session, targets)).answers == []

        self.run_bare(case)

    def test_an_allow_list_lets_through_what_it_lists(self) -> None:
        async def case() -> None:
            listed = NetworkPolicy(NetworkMode.ALLOWLIST, (self.host(),))
            async with service() as port, self.opened(self.phased(*[listed] * 3)) as session:
                target = f"{self.host()} {port}"
                assert (await probe(session, (target,))).answers == [target]
                others = ("1.1.1.1 443", f"{METADATA} 80")
                assert (await probe(session, others, proxy=others)).answers == []

        self.run_bare(case)

    def test_a_running_command_is_switched_too(self) -> None:
        async def case() -> None:
            spec = self.phased(PUBLIC, NOTHING, PUBLIC)
            async with service() as port, self.opened(spec) as session:
                script = _WATCHER.format(host=self.host(), port=port)
                watching = asyncio.create_task(
                    session.exec(["python3", "-c", script], timeout_s=COMMAND_LIMIT_S)
                )
                await _file(session, "open")
                await session.set_network(NOTHING)
                await session.write("switched", b"")
                result = await watching
                assert result.stdout == "cut off\nrefused\n", result

        self.run_bare(case)


_WATCHER = """
import os, socket, time
held = socket.create_connection(("{host}", {port}), 5)
open("open", "w").close()
held.settimeout(20)
try:
    print("cut off" if not held.recv(10) else "still there")
except ConnectionError:
    print("cut off")
while not os.path.exists("switched"):
    time.sleep(0.01)
try:
    socket.create_connection(("{host}", {port}), 5)
    print("reached")
except OSError:
    print("refused")
"""


async def _file(session: EnvironmentSession, name: str) -> None:
    found = await session.exec(f"until [ -e {name} ]; do :; done", timeout_s=COMMAND_LIMIT_S)
    assert found.exit_code == 0, found
