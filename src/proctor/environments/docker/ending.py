"""Who ended a container: what ran in it, or somebody outside. The engine's own record tells.

An agent can be root inside: it may write over the memory of the first process, or let it run out of
memory. Then the record has the container's start and its end, and no request between them. An
engine that was started again, or that keeps no record, has no such start: then nobody is blamed.
"""

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from proctor.environments.docker.container import Container
from proctor.environments.docker.engine import EngineError, collected, within
from proctor.environments.patience import Patience
from proctor.kernel import jsontext
from proctor.kernel.errors import EnvironmentFault

_SETTLE_S = 10.0
_RECORD_S = 15.0
_ENDED = frozenset(["die", "died"])
_REQUESTS = frozenset(["kill", "stop", "restart", "destroy", "remove"])
"""Somebody asked the engine to end it."""


async def ended_inside(container: Container) -> bool:
    """Whether the container is there, has ended, and surely nobody outside ended it."""
    patience = Patience(_SETTLE_S, longest_s=0.5)
    try:
        while True:  # the end is recorded some time after the container is said to have stopped
            facts = await container.facts()
            actions = await _actions(container, facts)
            stopped = not facts["State"].get("Running")
            if stopped and (_ENDED.intersection(actions) or patience.over()):
                return by_itself(actions)
            if patience.over():
                return False
            await patience.pause()
    except (EngineError, EnvironmentFault, ValueError, KeyError):
        return False  # the engine cannot say: not the agent


def by_itself(actions: Iterable[str]) -> bool:
    """Whether these events, in their order, are those of a container that ended of itself."""
    since_start: list[str] | None = None
    for action in actions:
        if action == "start":
            since_start = []
        elif since_start is not None:
            since_start.append(action)
    if since_start and since_start[0] == "restart":  # docker tells of one after the start
        del since_start[0]
    if since_start is None or not _ENDED.intersection(since_start):
        return False
    return not _REQUESTS.intersection(since_start)


async def _actions(container: Container, facts: Any) -> list[str]:
    """What the engine has recorded since the last start. Raises EngineError, EnvironmentFault,
    KeyError and ValueError."""
    query = {
        "since": str(int(datetime.fromisoformat(facts["State"]["StartedAt"]).timestamp())),
        "until": str(int(time.time()) + 1),
        "filters": jsontext.dumps({"container": [container.name], "type": ["container"]}),
    }
    async with (
        within(_RECORD_S, "GET /events"),
        container.engine.answer("GET", "/events", query) as answer,
    ):
        lines = (await collected(answer)).split(b"\n")
    events = [jsontext.loads(line.decode("utf-8", "replace")) for line in lines if line.strip()]
    own = [e for e in events if isinstance(e, dict) and _id(e) == facts["Id"]]
    return [str(event.get("Action") or event.get("status")) for event in own]


def _id(event: Any) -> Any:
    return (event.get("Actor") or {}).get("ID") or event.get("id")
