"""Whose a container is: labels that it has from the moment it exists, and removal by them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from proctor.environments.docker.endpoint import Endpoint
from proctor.environments.docker.engine import Engine, EngineError
from proctor.environments.owner import Owner
from proctor.kernel import digest, jsontext
from proctor.kernel.errors import EnvironmentFault

PREFIX = "proctor."
OWNER = "proctor.owner"
MACHINE = "proctor.machine"
_SPARED = ("proctor.kept", "proctor.resumable")


@dataclass(frozen=True, slots=True)
class Owned:
    """A container of proctor. `owner` is None where its label cannot be read; `machine` names the
    machine of the owner, which need not be this one: engines can be shared."""

    id: str
    name: str
    state: str
    labels: Mapping[str, str]
    owner: Owner | None
    machine: str

    @property
    def spared(self) -> bool:
        """Whether somebody asked to keep it."""
        return any(self.labels.get(name) for name in _SPARED)

    @property
    def here(self) -> bool:
        """Whether its owner ran on this machine, so that its process can be looked for."""
        return self.machine == machine_name()


def labels_for(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of a new container: the runtime's own ones, and its owner."""
    owner = Owner.this_process()
    return {
        **{f"{PREFIX}{name}": value for name, value in labels.items()},
        "proctor.provider": "docker",
        OWNER: f"{owner.pid} {owner.started_ticks} {owner.boot_id} {owner.namespace}".rstrip(),
        MACHINE: machine_name(),
    }


@cache
def machine_name() -> str:
    """A name of this machine that other machines do not have, and that says nothing else."""
    try:
        text = Path("/etc/machine-id").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    return digest.of_bytes((text or Owner.this_process().boot_id).encode())[-16:]


async def list_owned(endpoint: Endpoint) -> list[Owned]:
    """Every container of proctor on an engine, running or not, of this machine and others.

    Raises EnvironmentFault `engine_unreachable`.
    """
    engine = Engine(endpoint)
    try:
        filters = jsontext.dumps({"label": [OWNER]})
        found = await engine.call("GET", "/containers/json", {"all": "1", "filters": filters})
    except EngineError as error:
        raise EnvironmentFault(f"the engine lists no containers: {error.message}") from error
    finally:
        engine.close()
    return [_owned(row) for row in found or ()]


async def reap(
    endpoint: Endpoint,
    is_alive: Callable[[Owner], bool],
    *,
    kept: bool = False,
    dry_run: bool = False,
) -> list[Owned]:
    """Remove the containers whose owner is dead, with their volumes; returns what was (or would
    be) removed.

    Only owners of this machine are asked about. Containers labelled `kept` or `resumable` stay
    unless `kept` is True. A container that cannot be removed raises EnvironmentFault at the end,
    after all others.
    """
    dead = [
        item
        for item in await list_owned(endpoint)
        if item.here and item.owner is not None and (kept or not item.spared)
        and not is_alive(item.owner)
    ]  # fmt: skip
    if dry_run or not dead:
        return dead
    engine = Engine(endpoint)
    problems = []
    try:
        for item in dead:
            try:
                await remove(engine, item.id)
            except EngineError as error:
                problems.append(f"{item.name}: {error.message}")
    finally:
        engine.close()
    if problems:
        raise EnvironmentFault("containers that cannot be removed: " + "; ".join(problems))
    return dead


async def remove(engine: Engine, name: str) -> None:
    """Remove a container with its processes and volumes; nothing happens when it is not there."""
    try:
        await engine.done("DELETE", f"/containers/{name}", {"force": "1", "v": "1"})
    except EngineError as error:
        if error.status != 404 and "already in progress" not in error.message:
            raise


def _owned(row: Mapping[str, Any]) -> Owned:
    labels = row.get("Labels") or {}
    names = row.get("Names") or [row["Id"]]
    return Owned(
        id=row["Id"],
        name=str(names[0]).lstrip("/"),
        state=str(row.get("State", "")),
        labels=labels,
        owner=_owner(labels.get(OWNER, "")),
        machine=labels.get(MACHINE, ""),
    )


def _owner(text: str) -> Owner | None:
    words = text.split()
    if not 2 <= len(words) <= 4 or not all(word.isdecimal() for word in words[:2]):
        return None
    return Owner(int(words[0]), int(words[1]), *words[2:], *[""] * (len(words) == 2))
