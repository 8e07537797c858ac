"""The launch's own document: the resolved requests, where each runs, and how it stands."""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from proctor.evals.launches.spec import Launch
from proctor.evals.options import validate
from proctor.evals.report import RunReport, joint_status
from proctor.kernel import jsontext
from proctor.kernel.clock import iso
from proctor.kernel.errors import RunDirectoryError, UsageError
from proctor.kernel.ids import readable, run_id_from_time
from proctor.kernel.redact import Redactor, secret_values
from proctor.store.files import Sync, read_json, write_pretty_json

SCHEMA = "proctor.launch.v1"


def launch_dir(results_dir: str, launch_name: str) -> str:
    """`<results>/launch/<launch-name>`."""
    root = os.path.abspath(os.path.expanduser(results_dir))
    return os.path.join(root, "launch", readable(launch_name))


class LaunchDocument:
    """`results/launch/<launch-name>/<run-id>.json`. Rewritten once a change of a request."""

    def __init__(self, path: str, launch: Launch, started: datetime) -> None:
        self.path = path
        self.run_id = os.path.basename(path).removesuffix(".json")
        self._redactor = Redactor(secret_values(os.environ))
        self._launch = launch
        self._started = started
        self._requests: dict[str, dict[str, Any]] = {
            str(r.name): {"run_dir": None, "status": "waiting", "error": None}
            for r in launch.requests
        }

    @classmethod
    def reserve(cls, launch: Launch, now: datetime) -> "LaunchDocument":
        """Take a run id that no launch of this name has. Raises UsageError."""
        folder = launch_dir(launch.runtime.results_dir, launch.name)
        explicit = launch.runtime.run_id
        base = explicit or run_id_from_time(now)
        number = 1
        try:
            os.makedirs(folder, exist_ok=True)
            while True:
                name = base if number == 1 else f"{base}-{number}"
                path = os.path.join(folder, f"{name}.json")
                try:
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
                except FileExistsError:
                    if explicit is not None:
                        raise RunDirectoryError(
                            f"launch {launch.name!r} has a run {explicit!r} already: {path}",
                            hint=f"`proctor resume {path}` continues it",
                        ) from None
                    number += 1
                else:
                    break
        except OSError as error:
            raise UsageError(
                f"cannot write to the results directory: {error.strerror}: {error.filename}",
                hint="choose another results_dir",
            ) from error
        document = cls(path, launch, now)
        document.write("running")
        return document

    def note(self, name: str, run_dir: str, status: str, error: str | None) -> None:
        """Record where a request stands, at once."""
        self._requests[name] = {"run_dir": self._relative(run_dir), "status": status,
                                "error": error}  # fmt: skip
        self.write("running")

    def end(self, reports: Sequence[RunReport]) -> None:
        """Record how everything ended."""
        for report in reports:
            self._requests[report.name] = {
                "run_dir": self._relative(report.run_dir),
                "status": report.status,
                "error": report.error,
            }
        self.write(joint_status([r.status for r in reports]))

    def write(self, status: str) -> None:
        """Write the document. Raises StorageError."""
        value = {
            "schema_version": SCHEMA,
            "name": self._launch.name,
            "run_id": self.run_id,
            "status": status,
            "started_at": iso(self._started),
            "launch": self._redactor.config(
                self._launch.model_dump(mode="json", exclude_none=True)
            ),
            "requests": self._requests,
        }
        write_pretty_json(self.path, value, "launch", Sync.RECORD)

    def _relative(self, run_dir: str) -> str | None:
        """Run directories are kept relative, so that a results tree can be copied whole."""
        return os.path.relpath(run_dir, os.path.dirname(self.path)) if run_dir else None


def read_launch(path: str) -> tuple[Launch, Mapping[str, str], datetime]:
    """A launch document: the launch, the run directory of each prepared request, its start."""
    try:
        data = read_json(path)
    except FileNotFoundError:
        raise RunDirectoryError(f"no such launch: {path}") from None
    except (OSError, jsontext.JsonError) as error:
        raise RunDirectoryError(f"cannot read the launch: {error}") from None
    if not isinstance(data, dict) or data.get("schema_version") != SCHEMA:
        raise RunDirectoryError(f"{path}: not a {SCHEMA} document")
    launch = validate(Launch, data["launch"], "launch")
    folder = os.path.dirname(os.path.abspath(path))
    dirs = {
        name: os.path.normpath(os.path.join(folder, entry["run_dir"]))
        for name, entry in data["requests"].items()
        if entry["run_dir"] is not None
    }
    return launch, dirs, datetime.fromisoformat(data["started_at"])
