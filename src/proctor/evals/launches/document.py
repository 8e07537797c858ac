"""The launch's own document: the resolved requests, where each runs, and how it ended.

It is written when the launch starts and when it ends. Where a request stands in between is in
its own run directory, whose place follows from its name and the launch's run id. Who is at work
is noted in `.owners/<run-id>/owner.json`, beside the lock that refuses a second process.
"""

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from proctor.evals.launches.spec import Launch
from proctor.evals.opening import claim_directory, refuse_redacted
from proctor.evals.options import validate
from proctor.evals.report import RunReport, joint_status
from proctor.evals.results.reserve import LAUNCHES
from proctor.kernel import jsontext
from proctor.kernel.clock import Clock, iso
from proctor.kernel.errors import RunDirectoryError, RunIsLive, StorageError, UsageError
from proctor.kernel.ids import readable, run_id_from_time
from proctor.kernel.redact import Redactor, secret_settings, secret_values
from proctor.store.exclusive import Claim
from proctor.store.files import Sync, read_json, write_pretty_json

SCHEMA = "proctor.launch.v1"
OWNERS = ".owners"


def launch_dir(results_dir: str, launch_name: str) -> str:
    """`<results>/launch/<launch-name>`."""
    root = os.path.abspath(os.path.expanduser(results_dir))
    return os.path.join(root, LAUNCHES, readable(launch_name))


def document_of(run_dir: str) -> str | None:
    """The document of the launch that a run directory belongs to, None when there is none."""
    folder, run_id = os.path.split(run_dir)
    path = os.path.join(os.path.dirname(folder), f"{run_id}.json")
    return path if run_dir and os.path.isfile(path) else None


class LaunchDocument:
    """`results/launch/<launch-name>/<run-id>.json`, held by one process at a time."""

    def __init__(
        self,
        path: str,
        launch: Launch,
        started: datetime,
        clock: Clock,
        working_directory: str | None = None,
    ) -> None:
        self.path = path
        self.launch = launch
        self._folder = os.path.dirname(path)
        self._run_id = os.path.basename(path).removesuffix(".json")
        self._owner = os.path.join(self._folder, OWNERS, self._run_id)
        self._started = started
        self._working_directory = working_directory or os.getcwd()
        self._clock = clock
        settings = launch.model_dump(mode="json", exclude_none=True)
        self._redactor = Redactor(secret_values(os.environ) + secret_settings(settings))
        self._settings = self._redactor.config(settings)
        self._claim: Claim | None = None

    @classmethod
    def reserve(cls, launch: Launch, clock: Clock) -> "LaunchDocument":
        """Take a run id that no launch of this name has used. Blocking. Raises UsageError."""
        folder = launch_dir(launch.runtime.results_dir, launch.name)
        try:
            os.makedirs(folder, exist_ok=True)
            return cls._reserved(folder, launch, clock)
        except StorageError as error:
            raise _unwritable(error.message, folder) from error
        except OSError as error:
            raise _unwritable(error.strerror or str(error), error.filename) from error

    @classmethod
    def _reserved(cls, folder: str, launch: Launch, clock: Clock) -> "LaunchDocument":
        now = clock.now()
        explicit = launch.runtime.run_id
        base, number = explicit or run_id_from_time(now), 1
        while True:
            run_id = base if number == 1 else f"{base}-{number}"
            document = cls(os.path.join(folder, f"{run_id}.json"), launch, now, clock)
            found = document._used() or document._taken()
            if found is None:
                return document
            if explicit is not None:
                raise RunDirectoryError(
                    f"launch {launch.name!r} has a run {explicit!r} already: {found}",
                    hint=f"`proctor resume {document.path}` continues it; another run_id starts "
                    "a new one",
                )
            number += 1

    def _taken(self) -> str | None:
        """Take this run id; where that is not possible any more, what is there now."""
        try:
            self.hold()
        except RunIsLive:
            return self.path
        if (found := self._used()) is None:
            try:
                self._write("running", {})
            except StorageError:
                self.release()
                shutil.rmtree(self._owner, ignore_errors=True)
                raise
        else:
            self.release()
        return found

    def _used(self) -> str | None:
        """What there is of this run id; a document that a kill left empty is nothing."""
        places = [self.path, *(self.run_dir(str(r.name)) for r in self.launch.requests)]
        return next((p for p in places if os.path.exists(p) and os.path.getsize(p)), None)

    @classmethod
    def read(cls, path: str, clock: Clock) -> "LaunchDocument":
        """A launch that is to be continued. Blocking. Raises RunDirectoryError."""
        place = os.path.abspath(path)
        data = read_document(place)
        refuse_redacted(data["launch"], "launch")
        launch = validate(Launch, data["launch"], "launch")
        return cls(place, launch, _moment(data, place), clock, data.get("working_directory"))

    def hold(self) -> None:
        """Be the only process at work on this launch. Blocking. Raises RunIsLive, StorageError."""
        try:
            os.makedirs(self._owner, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot write {self._owner}: {error.strerror}") from error
        self._claim = claim_directory(self._owner, self._clock.now())

    def run_dir(self, name: str) -> str:
        """Where the request of this name runs, whether it is there yet or not."""
        return os.path.join(self._folder, readable(name), self._run_id)

    def end(self, reports: Sequence[RunReport]) -> None:
        """Record how everything ended. Blocking."""
        ends = {report.name: report for report in reports}
        with contextlib.suppress(StorageError):  # then the missing owner is all that says so
            self._write(joint_status([r.status for r in reports]), ends)

    def release(self) -> None:
        """Give the launch up. Blocking, idempotent."""
        if self._claim is not None:
            self._claim.release(self._clock.now())
            self._claim = None

    def _write(self, status: str, ends: Mapping[str, RunReport]) -> None:
        value = {
            "schema_version": SCHEMA,
            "name": self.launch.name,
            "run_id": self._run_id,
            "status": status,
            "started_at": iso(self._started),
            "working_directory": self._working_directory,
            "launch": self._settings,
            "requests": {
                str(r.name): self._entry(str(r.name), ends.get(str(r.name)))
                for r in self.launch.requests
            },
        }
        write_pretty_json(self.path, value, "launch", Sync.RECORD)

    def _entry(self, name: str, report: RunReport | None) -> dict[str, Any]:
        """Places are relative to the document, so that a results tree can be copied whole."""
        if report is None:
            return {"run_dir": self._relative(self.run_dir(name)), "status": "planned"}
        place = self._relative(report.run_dir) if report.run_dir else None
        error = self._redactor.text(report.error) if report.error is not None else None
        return {"run_dir": place, "status": report.status, "error": error}

    def _relative(self, run_dir: str) -> str:
        return os.path.relpath(run_dir, self._folder)


def read_document(path: str) -> Mapping[str, Any]:
    """What a launch's document says. Blocking. Raises RunDirectoryError."""
    try:
        data = read_json(path)
    except FileNotFoundError:
        raise RunDirectoryError(f"no such launch: {path}") from None
    except (OSError, jsontext.JsonError) as error:
        if os.path.isfile(path) and os.path.getsize(path) == 0:
            raise RunDirectoryError(
                f"{path}: the launch was cut off before anything ran",
                hint="start it again from its launch file",
            ) from None
        raise RunDirectoryError(f"cannot read the launch: {error}") from None
    if not isinstance(data, dict) or data.get("schema_version") != SCHEMA:
        raise RunDirectoryError(
            f"{path}: not a {SCHEMA} document", hint="it may come from a newer proctor"
        )
    if not isinstance(data.get("launch"), dict):
        raise RunDirectoryError(
            f"{path} is damaged: launch", hint="start it again from its launch file"
        )
    return data


def _moment(data: Mapping[str, Any], place: str) -> datetime:
    try:
        return datetime.fromisoformat(data["started_at"])
    except (KeyError, TypeError, ValueError):
        raise RunDirectoryError(
            f"{place} is damaged: started_at", hint="restore it from a copy, or start a new launch"
        ) from None


def _unwritable(reason: str, place: str | None) -> UsageError:
    return UsageError(
        f"cannot write to the results directory: {reason}: {place}",
        hint="choose another results_dir",
    )
