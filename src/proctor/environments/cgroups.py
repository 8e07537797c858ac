"""Control groups of this machine: where they can be made, in hierarchies of either version.

A machine has one hierarchy of version 2, or one of version 1 for every controller, or both, each
controller in one of them. New groups are made below the group that the driver itself is in, so
that limits set on the driver hold for its sandboxes too.
"""

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

CONTROLLERS = ("memory", "pids", "cpu")
_MOUNTS = "/proc/self/mountinfo"
_OWN = "/proc/self/cgroup"


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A place for groups. `parent` is the folder that they are made in, `root` where the whole
    hierarchy is mounted."""

    version: int
    controllers: tuple[str, ...]
    parent: str
    root: str


@dataclass(frozen=True, slots=True)
class Found:
    """What can be used here. `reasons` says for each controller that cannot be why not."""

    hierarchies: tuple[Hierarchy, ...]
    reasons: dict[str, str]

    @property
    def controllers(self) -> tuple[str, ...]:
        """The controllers that limit something here."""
        return tuple(name for name in CONTROLLERS if name not in self.reasons)


@cache
def available() -> Found:
    """What can be used on this machine: found out once, by making a group in each hierarchy."""
    try:
        with open(_MOUNTS, encoding="utf-8") as mounts, open(_OWN, encoding="utf-8") as own:
            candidates = list(hierarchies(mounts.read(), own.read()))
    except OSError as error:
        return Found((), dict.fromkeys(CONTROLLERS, f"no control groups: {error.strerror}"))
    usable: list[Hierarchy] = []
    reasons = dict.fromkeys(CONTROLLERS, "no control group hierarchy is mounted for it")
    for candidate in candidates:
        problem = _problem(candidate)
        for name in candidate.controllers:
            if problem:
                reasons[name] = problem
            else:
                reasons.pop(name, None)
        if not problem:
            usable.append(candidate)
    return Found(tuple(usable), reasons)


def hierarchies(mounts: str, own: str) -> Iterator[Hierarchy]:
    """The hierarchies that the texts of /proc/self/mountinfo and /proc/self/cgroup tell of.

    Of version 2 the nearest group from the driver's upwards that hands controllers down is taken:
    a group with processes of its own cannot, unless it is the root.
    """
    paths = dict(_own_paths(own))
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        words = fields.split()
        kind, _, options = rest.partition(" ")
        root, mount = words[3], words[4]
        if kind == "cgroup":
            held = tuple(n for n in CONTROLLERS if n in options.split()[-1].split(","))
            inside = next((paths[name] for name in held if name in paths), None)
            if held and inside is not None and (place := _below(mount, root, inside)):
                yield Hierarchy(1, held, place, mount)
        elif kind == "cgroup2" and (place := _below(mount, root, paths.get("", "/"))):
            found = _handing_down(mount, place)
            if found is not None:
                yield found


def own_places(*, everywhere: bool = False) -> list[str]:
    """The folders of the groups that this process is in, of version 2 first, then of `pids` of
    version 1; with `everywhere`, where these hierarchies are mounted."""
    try:
        mounts, own = read(_MOUNTS), read(_OWN)
    except OSError:
        return []
    paths = dict(_own_paths(own))
    found: dict[int, str] = {}
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        words = fields.split()
        kind, _, options = rest.partition(" ")
        if kind == "cgroup2":
            version, group = 2, paths.get("")
        elif kind == "cgroup" and "pids" in options.split()[-1].split(","):
            version, group = 1, paths.get("pids")
        else:
            continue
        place = words[4] if everywhere else group and _below(words[4], words[3], group)
        if place:
            found.setdefault(version, place)
    return [found[version] for version in sorted(found, reverse=True)]


def _own_paths(own: str) -> Iterator[tuple[str, str]]:
    """(controller, group) of a process; the controller of version 2 is the empty text."""
    for line in own.splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for name in names.split(","):
            yield name, path


def _below(mount: str, root: str, group: str) -> str | None:
    """Where a group is seen below a mount that shows the hierarchy from `root` on."""
    inside = os.path.relpath(group, root)
    if inside == ".." or inside.startswith("../"):
        return None
    return os.path.normpath(os.path.join(mount, inside))


def _handing_down(mount: str, place: str) -> Hierarchy | None:
    while True:
        held = _words(f"{place}/cgroup.subtree_control")
        wanted = tuple(n for n in CONTROLLERS if n in held)
        if wanted:
            return Hierarchy(2, wanted, place, mount)
        if place == mount or len(place) <= len(mount):
            break
        place = os.path.dirname(place)
    offered = tuple(n for n in CONTROLLERS if n in _words(f"{mount}/cgroup.controllers"))
    return Hierarchy(2, offered, mount, mount) if offered else None


def _problem(place: Hierarchy) -> str:
    """Why no group can be made there; empty when one can."""
    try:
        if place.version == 2:
            missing = set(place.controllers) - set(_words(f"{place.parent}/cgroup.subtree_control"))
            for name in sorted(missing):
                write(f"{place.parent}/cgroup.subtree_control", f"+{name}")
        probe = f"{place.parent}/proctor-probe-{secrets.token_hex(6)}"
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError as error:
        return f"no control group can be made in {place.parent}: {error.strerror}"
    return ""


def _words(path: str) -> list[str]:
    try:
        return read(path).split()
    except OSError:
        return []


def read(path: str) -> str:
    """A control file's text."""
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def write(path: str, text: str) -> None:
    """Set a control file."""
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
