"""`run_info.json`: what was asked, with which versions, where, and how it ended."""

import os
import platform
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import proctor
from proctor.evals.components import Components, guard
from proctor.evals.digests import options_json
from proctor.evals.request import RunRequest
from proctor.evals.results.records import RUN_INFO_SCHEMA
from proctor.kernel import jsontext
from proctor.kernel.clock import iso
from proctor.kernel.errors import RunDirectoryError
from proctor.kernel.ids import run_id_problem
from proctor.kernel.states import Machine

RUN_STATES = Machine(
    "run",
    "running",
    {
        "running": {
            "finish": "completed",
            "fail": "failed",
            "interrupt": "interrupted",
            "deadline": "timed_out",
        },
        "completed": {"resume": "running"},
        "failed": {"resume": "running"},
        "interrupted": {"resume": "running"},
        "timed_out": {"resume": "running"},
    },
)
"""The states of a run as `run_info.json` shows them. A run whose owner is dead is shown so."""


def first_run_info(
    request: RunRequest, components: Components, run_id: str, started: datetime
) -> dict[str, Any]:
    """The document written when a run starts."""
    return {
        "schema_version": RUN_INFO_SCHEMA,
        "run_id": run_id,
        "status": RUN_STATES.initial,
        "started_at": iso(started),
        "finished_at": None,
        "error": None,
        "request": request.model_dump(mode="json", exclude_none=True),
        "components": {
            "benchmark": _facts(components.benchmark),
            "harness": _facts(components.harness) if components.harness else {"id": "none"},
            "environment": _facts(components.environment),
            "model": _model(components),
        },
        "working_directory": os.getcwd(),
        "versions": {"proctor": proctor.__version__, "python": platform.python_version()},
        "machine": {
            "platform": platform.platform(),
            "cpus": os.cpu_count(),
            "executable": sys.executable,
            "environment": jsontext.sanitized(
                guard("describing the environment", components.environment.facts)
            ),
        },
        "executions": [],
    }


def _model(components: Components) -> Any:
    model = components.model
    return None if model is None else jsontext.sanitized(guard("the model", model.settings))


def _facts(component: Any) -> dict[str, Any]:
    return {
        "id": component.id,
        "version": component.version,
        "class": f"{type(component).__module__}:{type(component).__qualname__}",
        "options": options_json(component.options),
    }


def ended(info: Mapping[str, Any], event: str, at: datetime, error: str | None) -> dict[str, Any]:
    """The document after `event` (finish, fail, interrupt, deadline)."""
    return {
        **info,
        "status": RUN_STATES.advance(info["status"], event),
        "finished_at": iso(at),
        "error": error,
    }


def check_resumable(info: Mapping[str, Any], path: str) -> None:
    """Refuse to go on from a document that somebody damaged. Raises RunDirectoryError."""
    run_id, reuse = info.get("run_id"), info.get("reuse")
    wrong = [
        name
        for name, right in (
            ("run_id", isinstance(run_id, str) and run_id_problem(run_id) is None),
            ("status", isinstance(info.get("status"), str) and info["status"] in RUN_STATES.table),
            ("executions", isinstance(info.get("executions", []), list)),
            ("reuse", reuse is None or _says_what_was_taken(reuse)),
            ("components", _names_components(info["components"])),
        )
        if not right
    ]
    if wrong:
        raise RunDirectoryError(
            f"{path} is damaged: {', '.join(wrong)}",
            hint="restore it from a copy, or start a new run with --reuse-from this one",
        )


def _says_what_was_taken(reuse: Any) -> bool:
    if not isinstance(reuse, dict) or not isinstance(reuse.get("source"), str):
        return False
    return all(isinstance(reuse.get(name), bool) for name in ("anyway", "rescore", "copied"))


def _names_components(components: Mapping[str, Any]) -> bool:
    """Whether the summary can name them."""
    parts = [components.get(name) for name in ("benchmark", "harness", "environment")]
    named = all(isinstance(part, dict) and _is_text(part.get("id")) for part in parts)
    model = components.get("model", False)
    return named and (model is None or (isinstance(model, dict) and _is_text(model.get("name"))))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value == value.encode("utf-8", "replace").decode("utf-8")


def resumed(info: Mapping[str, Any], at: datetime) -> dict[str, Any]:
    """The document when a run goes on: earlier executions are kept as history."""
    past = {k: info.get(k) for k in ("status", "started_at", "finished_at", "error")}
    status = info["status"]
    if status != RUN_STATES.initial:  # a killed run still says running
        status = RUN_STATES.advance(status, "resume")
    return {
        **info,
        "status": status,
        "started_at": iso(at),
        "finished_at": None,
        "error": None,
        "executions": [*info.get("executions", ()), past],
    }
