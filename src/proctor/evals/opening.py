"""A run's directory: reserved for a new run, or claimed to go on in place."""

import contextlib
import os
import shutil
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from typing import Any

from proctor.evals.ending import Ending
from proctor.evals.options import validate
from proctor.evals.preflight import Preflight
from proctor.evals.request import RunRequest
from proctor.evals.results.layout import RunLayout
from proctor.evals.results.reserve import reserve
from proctor.evals.results.run_info import check_resumable, ended, first_run_info, resumed
from proctor.evals.results.stored import load_run_info
from proctor.evals.results.writer import RunWriter
from proctor.kernel.clock import Clock
from proctor.kernel.errors import RunDirectoryError, RunIsLive, StorageError, UsageError
from proctor.kernel.redact import REDACTED, Redactor, secret_settings, secret_values
from proctor.store.exclusive import Claim, Owner


class Opened:
    """A claimed run directory. `info` is what `run_info.json` says once it is written.

    `stopping` tells blocking work on the directory, which may run in a thread, to end soon.
    """

    def __init__(
        self, pre: Preflight, root: str, claim: Claim, info: dict[str, Any], clock: Clock,
        *, existing: bool,
    ) -> None:  # fmt: skip
        self.pre = pre
        self.claim = claim
        self.info = info
        self.clock = clock
        self.existing = existing
        self.writer = _writer(pre, root, clock)
        self.stopping = threading.Event()
        self._written = False

    def write_info(self) -> None:
        """Write `run_info.json`: from now on the directory says what happens in it. Blocking.
        Raises StorageError."""
        self._written = True
        self.writer.write_document(self.writer.layout.run_info, self.info, "run_info")

    def end(self, ending: Ending) -> None:
        """The request was not prepared: say so on disk, unless the directory was there before and
        is still as it was found."""
        try:
            if self._written:
                self.info = ended(self.info, ending.event, self.clock.now(), ending.error)
                self.write_info()
        finally:
            self.close()

    def discard(self) -> None:
        """Remove a directory that was reserved for a request which is refused."""
        self.writer.close()
        self.claim.abandon()
        _remove(self.pre, self.writer.layout.root)

    def close(self) -> None:
        """Give the directory up. Idempotent."""
        self.writer.close()
        self.claim.release(self.clock.now())


def open_new(
    pre: Preflight, results_dir: str, space: str, run_id: str | None, clock: Clock
) -> Opened:
    """Reserve a new directory and write its first `run_info.json`. Blocking. Raises UsageError,
    and leaves no directory behind then."""
    root = reserve(results_dir, space, run_id, clock.now())
    try:
        return open_reserved(pre, root, clock)
    except StorageError as error:
        raise UsageError(
            f"cannot write to the results directory: {error.message}",
            hint="free space, or choose another with --results DIR",
        ) from error


def open_reserved(pre: Preflight, root: str, clock: Clock) -> Opened:
    """Begin a run in an empty directory, which is removed when that fails. Blocking. Raises
    RunIsLive, UsageError, StorageError."""
    now = clock.now()
    with ExitStack() as undo:
        undo.callback(_remove, pre, root)  # nothing ran in it
        try:
            claim = claim_directory(root, now)
        except RunIsLive:
            undo.pop_all()
            raise
        undo.callback(claim.abandon)
        info = first_run_info(pre.request, pre.components, os.path.basename(root), now)
        opened = Opened(pre, root, claim, info, clock, existing=False)
        undo.callback(opened.writer.close)
        opened.write_info()
        undo.pop_all()
    return opened


def open_existing(pre: Preflight, run_dir: str, clock: Clock) -> Opened:
    """Claim a run directory to continue it; nothing in it changes yet. Blocking. Raises
    RunIsLive, RunDirectoryError, StorageError."""
    layout, now = RunLayout(run_dir), clock.now()
    claim = claim_directory(layout.root, now)
    with ExitStack() as undo:
        undo.callback(lambda: claim.release(clock.now()))
        found = load_run_info(layout)
        check_resumable(found, layout.run_info)
        info = resumed(found, now)
        opened = Opened(pre, layout.root, claim, info, clock, existing=True)
        undo.pop_all()
    return opened


def stored_request(run_dir: str) -> RunRequest:
    """The request of a run directory. Raises RunDirectoryError."""
    layout = RunLayout(run_dir)
    if not os.path.isdir(layout.root):
        raise RunDirectoryError(f"no such run directory: {run_dir}")
    info = load_run_info(layout)
    refuse_redacted(info["request"], "request")
    return validate(RunRequest, info["request"], "request")


def refuse_redacted(stored: Mapping[str, Any], what: str) -> None:
    """Refuse to go on with settings that were redacted. Raises RunDirectoryError naming them."""
    if redacted := _redacted_paths(stored, ""):
        raise RunDirectoryError(
            f"the {what} holds redacted values: {', '.join(redacted)}",
            hint="give them by environment variable (for example api_key_env) and start anew",
        )


def claim_directory(root: str, now: datetime) -> Claim:
    """The right to write in a directory. Blocking. Raises RunIsLive, StorageError."""
    taken = Claim.take(root, now)
    if isinstance(taken, Owner):
        raise RunIsLive(
            f"{root} is in use by process {taken.pid} on {taken.host}",
            hint="wait for it to end, or stop it first",
        )
    return taken


def _writer(pre: Preflight, root: str, clock: Clock) -> RunWriter:
    return RunWriter(
        RunLayout(root),
        pre.components.attempts,
        Redactor(secret_values(os.environ) + secret_settings(pre.request.model_dump())),
        clock,
        strict=pre.request.execution.durability == "strict",
    )


def _remove(pre: Preflight, root: str) -> None:
    """Remove a run directory, and the folders of the results tree that are empty then."""
    shutil.rmtree(root, ignore_errors=True)
    top = os.path.abspath(os.path.expanduser(pre.request.runtime.results_dir))
    folder = os.path.dirname(root)
    with contextlib.suppress(OSError):  # not empty: other runs are in it
        while folder == top or folder.startswith(top + os.sep):
            os.rmdir(folder)
            folder = os.path.dirname(folder)


def _redacted_paths(value: object, path: str) -> list[str]:
    if isinstance(value, str) and REDACTED in value:
        return [path]
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in _redacted_paths(v, f"{path}.{k}".lstrip("."))]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in _redacted_paths(v, f"{path}.{i}")]
    return []
