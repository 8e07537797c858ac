"""`proctor validate`: check a file or folder without running anything."""

import os
from typing import Any

from proctor.cli.output import emit, say
from proctor.evals.launches.spec import LaunchSpec, resolve
from proctor.evals.options import validate as checked
from proctor.evals.preflight import preflight
from proctor.evals.request import RunRequest
from proctor.evals.request_file import read_yaml
from proctor.evals.selection import load_and_select
from proctor.kernel.errors import OptionError, ProctorError


def validate(path: str, as_json: bool) -> int:
    """Exit 0 when `path` is sound, 2 with the problems otherwise."""
    if os.path.isdir(path):
        kind, tasks, problems = "task folders", *_task_folders(path)
    elif path.endswith((".yaml", ".yml")):
        kind, tasks, problems = "request", *_request(path)
    elif not os.path.exists(path):
        raise OptionError(f"no such file or folder: {path}")
    else:
        raise OptionError(
            f"cannot tell what {path} is", hint="give a request (.yaml) or a folder of tasks"
        )
    if as_json:
        emit({"path": path, "kind": kind, "tasks": tasks, "valid": not problems,
              "problems": problems})  # fmt: skip
    else:
        for problem in problems:
            say(problem, error=True)
        verdict = "valid" if not problems else f"{len(problems)} problem(s)"
        say(f"{path}: {kind}, {tasks} tasks: {verdict}")
    return 2 if problems else 0


def _task_folders(path: str) -> tuple[int, list[str]]:
    request = checked(
        RunRequest, {"benchmark": {"id": "harbor", "data": path}, "harness": "nop"}, ""
    )
    from proctor.evals.components import build_components

    try:
        tasks = list(build_components(request).benchmark.load_tasks())
    except ProctorError as error:
        return 0, [error.message]
    return len(tasks), [f"{task.id}: {task.invalid}" for task in tasks if task.invalid is not None]


def _request(path: str) -> tuple[int, list[str]]:
    try:
        data = read_yaml(path)
        if "requests" in data:
            return _launch(data)
        request = checked(RunRequest, data, "")
        components = preflight(request).components
        return len(load_and_select(components, request.selection)), []
    except ProctorError as error:
        return 0, [error.message + (f"\n  hint: {error.hint}" if error.hint else "")]


def _launch(data: dict[str, Any]) -> tuple[int, list[str]]:
    """A launch file: every request is checked, and all problems are told."""
    tasks, problems = 0, []
    for request in resolve(checked(LaunchSpec, data, "")).requests:
        try:
            components = preflight(request).components
            tasks += len(load_and_select(components, request.selection))
        except ProctorError as error:
            problems.append(f"{request.name}: {error.message}")
    return tasks, problems
