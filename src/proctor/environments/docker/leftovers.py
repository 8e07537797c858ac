"""Containers that drivers own, for `proctor env list|reap`."""

from dataclasses import replace

from proctor.environments.docker import owned
from proctor.environments.docker.endpoint import Endpoint
from proctor.environments.docker.engine import Engine, EngineError
from proctor.environments.reaping.leftovers import Leftover
from proctor.kernel.errors import EnvironmentFault


class Containers:
    """Those of one engine, with their volumes."""

    rank = 0

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def list_owned(self) -> list[Leftover]:
        return [_leftover(item) for item in await owned.list_owned(self._endpoint)]

    async def remove(self, item: Leftover) -> None:
        engine = Engine(self._endpoint)
        try:
            await owned.remove(engine, item.where)
        except EngineError as error:
            raise EnvironmentFault(f"the engine does not remove it: {error.message}") from error
        finally:
            engine.close()


def _leftover(item: owned.Owned) -> Leftover:
    """Engines can be shared: the owner may be a process of another machine."""
    labels = {
        name.removeprefix(owned.PREFIX): value
        for name, value in item.labels.items()
        if name.startswith(owned.PREFIX)
    }
    found = Leftover("container", item.name, item.owner, "docker", labels, item.id)
    return found if item.here else replace(found, owner=None)
