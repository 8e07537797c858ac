"""`proctor validate`: check a file or folder without running anything."""

import os
from collections.abc import Mapping
from typing import Any

from proctor.cli.dotenv import load_dotenv
from proctor.cli.output import REFUSED, emit, keep_secrets, refusal, say
from proctor.cli.settings import build_settings, request_of
from proctor.cli.text import counted
from proctor.evals import preflight
from proctor.evals.components import build_components
from proctor.evals.launches.spec import LaunchSpec, resolve
from proctor.evals.options import validate as checked
from proctor.evals.request import RunRequest
from proctor.evals.request_file import read_yaml
from proctor.kernel.errors import OptionError, ProctorError

REQUEST_SUFFIXES = (".yaml", ".yml")


def validate(path: str, as_json: bool) -> int:
    """Exit 0 when `path` is sound, 2 with the problems otherwise."""
    if os.path.isdir(path):
        kind, tasks, problems = "task folders", *_task_folders(path)
    elif not os.path.exists(path):
        raise OptionError(f"no such file or folder: {path}")
    elif path.endswith(REQUEST_SUFFIXES):
        kind, tasks, problems = _file(path)
    else:
        raise OptionError(
            f"cannot tell what {path} is",
            hint="give a request or launch (a file that ends in .yaml) or a folder of tasks",
        )
    if as_json:
        emit(_document(path, kind, tasks, problems))
    for problem in problems:
        say(problem, error=True)
    if not problems:
        say(f"{path}: {kind}, {counted(tasks, 'task')}: valid", error=as_json)
        return 0
    say(f"{path}: {kind}: not valid, {counted(len(problems), 'problem')}", error=True)
    return REFUSED


def _document(path: str, kind: str, tasks: int, problems: list[str]) -> dict[str, Any]:
    document = {"path": path, "kind": kind, "tasks": tasks, "valid": not problems,
                "problems": problems}  # fmt: skip
    if not problems:
        return document
    return {**refusal("not_valid", f"{path} is not valid", problems[0]), **document}


def _task_folders(path: str) -> tuple[int, list[str]]:
    request = checked(
        RunRequest, {"benchmark": {"id": "harbor", "data": path}, "harness": "nop"}, ""
    )
    try:
        tasks = list(build_components(request).benchmark.load_tasks())
    except ProctorError as error:
        return 0, _lines(error)
    return len(tasks), [f"{task.id}: {task.invalid}" for task in tasks if task.invalid is not None]


def _file(path: str) -> tuple[str, int, list[str]]:
    """A request or a launch: what it is, its tasks, its problems."""
    load_dotenv()
    keep_secrets()
    try:
        data = read_yaml(path)
        if "requests" in data:
            keep_secrets(data)
            return "launch", *_launch(data)
        return "request", _request(path), []
    except ProctorError as error:
        return "request", 0, _lines(error)


def _request(path: str) -> int:
    """As `proctor run PATH` would see it here, with the other layers of settings."""
    settings = build_settings(path, {}, ())
    keep_secrets(settings.values)
    request = request_of(settings)
    try:
        return len(preflight.check(request))
    except OptionError as error:
        raise settings.in_words_of_the_person(error) from error


def _launch(data: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Every request is checked, and all problems are told."""
    tasks, problems = 0, []
    for request in resolve(checked(LaunchSpec, data, "")).requests:
        try:
            tasks += len(preflight.check(request))
        except ProctorError as error:
            problems += [f"{request.name}: {line}" for line in _lines(error)]
    return tasks, problems


def _lines(error: ProctorError) -> list[str]:
    *others, last = error.message.split("\n")
    return [*others, last + (f" ({error.hint})" if error.hint else "")]
