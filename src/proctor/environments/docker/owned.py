"""Whose a container is: labels that it has from the moment it exists, and removal by them."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from proctor.environments.docker.endpoint import Endpoint
from proctor.environments.docker.engine import Engine, EngineError
from proctor.environments.owner import Owner
from proctor.environments.reaping.leftovers import Leftover
from proctor.kernel import digest, jsontext
from proctor.kernel.errors import EnvironmentFault

PREFIX = "proctor."
OWNER = "proctor.owner"
MACHINE = "proctor.machine"
_OWN = (OWNER, MACHINE, "proctor.provider")


class Containers:
    """The containers of proctor on one engine, for the reaper; running or not, and of other
    machines too, whose owners cannot be looked for here: those are never removed."""

    rank = 0

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def list_owned(self) -> list[Leftover]:
        """All of them. Raises EnvironmentFault `engine_unreachable`."""
        engine = Engine(self._endpoint)
        try:
            filters = jsontext.dumps({"label": [OWNER]})
            found = await engine.call("GET", "/containers/json", {"all": "1", "filters": filters})
        except EngineError as error:
            message = f"the engine at {self._endpoint} lists no containers: {error.message}"
            raise EnvironmentFault(message) from error
        finally:
            engine.close()
        return [_leftover(row) for row in found or ()]

    async def remove(self, item: Leftover) -> None:
        """Remove one with its processes and volumes; nothing happens when it is gone."""
        engine = Engine(self._endpoint)
        try:
            await remove(engine, item.where)
        except EngineError as error:
            raise EnvironmentFault(f"container {item.name} stays: {error.message}") from error
        finally:
            engine.close()


def labels_for(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of a new container: the runtime's own ones, and its owner."""
    return {
        **{f"{PREFIX}{name}": value for name, value in labels.items()},
        "proctor.provider": "docker",
        OWNER: jsontext.dumps(Owner.this_process().to_json()),
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


async def remove(engine: Engine, name: str) -> None:
    """Remove a container with its processes and volumes; nothing happens when it is not there."""
    try:
        await engine.done("DELETE", f"/containers/{name}", {"force": "1", "v": "1"})
    except EngineError as error:
        if error.status != 404 and "already in progress" not in error.message:
            raise


def _leftover(row: Mapping[str, Any]) -> Leftover:
    labels = row.get("Labels") or {}
    names = row.get("Names") or [row["Id"]]
    return Leftover(
        kind="container",
        name=str(names[0]).lstrip("/"),
        owner=_owner(labels),
        provider="docker",
        labels={
            name.removeprefix(PREFIX): value
            for name, value in labels.items()
            if name.startswith(PREFIX) and name not in _OWN
        },
        where=str(row["Id"]),
    )


def _owner(labels: Mapping[str, str]) -> Owner | None:
    """The owner, if it ran on this machine: a process of another cannot be looked for."""
    if labels.get(MACHINE) != machine_name():
        return None
    try:
        record = jsontext.loads(labels[OWNER])
    except (KeyError, ValueError):
        return None
    return Owner.from_json(record) if isinstance(record, dict) else None
