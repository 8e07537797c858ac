"""A data set folder: its immediate sub-folders that hold a task.toml, sorted by name."""

import os
import unicodedata
from collections import defaultdict
from pathlib import Path

from proctor.benchmarks.harbor.folder import LoadSettings, load_folder
from proctor.evals.contracts.task import TaskSpec
from proctor.kernel.errors import DataError

_HINT = (
    "give a task folder (with task.toml, instruction.md, environment/, tests/test.sh), "
    "or a folder of task folders"
)


def load_dataset(path: Path, settings: LoadSettings | None = None) -> list[TaskSpec]:
    """The tasks of a data set folder, or the one task of a task folder.

    Unusable task folders are in the list, with their reasons in `invalid`. Raises DataError when
    `path` is no such folder, and for ids that two folders share.
    """
    path = Path(os.path.abspath(path))
    if not path.exists():
        raise DataError(f"no such folder: {path}", hint=_HINT)
    if not path.is_dir():
        raise DataError(f"{path} is a file, not a folder", hint=_HINT)
    is_task = os.path.lexists(path / "task.toml")
    folders = [path] if is_task else _task_folders(path)
    loaded = [(folder.name, _load(path, folder, settings)) for folder in folders]
    _refuse_duplicates(loaded)
    return _without_collisions(loaded)


def _task_folders(path: Path) -> list[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", hint=_HINT) from None
    folders = [path / name for name in names if os.path.lexists(path / name / "task.toml")]
    if not folders:
        raise DataError(f"{path} holds no task folder (none with a task.toml)", hint=_HINT)
    return folders


def _load(dataset: Path, folder: Path, settings: LoadSettings | None) -> TaskSpec:
    task = load_folder(folder, settings)
    if folder.is_symlink() and not folder.resolve().is_relative_to(dataset.resolve()):
        return _unusable(task, "the folder is a link that leaves the data set")
    return task


def _unusable(task: TaskSpec, reason: str) -> TaskSpec:
    reason = reason if task.invalid is None else f"{task.invalid}; {reason}"
    return TaskSpec(task.id, input="", category=task.category, invalid=reason)


def _refuse_duplicates(loaded: list[tuple[str, TaskSpec]]) -> None:
    folders: defaultdict[str, list[str]] = defaultdict(list)
    for name, task in loaded:
        folders[task.id].append(name)
    if problems := [
        f"{task_id!r} is the name of {len(names)} tasks: {', '.join(names)}"
        for task_id, names in sorted(folders.items())
        if len(names) > 1
    ]:
        raise DataError(
            f"{len(problems)} task name(s) are used more than once:",
            problems=problems,
            hint="give each task its own [task].name or folder",
        )


def _without_collisions(loaded: list[tuple[str, TaskSpec]]) -> list[TaskSpec]:
    """Tasks whose folders are one folder on a case-insensitive or normalising file system cannot
    be told apart there: none of them runs, so that a copy of the data set measures the same."""
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name, _ in loaded:
        alike[_folded(name)].append(name)
    tasks = []
    for name, task in loaded:
        others = [repr(other) for other in alike[_folded(name)] if other != name]
        if others:
            reason = (
                f"the folder names {name!r} and {', '.join(others)} differ only in case or "
                "Unicode form: rename one"
            )
            task = _unusable(task, reason)
        tasks.append(task)
    return tasks


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
