"""Keeps sandboxes that share the host's network away from a cloud's metadata service.

One table in the host's firewall for each driver, with the first such sandbox. It concerns packets
of the sandboxes' own user id and nobody else. It goes when the driver ends; what a killed one left
is found by its name, and removed with its other leftovers.
"""

import atexit
import os
import re
from functools import cache
from itertools import pairwise

from proctor.environments.netns import nftables
from proctor.environments.owner import Owner
from proctor.environments.proxy.allowed import LINK_LOCAL
from proctor.environments.reaping.leftovers import Leftover
from proctor.kernel.errors import EnvironmentFault

KIND = "firewall table"
_NAME = re.compile(r"table inet (proctor_([0-9]+)_([0-9]+)_([0-9]+)_([0-9a-f]{32}))")
_BOOT_ID_GROUPS = (8, 12, 16, 20)


async def guard(user: int) -> None:
    """From now on processes of this user id on the host do not reach link-local addresses.

    Raises EnvironmentFault `cannot_start`.
    """
    owner = Owner.this_process()
    if (owner, user) in _guarded:
        return
    try:
        await nftables.changed(None, rules(table_name(owner), user))
    except OSError as error:
        message = f"the host's firewall cannot be set for sandboxes: {error}"
        raise EnvironmentFault(message, code="cannot_start") from error
    if not _guarded:
        atexit.register(_drop, owner)
    _guarded.add((owner, user))


_guarded: set[tuple[Owner, int]] = set()


def rules(table: str, user: int) -> str:
    """The table as nftables reads it."""
    families = (("ip" if network.version == 4 else "ip6", network) for network in LINK_LOCAL)
    refused = (f"  meta skuid {user} {family} daddr {net} reject" for family, net in families)
    chain = " chain leaving {\n  type filter hook output priority 0;\n" + "\n".join(refused)
    return (
        f"table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n{chain}\n }}\n}}\n"
    )


@cache
def table_name(owner: Owner) -> str:
    """The name of an owner's table: it says all about the owner."""
    boot = owner.boot_id.replace("-", "")
    return f"proctor_{owner.pid}_{owner.started_ticks}_{owner.namespace}_{boot}"


def _drop(owner: Owner) -> None:
    if owner.pid == os.getpid():  # not in a child that was forked
        try:
            nftables.apply_now(f"delete table inet {table_name(owner)}")
        except OSError:  # somebody has removed it, or may not any more: it is reaped later
            return


class Tables:
    """The tables of drivers in this network namespace, for `proctor env list|reap`."""

    rank = 1

    async def list_owned(self) -> list[Leftover]:
        if nftables.load_problem() or os.geteuid() != 0:
            return []
        try:
            text = await nftables.changed(None, "list tables inet")
        except OSError:  # no such firewall in this kernel: nothing can be left in it
            return []
        return [_leftover(match) for match in _NAME.finditer(text)]

    async def remove(self, item: Leftover) -> None:
        await nftables.changed(None, f"delete table inet {item.where}")


def _leftover(match: re.Match[str]) -> Leftover:
    boot = match[5]
    cuts = (0, *_BOOT_ID_GROUPS, len(boot))
    boot_id = "-".join(boot[start:end] for start, end in pairwise(cuts))
    owner = Owner(int(match[2]), int(match[3]), boot_id, match[4])
    return Leftover(KIND, match[1], owner, "bubblewrap", where=match[1])
