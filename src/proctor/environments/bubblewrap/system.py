"""What a sandbox sees of the host: its programs and a few public files of /etc, all read-only.

The rest of `/` is a private folder that the agent may change as it likes. Therefore no mount may
ever have a place that the agent can exchange for a link: mounts stand only directly below `/`
(nobody inside can rename or remove a place that something is mounted on) or below another mount
that is read-only. Files of /etc are links into the read-only `/.system`.
"""

import os
from collections.abc import Mapping, Sequence
from functools import cache

from proctor.environments.copying import Ids

SYSTEM = ".system"
_PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_OWN = ("etc", "tests", "logs", "solution")
"""Folders mounted onto themselves, so that nothing inside can exchange them."""

_ETC = (
    "alternatives", "ssl/certs", "ld.so.cache", "services", "protocols", "mime.types", "fonts",
    "perl", "terminfo", "java-17-openjdk", "java-21-openjdk",
)  # fmt: skip
_PASSWD = b"""root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUP = b"root:x:0:\ndaemon:x:1:\ntty:x:5:\nusers:x:100:\nnogroup:x:65534:\n"
_HOSTS = b"127.0.0.1 localhost proctor\n::1 localhost\n"
_NSSWITCH = b"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"

FOLDERS = (
    "app", "tests", "solution", "logs", "logs/agent", "logs/verifier", "logs/artifacts",
    "root", "tmp", "run", "var", "var/tmp", "etc", "etc/ssl",
)  # fmt: skip
"""What a new tree holds; the places of the mounts are made by bwrap with the first command."""
SHM = "shm"
"""A folder beside the tree: what the sandbox has as /dev/shm."""


@cache
def programs() -> tuple[str, ...]:
    """The host's folders of programs and libraries, as names below `/`."""
    return tuple(name for name in _PROGRAMS if os.path.isdir(f"/{name}"))


@cache
def public_etc() -> tuple[str, ...]:
    """Names below /etc that every user of the host may read and programs rely on."""
    return tuple(name for name in _ETC if os.access(f"/etc/{name}", os.R_OK))


def reserved(name: str) -> bool:
    """Whether the folder `name` below `/` belongs to the system, not to the session."""
    return name in programs() or name in ("proc", "dev", "sys", SYSTEM)


def protected(parts: Sequence[str]) -> bool:
    """Whether a path is a folder that always exists: it can be emptied but not removed."""
    return len(parts) == 1 and parts[0] in _OWN


def mounts(root: str, tree: str, exposed: Sequence[str]) -> list[str]:
    """bwrap's arguments that build the file system of a session."""
    words = ["--bind", tree, "/"]
    for name in programs():
        words += ["--ro-bind", f"/{name}", f"/{name}"]
    for name in _OWN:
        words += ["--bind", f"{tree}/{name}", f"/{name}"]
    # Shared memory lies on disk: the memory of a tmpfs would count against nobody.
    words += ["--proc", "/proc", "--dev", "/dev", "--bind", f"{root}/{SHM}", "/dev/shm"]  # noqa: S108
    words += ["--remount-ro", "/dev", "--tmpfs", f"/{SYSTEM}"]
    for name in public_etc():
        words += ["--ro-bind", f"/etc/{name}", f"/{SYSTEM}/etc/{name}"]
    for path in exposed:
        words += ["--ro-bind", path, f"/{SYSTEM}{path}"]
    return [*words, "--remount-ro", f"/{SYSTEM}"]


def furnish(tree: str, ids: Ids, names: Mapping[str, bytes], exposed: Sequence[str]) -> None:
    """Put the small files and links of a new tree in their places, before any agent is there.
    `names`: further files of /etc."""
    contents = {
        "passwd": _PASSWD, "group": _GROUP, "hosts": _HOSTS, "nsswitch.conf": _NSSWITCH,
        "hostname": b"proctor\n", **names,
    }  # fmt: skip
    for name, text in contents.items():
        with open(f"{tree}/etc/{name}", "xb", buffering=0) as stream:
            stream.write(text)
            if ids is not None:
                os.fchown(stream.fileno(), *ids)
    links = {f"etc/{name}": f"/{SYSTEM}/etc/{name}" for name in public_etc()}
    links |= {"etc/mtab": "/proc/self/mounts", "etc/os-release": "/usr/lib/os-release"}
    zone = os.path.realpath("/etc/localtime")
    if zone.startswith("/usr/"):
        links["etc/localtime"] = zone
    for path in exposed:
        os.makedirs(os.path.dirname(f"{tree}{path}"), exist_ok=True)
        links[path.lstrip("/")] = f"/{SYSTEM}{path}"
    for path, target in links.items():
        os.symlink(target, f"{tree}/{path}")


def host_names() -> dict[str, bytes]:
    """The host's files for resolving names, for sandboxes that share its network."""
    return {name: text for name in ("resolv.conf", "hosts") if (text := _host_file(name))}


def _host_file(name: str) -> bytes:
    """A small file of the host's /etc."""
    try:
        with open(f"/etc/{name}", "rb") as stream:
            return stream.read(1_000_000)
    except OSError:
        return b""
