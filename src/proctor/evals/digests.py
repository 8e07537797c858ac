"""What identifies the inputs of an attempt, so that reuse never mixes configurations."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from proctor.evals.components import Components
from proctor.evals.contracts.task import Reference, TaskSpec
from proctor.kernel import jsontext
from proctor.kernel.digest import of_bytes, of_json

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
    grading_settings: Mapping[str, Any]
    sees_reference: bool = False
    """Whether the harness answers from the task's reference, which is then part of its input."""

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
        grading = {
            "benchmark": c.benchmark.id,
            "version": c.benchmark.version,
            "settings": c.benchmark.grading_settings(),
        }
        jsontext.canonical(grading)  # it is digested with each task's target: refuse it now
        sees_reference = c.harness is not None and c.harness.needs_reference
        return cls(of_json(harness), of_json(environment), of_json(model), grading, sees_reference)

    def of_task(self, task: TaskSpec) -> dict[str, str]:
        """All digests of one task, by field."""
        seen = task.input_digest or _input_digest(task)
        if self.sees_reference and task.reference is not None:
            seen = of_json({"input": seen, "reference": _reference(task.reference)})
        return {
            "input": seen,
            "grading": task.grading_digest or self._grading(task),
            "harness": self.harness,
            "environment": self.environment,
            "model": self.model,
        }

    def _grading(self, task: TaskSpec) -> str:
        own = task.evaluation_environment
        where = {} if own is None else {"environment": own.to_json()}
        return of_json({**self.grading_settings, "target": task.target, **where})


def _input_digest(task: TaskSpec) -> str:
    return of_json(
        {
            "input": task.input,
            "files": {name: _file_digest(path) for name, path in task.files.items()},
            "environment": task.environment.to_json(),
        }
    )


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
