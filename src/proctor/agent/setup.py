"""What a worker needs to drive agent runs, beside the journal's rows."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakValueDictionary

from proctor.agent.permissions import Permissions
from proctor.agent.policy import Policy
from proctor.agent.tools import Toolbox
from proctor.kernel.clock import Clock, SystemClock
from proctor.kernel.digest import of_json
from proctor.kernel.redact import Redactor, secret_values
from proctor.store.journal.contract import Journal


class Workspace(Protocol):
    """The files a run works on."""

    async def manifest(self) -> Mapping[str, str]:
        """Relative path → digest of every file."""
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds. `lease_ttl_s`: a worker that is silent for so long loses its runs.
    `grace_s`: for each step of stopping something. `query_*`: how an unknown outcome is asked
    for, the pause doubling. `cancel_s`: how long a cancelled run may clean up; its subtasks are
    waited for 2 `grace_s` and a `poll_s` longer. `late_s`: how long a worker stays for the end of
    an execution that could not be stopped, at most `grace_s` when the run has ended. `poll_s`: how
    often the inbox is looked into for messages of other processes. `retry_s`: before a run whose
    driver failed is tried again, four times as long each time, three times at most."""

    lease_ttl_s: float = 30.0
    grace_s: float = 2.0
    query_pause_s: float = 0.5
    query_deadline_s: float = 60.0
    cancel_s: float = 60.0
    late_s: float = 60.0
    poll_s: float = 0.5
    retry_s: float = 1.0


def _from_environment() -> Redactor:
    return Redactor(secret_values(os.environ))


@dataclass(frozen=True, slots=True)
class Setup:
    """`policy` is asked once for each run, with its task. `slots`: attempts of one run that may
    run at the same time, 8 by default. `runs_at_once`: runs that `serve` drives at the same time,
    256 by default, and besides them the subtasks of those that are being ended; runs that only wait
    for others are not driven. `redactor`
    takes secrets out of what errors and results say, by default those of the environment's
    variables."""

    journal: Journal
    policy: Callable[[Mapping[str, Any]], Policy]
    tools: Toolbox = field(default_factory=Toolbox)
    permissions: Permissions = Permissions()
    workspace: Workspace | None = None
    clock: Clock = SystemClock()
    timing: Timing = Timing()
    slots: int = 8
    runs_at_once: int = 256
    redactor: Redactor = field(default_factory=_from_environment)
    max_failed_turns: int = 3

    def config_digest(self, policy: Policy) -> str:
        """What identifies the program that drives a run."""
        return of_json([self.tools.digest(), policy.name, policy.version])


class _Lingering(set[Any]):
    """A set that goes when nobody holds it."""


_LINGERING = WeakValueDictionary[tuple[str, str], _Lingering]()


def lingering(journal: Journal, run_id: str) -> set[Any]:
    """The executions of a run that run on in this process though their driver has left: one set for
    all its drivers, whoever made them, kept while one of them or an execution holds it."""
    return _LINGERING.setdefault((journal.identity, run_id), _Lingering())


class Hub:
    """Who is told, in this process, that a run has mail."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self._everybody: list[Callable[[str, str | None], None]] = []

    def listen(self, run_id: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` at every notice for `run_id`; returns what ends that."""
        found = self._listeners.setdefault(run_id, [])
        found.append(callback)

        def end() -> None:
            found.remove(callback)
            if not found and self._listeners.get(run_id) is found:
                del self._listeners[run_id]

        return end

    def listen_to_all(self, callback: Callable[[str, str | None], None]) -> Callable[[], None]:
        """Call `callback(run_id, parent)` at every notice; returns what ends that."""
        self._everybody.append(callback)
        return lambda: self._everybody.remove(callback)

    def notify(self, run_id: str, parent: str | None = None) -> None:
        """Something happened that `run_id`, a subtask of `parent` if one is given, should look
        at."""
        for callback in list(self._listeners.get(run_id, ())):
            callback()
        for everybody in list(self._everybody):
            everybody(run_id, parent)
