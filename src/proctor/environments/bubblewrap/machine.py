"""Whether and how bubblewrap works on this machine: found out once by running it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from proctor.environments.bubblewrap.system import FOLDERS, SHM, mounts
from proctor.environments.copying import Ids
from proctor.environments.removal import remove_entry

SANDBOX_ID = 61_037
"""The host user that sandboxes of a driver run by root belong to: in the range that systemd's
table of user ids leaves unused. Nothing on the host is owned by it."""

NAMESPACES = (
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
    "--uid", "0", "--gid", "0", "--hostname", "proctor", "--cap-drop", "ALL", "--die-with-parent",
)  # fmt: skip
CLEAN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
"""bwrap's own variables. Process 1 of the sandbox shows them to everyone inside."""

_PROBE_TIMEOUT_S = 20
_PER_NAMESPACE = (5, 14)  # the first Linux that counts a user's processes per user namespace


@dataclass(frozen=True, slots=True)
class Machine:
    """How to start a sandbox here. `ids`: the host user it belongs to, None: the driver's own."""

    command: tuple[str, ...]
    namespaces: tuple[str, ...]
    ids: Ids

    @property
    def runs_as_root(self) -> bool:
        """Whether root inside is root of the host, though without any capability."""
        return self.ids is None and os.geteuid() == 0

    @property
    def counts_processes(self) -> bool:
        """Whether a limit of processes binds, and counts those of one sandbox only."""
        release = os.uname().release.split("-")[0].split(".")
        return not self.runs_as_root and tuple(int(n) for n in release[:2]) >= _PER_NAMESPACE


def machine() -> Machine | str:
    """How to start a sandbox here, or why that cannot be done and what to do about it."""
    return _probed(shutil.which("bwrap"))


@cache
def _probed(program: str | None) -> Machine | str:
    if program is None:
        return (
            "bubblewrap is not installed: apt-get install bubblewrap (Debian, Ubuntu) or "
            "dnf install bubblewrap (Fedora)"
        )
    message = ""
    for candidate in _candidates(program):
        message = _failure(candidate)
        if not message:
            return candidate
    return (
        f"bubblewrap cannot make a sandbox here ({message}): user namespaces must be allowed "
        "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, "
        "kernel.apparmor_restrict_unprivileged_userns=0), and in a container /proc must not be "
        "masked"
    )


def _candidates(program: str) -> Iterator[Machine]:
    """The ways to start a sandbox, the safest first."""
    setpriv = shutil.which("setpriv")
    ways: list[tuple[tuple[str, ...], Ids]] = [((program,), None)]
    if os.geteuid() == 0 and setpriv is not None:
        user = str(SANDBOX_ID)
        become = (setpriv, "--reuid", user, "--regid", user, "--clear-groups", "--", program)
        ways.insert(0, (become, (SANDBOX_ID, SANDBOX_ID)))
    for command, ids in ways:
        yield Machine(command, (*NAMESPACES, "--disable-userns"), ids)  # bubblewrap 0.8 and later
        yield Machine(command, NAMESPACES, ids)


def _failure(candidate: Machine) -> str:
    """Why a sandbox made this way does not start; empty when it does."""
    root = tempfile.mkdtemp(prefix="proctor-probe-")
    try:
        tree = f"{root}/tree"
        for folder in ("", SHM, "tree", *(f"tree/{name}" for name in FOLDERS)):
            path = os.path.join(root, folder)
            os.makedirs(path, exist_ok=True)
            if candidate.ids is not None:
                os.chown(path, *candidate.ids)
        words = (*candidate.namespaces, *mounts(root, tree, ()), "--", "/bin/sh", "-c", "exit 0")
        done = subprocess.run(
            [*candidate.command, *words],
            env=CLEAN,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        place = os.open(os.path.dirname(root), os.O_RDONLY | os.O_DIRECTORY)
        try:
            remove_entry(place, os.path.basename(root))
        finally:
            os.close(place)
    if done.returncode == 0:
        return ""
    return done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
