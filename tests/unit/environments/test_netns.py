"""Network namespaces that only this process knows, their loopback and their firewall."""

import asyncio
import os
import socket
import subprocess
import threading

import pytest

from proctor.environments.netns import firewall, links, nftables, sandbox
from proctor.environments.netns.namespace import NetworkNamespace
from proctor.environments.netns.sandbox import SandboxNetwork
from proctor.environments.network import NetworkMode, NetworkPolicy
from proctor.environments.proxy.allowed import Allowed
from proctor.kernel.errors import EnvironmentFault

pytestmark = pytest.mark.usefixtures("leak_free")

PUBLIC = NetworkPolicy()
NOTHING = NetworkPolicy(NetworkMode.NO_NETWORK)


@pytest.fixture(autouse=True)
def _may_switch(need):
    need(not sandbox.problem(), f"network policies cannot be switched: {sandbox.problem()}")


@pytest.fixture
def namespace():
    made = NetworkNamespace()
    yield made
    made.close()


def nft(*words):
    """What the program of nftables says in this thread's namespace."""
    done = subprocess.run(["nft", *words], capture_output=True, text=True, check=True)
    return done.stdout


def here():
    return os.readlink("/proc/thread-self/ns/net")


def test_a_thread_is_inside_only_while_it_says_so(namespace):
    outside = here()
    with namespace.entered():
        inside = here()
        assert inside != outside
        seen = []
        other = threading.Thread(target=lambda: seen.append(os.readlink("/proc/self/ns/net")))
    assert here() == outside
    other.start()
    other.join()
    assert seen == [outside]
    with pytest.raises(KeyboardInterrupt), namespace.entered():
        raise KeyboardInterrupt
    assert here() == outside


def test_what_is_started_inside_is_in_it_and_nothing_else(namespace):
    with namespace.entered():
        inside = here()
        child = subprocess.Popen(["readlink", "/proc/self/ns/net"], stdout=-1, text=True)
    assert child.communicate(timeout=30)[0].strip() == inside != here()


def test_a_closed_namespace_is_not_entered(namespace):
    borrowed = namespace.borrowed()
    namespace.close()
    namespace.close()
    with pytest.raises(OSError, match="closed"), namespace.entered():
        pass
    outside = here()
    with borrowed.entered():
        assert here() != outside
    borrowed.close()
    with pytest.raises(OSError, match="closed"):
        namespace.borrowed()


def test_the_loopback_is_set_up_once(namespace):
    with namespace.entered():
        links.set_up(ipv6=True)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.connect(("192.0.2.1", 9))  # there is a route to everywhere
            assert asking.getsockname()[0] == links.OWN_ADDRESS
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as asking:
            asking.connect(("2001:db8::1", 9))
            assert asking.getsockname()[0] == links.OWN_ADDRESS_6
        with pytest.raises(OSError, match="refuses request"):
            links.set_up(ipv6=False)


def test_rules_replace_those_before_and_wrong_ones_are_told(namespace):
    listed = NetworkPolicy(NetworkMode.ALLOWLIST, ("10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32"))
    with namespace.entered():
        for policy in (PUBLIC, NOTHING, listed, NOTHING):
            nftables.apply_now(firewall.ruleset(Allowed(policy)))
        shown = nft("list", "ruleset")
        with pytest.raises(OSError, match=r"nftables: .*syntax error"):
            nftables.apply_now("table inet proctor { chain redirect {}}")
    assert shown.count("table inet proctor") == 1
    assert "redirect to" not in shown
    assert "table inet proctor\n" not in nft("list", "tables")


def test_changes_are_made_in_order_although_nobody_waits(namespace):
    async def body():
        change = nftables.changed
        first = asyncio.create_task(change(namespace, rules(NOTHING), first=True, ipv6=False))
        second = asyncio.create_task(change(namespace, rules(PUBLIC), first=False, ipv6=False))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert first.cancelled()
        await change(namespace, rules(NOTHING), first=False, ipv6=False)

    asyncio.run(body())
    with namespace.entered():
        shown = nft("list", "ruleset")
    assert "redirect to" not in shown
    assert "reject" in shown


def rules(policy):
    return firewall.ruleset(Allowed(policy))


def test_a_switch_that_fails_lets_nothing_through(monkeypatch):
    async def body():
        network = SandboxNetwork(PUBLIC)
        await network.open()
        try:
            monkeypatch.setattr(firewall, "ruleset", lambda allowed: "no rules")
            with pytest.raises(EnvironmentFault) as caught:
                await network.switch(PUBLIC)
            assert caught.value.fault_code == "cannot_start"
            assert network._tunnels.allowed.policy == NOTHING
        finally:
            await network.close()
            await network.close()

    asyncio.run(body())


def test_an_opening_that_fails_leaves_nothing(monkeypatch):
    monkeypatch.setattr(firewall, "ruleset", lambda allowed: "no rules")

    async def body():
        network = SandboxNetwork(PUBLIC)
        with pytest.raises(EnvironmentFault, match="network failed"):
            await network.open()
        await network.close()
        with pytest.raises(EnvironmentFault, match="closed"):
            network.entered()

    asyncio.run(body())


def test_without_privileges_or_the_library_the_reason_is_said(monkeypatch):
    def refused():
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(sandbox, "NetworkNamespace", refused)
    assert "takes root" in sandbox.problem.__wrapped__()
    monkeypatch.setattr(nftables, "LIBRARY", "libno-such-thing.so.1")
    monkeypatch.setattr(nftables, "_library", nftables._library.__wrapped__)
    assert "apt-get install nftables" in sandbox.problem.__wrapped__()
