"""Network policies of a running container, proved from inside against a service of the host."""

import socket
import threading
from contextlib import contextmanager

import pytest

from proctor.environments.contract import EnvironmentSpec
from proctor.environments.docker import provider
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.kernel.errors import EnvironmentFault

PUBLIC = NetworkPolicy()
OFFLINE = NetworkPolicy(NetworkMode.NO_NETWORK)

INTERFACES = "ls /sys/class/net"
PROBE = """
import socket, sys
rows = [line.split() for line in open("/proc/net/route")][1:]
gateways = [row[2] for row in rows if row[1] == "00000000"]
if not gateways:
    sys.exit("no route")
gateway = ".".join(str(byte) for byte in reversed(bytes.fromhex(gateways[0])))
with socket.create_connection((gateway, int(sys.argv[1])), timeout=5) as stream:
    print(stream.recv(10).decode())
"""


@contextmanager
def service():
    """A service of the host that listens everywhere and says `hello`; yields its port."""
    with socket.create_server(("", 0)) as server:

        def serve():
            while True:
                try:
                    stream, _ = server.accept()
                except OSError:
                    return
                with stream:
                    stream.sendall(b"hello")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


@pytest.fixture
def without_root(monkeypatch):
    """A driver that may not enter network namespaces: the engine has to switch."""
    monkeypatch.setattr(provider, "switching_problem", lambda: "it takes root")


def test_policies_are_switched_on_the_running_container(place, without_root):
    async def reached(session, port):
        return await session.exec(["python3", "-c", PROBE, str(port)], timeout_s=30)

    async def case(session):
        with service() as port:
            assert (await reached(session, port)).stdout == "hello\n"
            await session.set_network(OFFLINE)
            assert (await session.exec(INTERFACES)).stdout.split() == ["lo"]
            assert not (await reached(session, port)).ok
            await session.kill_processes()
            assert (await session.exec(INTERFACES)).stdout.split() == ["lo"]
            await session.set_network(OFFLINE)
            await session.set_network(PUBLIC)
            assert (await reached(session, port)).stdout == "hello\n"
            await session.set_network(PUBLIC)

    place.run(case, EnvironmentSpec(network=NetworkPhases(PUBLIC, OFFLINE, PUBLIC)))


def test_a_baseline_without_network_is_in_force_before_anything_runs(place, without_root):
    async def case(session):
        before = (await session.exec(INTERFACES)).stdout.split()
        await session.set_network(PUBLIC)
        return before, (await session.exec(INTERFACES)).stdout.split()

    spec = EnvironmentSpec(network=NetworkPhases(OFFLINE, PUBLIC, OFFLINE))
    before, after = place.run(case, spec)
    assert before == ["lo"]
    assert len(after) == 2


def test_a_container_made_without_network_never_gets_one(place):
    async def case(session):
        await session.set_network(OFFLINE)
        with pytest.raises(EnvironmentFault) as raised:
            await session.set_network(PUBLIC)
        assert raised.value.fault_code == "unsupported"
        return (await session.exec(INTERFACES)).stdout.split()

    spec = EnvironmentSpec(network=NetworkPhases(OFFLINE, OFFLINE, OFFLINE))
    assert place.run(case, spec) == ["lo"]


def test_nobody_inside_can_change_the_network(place):
    async def case(session):
        bring_up = (
            "import fcntl, socket, struct; s = socket.socket();"
            "fcntl.ioctl(s, 0x8914, struct.pack('16sh', b'lo', 0))"
        )
        changed = await session.exec(["python3", "-c", bring_up])
        assert "PermissionError" in changed.stderr
        raw = "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"
        forged = await session.exec(["python3", "-c", raw])
        assert "PermissionError" in forged.stderr

    place.run(case)


def test_a_driver_without_rights_refuses_allow_lists(place, without_root):
    listed = NetworkPolicy(NetworkMode.ALLOWLIST, ("example.org",))
    spec = EnvironmentSpec(network=NetworkPhases(PUBLIC, listed, PUBLIC))
    (problem,) = place.environment().problems(spec)
    assert "it takes root" in problem


def test_an_allow_list_holds_after_all_processes_were_killed(place):
    listed = NetworkPolicy(NetworkMode.ALLOWLIST, ("198.51.100.0/24",))

    async def case(session):
        script = (
            "import socket; s = socket.socket(); s.settimeout(5)\n"
            "try: s.connect(('192.0.2.77', 80)); print('reached')\n"
            "except ConnectionRefusedError: print('refused')"
        )
        said = []
        for _ in range(2):
            said.append((await session.exec(["python3", "-c", script])).stdout)
            await session.kill_processes()
        resolver = await session.exec("cat /etc/resolv.conf; env | grep -c ^http_proxy=")
        return said, resolver.stdout

    said, resolver = place.run(
        case, EnvironmentSpec(network=NetworkPhases(listed, OFFLINE, listed))
    )
    assert said == ["refused\n", "refused\n"]
    assert resolver.startswith("nameserver 198.18.0.1\n")
    assert resolver.endswith("\n1\n")
