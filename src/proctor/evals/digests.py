"""What identifies the inputs of an attempt, so that reuse never mixes configurations."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from proctor.environments.contract import EnvironmentSpec
from proctor.evals.components import Components
from proctor.evals.contracts.task import Reference, TaskSpec
from proctor.kernel import jsontext
from proctor.kernel.digest import of_bytes, of_json

MOST_ENVIRONMENTS = 256
"""How many texts are remembered: tasks share a few, or each has its own."""

FIELDS = ("input", "grading", "harness", "environment", "model")


def options_json(options: Any) -> Any:
    """A component's options as JSON."""
    if options is None:
        return None
    if isinstance(options, BaseModel):
        return options.model_dump(mode="json")
    return jsontext.sanitized(options)


@dataclass(frozen=True, slots=True)
class RequestDigests:
    """The digests that all tasks of a request share."""

    harness: str
    environment: str
    model: str
    grading: tuple[str, str, str]
    """What grades every task, as canonical texts: the benchmark's id, settings and version."""
    sees_reference: bool = False
    """Whether the harness answers from the task's reference, which is then part of its input."""
    environments: dict[int, tuple[EnvironmentSpec, str]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """What tasks need of the provider, by identity, with its canonical text: tasks share it."""

    @classmethod
    def of(cls, c: Components) -> "RequestDigests":
        """Digests of a request's components with their options and versions. Raises JsonError
        for settings that are not JSON."""
        harness: dict[str, Any] = {"id": c.harness_id}
        if c.harness is not None:
            harness |= {
                "version": c.harness.version,
                "options": options_json(c.harness.options),
                "settings": c.harness.settings(),
            }
        environment = {
            "id": c.environment.id,
            "version": c.environment.version,
            "options": options_json(c.environment.options),
        }
        model = c.model.settings() if c.model is not None else None
        sees_reference = c.harness is not None and c.harness.needs_reference
        return cls(
            of_json(harness), of_json(environment), of_json(model), _grading(c), sees_reference
        )

    def of_task(self, task: TaskSpec) -> dict[str, str]:
        """All digests of one task, by field."""
        seen = task.input_digest or self._input_digest(task)
        if self.sees_reference and task.reference is not None:
            seen = of_json({"input": seen, "reference": _reference(task.reference)})
        return {
            "input": seen,
            "grading": task.grading_digest or self._grading_digest(task),
            "harness": self.harness,
            "environment": self.environment,
            "model": self.model,
        }

    def _input_digest(self, task: TaskSpec) -> str:
        """The digest of {environment, files, input}, put together from canonical texts."""
        environment = self._environment_text(task.environment)
        files = "{}"
        if task.files:
            found = {name: _file_digest(path) for name, path in task.files.items()}
            files = jsontext.canonical(found)
        asked = jsontext.canonical(task.input)
        return _of_text(f'{{"environment":{environment},"files":{files},"input":{asked}}}')

    def _grading_digest(self, task: TaskSpec) -> str:
        """The digest of {benchmark, settings, target, version} and, where the task is graded in an
        environment of its own, {environment}, put together likewise."""
        benchmark, settings, version = self.grading
        own = task.evaluation_environment
        where = "" if own is None else f',"environment":{self._environment_text(own)}'
        target = jsontext.canonical(task.target)
        return _of_text(
            f'{{"benchmark":{benchmark}{where},"settings":{settings},"target":{target},"version":{version}}}'
        )

    def _environment_text(self, environment: EnvironmentSpec) -> str:
        known = self.environments.get(id(environment))
        if known is None:
            if len(self.environments) >= MOST_ENVIRONMENTS:
                self.environments.clear()
            known = environment, jsontext.canonical(environment.to_json())
            self.environments[id(environment)] = known
        return known[1]


def _of_text(text: str) -> str:
    return of_bytes(text.encode("utf-8"))


def _grading(c: Components) -> tuple[str, str, str]:
    """The canonical texts of what grades: the benchmark's id, its settings and its version."""
    benchmark, settings = jsontext.canonical(c.benchmark.id), c.benchmark.grading_settings()
    return benchmark, jsontext.canonical(settings), jsontext.canonical(c.benchmark.version)


def _reference(reference: Reference) -> dict[str, Any]:
    folder = _file_digest(reference.folder) if reference.folder is not None else None
    return {
        "answer": reference.answer,
        "folder": folder,
        "script": reference.script,
        "env": dict(reference.env),
    }


def _file_digest(path: Path) -> str:
    """The digest of a file, or of a tree with its names, links and contents."""
    try:
        if path.is_symlink():
            return f"link to {os.readlink(path)}"
        if path.is_dir():
            entries = sorted(path.iterdir(), key=lambda entry: entry.name)
            return of_json({entry.name: _file_digest(entry) for entry in entries})
        return of_bytes(path.read_bytes()) if path.is_file() else "not a file"
    except OSError as error:
        return f"unreadable: {error.strerror}"
