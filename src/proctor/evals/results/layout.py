"""Where everything lies in a run directory (spec: results, §1). Paths are plain strings."""

import os

from proctor.kernel.ids import task_dir_name

STATES = ("running", "normal", "error", "fatal")
RUNNING = "running"
ATTEMPT = "attempt-"


def attempt_dir_name(attempt: int) -> str:
    """`attempt-<n>`."""
    return f"{ATTEMPT}{attempt}"


class RunLayout:
    """The paths of one run directory."""

    __slots__ = ("_details", "root")

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.abspath(os.fspath(root))
        self._details = os.path.join(self.root, "details")

    @property
    def run_info(self) -> str:
        return os.path.join(self.root, "run_info.json")

    @property
    def plans(self) -> str:
        return os.path.join(self.root, "plans.jsonl")

    @property
    def summary(self) -> str:
        return os.path.join(self.root, "summary.json")

    @property
    def summary_text(self) -> str:
        return os.path.join(self.root, "summary.md")

    @property
    def logs(self) -> str:
        return os.path.join(self.root, "logs")

    @property
    def run_log(self) -> str:
        return os.path.join(self.logs, "run.jsonl")

    def state(self, state: str) -> str:
        return os.path.join(self._details, state)

    def task(self, state: str, task_id: str) -> str:
        return f"{self._details}{os.sep}{state}{os.sep}{task_dir_name(task_id)}"

    def dropped(self, task_id: str, attempt: int) -> str:
        """Where dropped tries and superseded records of an attempt go, as folders 1, 2, …"""
        name = attempt_dir_name(attempt)
        return os.path.join(self.root, "retry_details", task_dir_name(task_id), name)
