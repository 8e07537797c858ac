"""The relays of a sandbox's network: who is let through, and what is said to those who are not."""

import asyncio
import ipaddress
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from proctor.environments.network import NetworkMode, NetworkPolicy
from proctor.environments.proxy import names, tunnels
from proctor.environments.proxy.allowed import Allowed, is_local, parsed, unusable
from proctor.environments.proxy.http import Asked, HttpProxy, parse
from proctor.environments.proxy.names import NameRelay, failure, nameservers
from proctor.environments.proxy.tunnels import Tunnels

PUBLIC = Allowed(NetworkPolicy())
NOTHING = Allowed(NetworkPolicy(NetworkMode.NO_NETWORK))

pytestmark = pytest.mark.usefixtures("leak_free")


def listing(*hosts):
    return Allowed(NetworkPolicy(NetworkMode.ALLOWLIST, hosts))


def ip(text):
    return ipaddress.ip_address(text)


# --- names and addresses


def test_names_are_exact_and_wildcards_are_subdomains():
    allowed = listing("Example.org.", "*.lib.example", "bücher.example")
    for name in (
        "example.org",
        "EXAMPLE.ORG",
        "example.org.",
        "a.lib.example",
        "a.b.lib.example",
    ):
        assert allowed.name(name), name
    for name in (
        "a.example.org",
        "lib.example",
        "xlib.example",
        "example.org.evil.net",
        "",
        "org",
    ):
        assert not allowed.name(name), name
    assert allowed.name("xn--bcher-kva.example")
    assert PUBLIC.name("anything.at.all")
    assert not NOTHING.name("example.org")


@pytest.mark.parametrize(
    "entry",
    ["https://example.org", "example.org:443", "*", "*.", "a*.org", "*.*.org", "a b", "a/b", "",
     "-x.org", "999.1.2.3", "0x7f.1", "10.0.0.0/33", "a..b", "2130706433"],
)  # fmt: skip
def test_entries_that_mean_nothing_are_refused(entry):
    assert unusable([entry, "example.org", "10.0.0.0/8", "::1"]) == [entry]
    assert listing(entry).networks == ()


def test_networks_are_listed_with_or_without_their_host_bits():
    assert parsed("10.1.2.3/8") == ipaddress.ip_network("10.0.0.0/8")
    allowed = listing("10.0.0.0/8", "[2001:db8::1]")
    assert allowed.address(ip("10.255.0.1"))
    assert allowed.address(ip("::ffff:10.1.1.1"))
    assert allowed.address(ip("2001:db8::1"))
    assert not allowed.address(ip("2001:db8::2"))
    assert not allowed.address(ip("11.0.0.1"))


METADATA = ("169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fd00:ec2::254",
            "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1")  # fmt: skip


@pytest.mark.parametrize("address", METADATA)
def test_link_local_addresses_are_refused_in_every_mode(address):
    everything = listing("0.0.0.0/0", "::/0")
    for allowed in (PUBLIC, NOTHING, everything):
        assert not allowed.address(ip(address))
        assert not allowed.resolved(ip(address))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "0.0.0.0", "::1", "::", "224.0.0.1"])
def test_nobody_reaches_the_drivers_loopback_unless_it_is_listed(address):
    for allowed in (PUBLIC, NOTHING, listing("example.org", "localhost")):
        assert not allowed.address(ip(address))
        assert not allowed.resolved(ip(address))
    assert listing("127.0.0.1").address(ip("127.0.0.1"))
    assert not listing("127.0.0.1").address(ip("127.0.0.2"))


def test_a_listed_name_opens_no_door_to_this_machine():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("1.1.1.1", 9))
        except OSError:
            own = ip("127.0.0.1")
        else:
            own = ip(asking.getsockname()[0])
    assert is_local(own)
    assert not is_local(ip("198.51.100.77"))
    assert not listing("example.org").resolved(own)
    assert listing("example.org", str(own)).resolved(own)
    assert listing("example.org").resolved(ip("198.51.100.77"))


# --- the HTTP proxy


def test_requests_are_rewritten_for_one_answer_each():
    head = (
        "GET http://Example.org:81/a?b=c HTTP/1.1\r\nHost: example.org\r\n"
        "Proxy-Connection: keep-alive\r\nCONNECTION: keep-alive\r\n"
        "Proxy-Authorization: Basic x\r\nX: y"
    )
    first = b"GET /a?b=c HTTP/1.1\r\nHost: example.org\r\nX: y\r\nConnection: close\r\n\r\n"
    assert parse(head) == Asked("Example.org", 81, first)
    assert parse("GET http://h?x HTTP/1.0").first.startswith(b"GET /?x HTTP/1.1\r\n")
    assert parse("CONNECT [::1]:443 HTTP/1.1\r\nHost: x") == Asked("[::1]", 443, None)


@pytest.mark.parametrize(
    "line",
    ["", "GET / HTTP/1.1", "GET https://h/ HTTP/1.1", "CONNECT h HTTP/1.1", "CONNECT h:0 HTTP/1.1",
     "CONNECT h:65536 HTTP/1.1", "GET http://u@h/ HTTP/1.1", "CONNECT a b:1 HTTP/1.1",
     "GET http://h:99999/ HTTP/1.1", "\x16\x03\x01"],
)  # fmt: skip
def test_other_requests_are_not_served(line):
    assert parse(line) is None


async def served(allowed, request, *, then=None):
    """What a proxy under `allowed` says to `request`; `then(tunnels)` is called on the answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        open_tunnels = Tunnels(allowed)
        serving = asyncio.create_task(open_tunnels.serve(listener, HttpProxy(open_tunnels).handle))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        try:
            writer.write(request)
            if then is not None:
                await reader.readuntil(b"greeting")
                then(open_tunnels)
            try:
                return await asyncio.wait_for(reader.read(), 30)
            except ConnectionError:
                return b""
        finally:
            writer.close()
            serving.cancel()
            await asyncio.wait([serving])
            await open_tunnels.close()


async def with_service(case):
    """`case(port)` beside a service that greets at once and then waits for the end."""

    async def greet(reader, writer):
        writer.write(b"greeting")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        return await case(server.sockets[0].getsockname()[1])


def connect(host, port):
    return f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("allowed", "host", "code"),
    [
        (listing("localhost", "127.0.0.0/8", "::1"), "localhost", b"200"),
        (listing("127.0.0.1"), "127.0.0.1", b"200"),
        (listing("localhost"), "localhost", b"403"),
        (listing("localhost"), "127.0.0.1", b"403"),
        (listing("127.0.0.1"), "2130706433", b"403"),
        (listing("*.localhost"), "localhost", b"403"),
        (PUBLIC, "localhost", b"403"),
        (PUBLIC, "169.254.169.254", b"403"),
        (NOTHING, "localhost", b"403"),
        (PUBLIC, "no.such.name.invalid", b"502"),
    ],
)
def test_the_policy_decides_about_name_and_address(allowed, host, code):
    async def case(port):
        request = connect(host, port)
        end = None if code != b"200" else lambda open_tunnels: open_tunnels.switch(NOTHING)
        return await served(allowed, request, then=end)

    said = asyncio.run(with_service(case))
    assert said == b"" if code == b"200" else said.startswith(b"HTTP/1.1 " + code)


def test_a_tunnel_stays_open_while_its_host_stays_listed():
    async def case(port):
        def switch(open_tunnels):
            open_tunnels.switch(listing("127.0.0.1", "example.org"))
            assert len(open_tunnels._open) == 1
            (task,) = open_tunnels._open
            assert not task.cancelling()
            open_tunnels.switch(listing("example.org"))
            assert task.cancelling()

        return await served(listing("127.0.0.1"), connect("127.0.0.1", port), then=switch)

    assert asyncio.run(with_service(case)) == b""


def test_a_flood_of_connections_costs_a_bounded_number_of_descriptors(monkeypatch):
    monkeypatch.setattr(tunnels, "TUNNELS", 4)

    async def case():
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
            listener.setblocking(False)
            few = Tunnels(PUBLIC)
            serving = asyncio.create_task(few.serve(listener, HttpProxy(few).handle))
            flood = [socket.create_connection(listener.getsockname()) for _ in range(30)]
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(50):
                await asyncio.sleep(0)
            assert len(few._open) == 4
            assert len(os.listdir("/proc/self/fd")) <= before + 4
            for one in flood:
                one.close()
            serving.cancel()
            await asyncio.wait([serving])
            await few.close()

    asyncio.run(case())


# --- name queries

QUERY = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03org\x00\x00\x01\x00\x01"


@pytest.mark.parametrize("busy", [True, False], ids=["driver-busy", "names-busy"])
def test_names_and_the_drivers_own_threads_do_not_hold_each_other_up(busy, monkeypatch):
    """A flood of slow names leaves the files of other sandboxes alone, and the other way round."""
    go = threading.Event()
    real = socket.getaddrinfo

    def slow(host, *args, **named):
        if host == "slow.example":
            go.wait(60)
        return real("127.0.0.1", *args, **named)

    monkeypatch.setattr(socket, "getaddrinfo", slow)

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        allowed = listing("slow.example", "quick.example")
        if busy:
            held = [asyncio.ensure_future(asyncio.to_thread(go.wait, 60))]
        else:
            held = [
                asyncio.ensure_future(tunnels.resolved(allowed, "slow.example", 443))
                for _ in range(tunnels.RESOLVING)
            ]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(30):
                if busy:
                    with pytest.raises(tunnels.Refused):  # this machine's own: it was looked up
                        await tunnels.resolved(allowed, "quick.example", 443)
                else:
                    assert await asyncio.to_thread(int, "7") == 7
        finally:
            go.set()
            await asyncio.gather(*held, return_exceptions=True)

    asyncio.run(main())


def test_name_servers_are_those_of_this_machine(tmp_path):
    text = "# x\nsearch a\nnameserver 10.0.0.1\nnameserver fe80::1%eth0\nnameserver\nnameserver x\n"
    (tmp_path / "resolv.conf").write_text(text)
    found = nameservers(str(tmp_path / "resolv.conf"))
    assert [str(address) for address in found] == ["10.0.0.1", "fe80::1"]
    assert nameservers(str(tmp_path / "none")) == []


@pytest.mark.parametrize("allowed", [PUBLIC, NOTHING, listing("example.org")])
def test_queries_are_answered_only_while_all_is_public(allowed, monkeypatch, tmp_path):
    monkeypatch.setattr(names, "_CONFIGURATION", str(tmp_path / "no-name-servers"))

    async def case():
        loop = asyncio.get_running_loop()
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inside,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
        ):
            for one in (inside, client):
                one.setblocking(False)
                one.bind(("127.0.0.1", 0))
            serving = asyncio.create_task(NameRelay(Tunnels(allowed), inside).serve())
            client.connect(inside.getsockname())
            client.send(QUERY)
            try:
                async with asyncio.timeout(0.3 if allowed is not PUBLIC else 30):
                    return await loop.sock_recv(client, 512)
            except TimeoutError:
                return None
            finally:
                serving.cancel()
                await asyncio.wait([serving])

    answer = asyncio.run(case())
    assert answer == (failure(QUERY) if allowed is PUBLIC else None)


def test_a_failure_is_the_query_marked_as_an_answer():
    assert failure(b"short") is None
    answer = failure(QUERY)
    assert answer[:2] == QUERY[:2]
    assert answer[2] & 0x80
    assert answer[3] & 0x0F == 2
    assert answer[4:] == QUERY[4:]
