"""A task as a benchmark declares it, and as one attempt sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proctor.environments.contract import EnvironmentSpec
from proctor.kernel.jsontext import JsonValue


@dataclass(frozen=True, slots=True)
class Reference:
    """The known solution, given only to the `oracle` harness and to `scripted:reference`.

    Either an `answer`, or a `script` (a path inside `folder`) that produces the solution when
    it runs in the task's environment with `env`.
    """

    answer: JsonValue = None
    folder: Path | None = None
    script: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task, loaded once per request and never changed.

    `input` is what the agent is asked: text, or any JSON value. `target` is for grading only and
    is recorded as the ground truth. `files` maps workspace paths to host files placed before the
    agent starts. `environment` says what the task needs of the provider. `agent_timeout_s` and
    `evaluation_timeout_s` are the task's own limits (None: the request's), `evaluation_mode` its
    own mode (None: the benchmark's default; a request may ask for another unless `mode_is_fixed`),
    `evaluation_environment` what the fresh one that grades must offer (None: the same).
    `input_digest` and `grading_digest` identify, for reuse, everything that the agent sees and
    everything that grades it; when None the runtime makes them from `input`, `files`,
    `environment` and from `target` plus the benchmark's options. `invalid` is the reason why
    this task cannot run at all: it is recorded and counted as unavailable, the others run. `data`
    is the benchmark's own and is never stored.
    """

    id: str
    input: JsonValue
    target: JsonValue = None
    reference: Reference | None = None
    category: str | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    environment: EnvironmentSpec = EnvironmentSpec()
    agent_timeout_s: float | None = None
    evaluation_timeout_s: float | None = None
    evaluation_mode: str | None = None
    mode_is_fixed: bool = False
    evaluation_environment: EnvironmentSpec | None = None
    input_digest: str | None = None
    grading_digest: str | None = None
    invalid: str | None = None
    data: Any = None


@dataclass(frozen=True, slots=True)
class PreparedTask:
    """What one attempt works on. Stored in `run.json`, so `state` must be JSON.

    `input` may differ from the task's (a benchmark may adapt it to the environment). `state` is
    whatever `evaluate` needs besides the task itself. Of a task of several steps,
    `agent_timeout_s` and `own_reference` are those of the step, in place of the task's, and `step`
    is its name: what its agent leaves as artifacts is kept below `steps/NAME/`.
    """

    task: TaskSpec
    input: JsonValue
    state: Mapping[str, Any] = field(default_factory=dict)
    agent_timeout_s: float | None = None
    own_reference: Reference | None = None
    step: str | None = None

    @property
    def id(self) -> str:
        """The task's exact id."""
        return self.task.id

    @property
    def reference(self) -> Reference | None:
        """The known solution, if the task has one."""
        return self.own_reference or self.task.reference
