"""The firewall inside a sandbox's network namespace, as one table that replaces itself at once.

There is no route out of the namespace. What a policy lets through is redirected to sockets of the
driver inside; the rest is refused, so that programs fail at once instead of waiting.
"""

from proctor.environments.proxy.allowed import LINK_LOCAL, Allowed, Network

PROXY_PORT = 47_128
RELAY_PORT = 47_129
NAMES_PORT = 47_130


def ruleset(allowed: Allowed) -> str:
    """The rules of a policy, as nftables reads them."""
    return "\n".join(
        [
            "table inet proctor",
            "delete table inet proctor",
            "table inet proctor {",
            " chain passing {",
            "  type nat hook output priority -100;",
            "  fib daddr type local return",
            *(f"  {_family(n)} daddr {n} return" for n in LINK_LOCAL),
            *_redirections(allowed),
            " }",
            " chain leaving {",
            "  type filter hook output priority 0;",
            "  fib daddr type local accept",
            "  meta l4proto tcp reject with tcp reset",
            "  reject",
            " }",
            "}",
            "",
        ]
    )


def _redirections(allowed: Allowed) -> list[str]:
    if allowed.everything:
        return [
            f"  meta l4proto tcp redirect to :{RELAY_PORT}",
            f"  udp dport 53 redirect to :{NAMES_PORT}",
        ]
    return [
        f"  {_family(network)} daddr {network} meta l4proto tcp redirect to :{RELAY_PORT}"
        for network in allowed.networks
    ]


def _family(network: Network) -> str:
    return "ip" if network.version == 4 else "ip6"
