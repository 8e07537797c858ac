"""A run's directory: reserved for a new run, or claimed to go on in place."""

import contextlib
import os
import shutil
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from proctor.evals.options import validate
from proctor.evals.preflight import Preflight
from proctor.evals.request import RunRequest
from proctor.evals.results.layout import RunLayout
from proctor.evals.results.reserve import reserve
from proctor.evals.results.run_info import ended, first_run_info, resumed
from proctor.evals.results.stored import load_run_info
from proctor.evals.results.writer import RunWriter
from proctor.kernel.clock import Clock
from proctor.kernel.errors import RunDirectoryError, RunIsLive
from proctor.kernel.redact import REDACTED, Redactor, secret_values
from proctor.store.exclusive import Claim, Owner


class Opened:
    """A claimed run directory with its first `run_info.json`."""

    def __init__(
        self,
        pre: Preflight,
        root: str,
        info: dict[str, Any],
        claim: Claim,
        clock: Clock,
        found: Mapping[str, Any] | None = None,
    ) -> None:
        self.pre = pre
        self._found = found
        self.clock = clock
        self.claim = claim
        self.info = info
        self.writer = RunWriter(
            RunLayout(root),
            pre.components.attempts,
            Redactor(secret_values(os.environ)),
            clock,
            strict=pre.request.execution.durability == "strict",
        )
        self.writer.write_document(self.writer.layout.run_info, info, "run_info")

    def end(self, event: str, error: str | None) -> None:
        """The request was not prepared: say on disk how that ended (`fail`, `interrupt`)."""
        self.info = ended(self.info, event, self.clock.now(), error)
        self.writer.write_document(self.writer.layout.run_info, self.info, "run_info")
        self.close()

    def close_unchanged(self) -> None:
        """Give an existing directory up as it was found."""
        if self._found is not None:
            self.writer.write_document(self.writer.layout.run_info, self._found, "run_info")
        self.close()

    def discard(self) -> None:
        """Remove a directory that was reserved for a request which is refused."""
        self.close()
        shutil.rmtree(self.writer.layout.root, ignore_errors=True)
        parent = os.path.dirname(self.writer.layout.root)
        with contextlib.suppress(OSError):  # not empty: other runs are in it
            os.removedirs(parent)

    def close(self) -> None:
        """Give the directory up. Idempotent."""
        self.claim.release(self.clock.now())
        self.writer.close()


def open_new(
    pre: Preflight, results_dir: str, space: str, run_id: str | None, clock: Clock
) -> Opened:
    """Reserve a new directory. Blocking. Raises UsageError."""
    now = clock.now()
    root = reserve(results_dir, space, run_id, now)
    claim = _claim(root, now)
    info = first_run_info(pre.request, pre.components, os.path.basename(root), now)
    return Opened(pre, root, info, claim, clock)


def open_existing(pre: Preflight, run_dir: str, clock: Clock) -> Opened:
    """Claim a run directory to continue it. Blocking. Raises RunIsLive, RunDirectoryError."""
    layout = RunLayout(run_dir)
    now = clock.now()
    claim = _claim(layout.root, now)
    try:
        found = load_run_info(layout)
        return Opened(pre, layout.root, resumed(found, now), claim, clock, found)
    except BaseException:
        claim.release(clock.now())
        raise


def stored_request(run_dir: str) -> RunRequest:
    """The request of a run directory. Raises RunDirectoryError."""
    layout = RunLayout(run_dir)
    if not os.path.isdir(layout.root):
        raise RunDirectoryError(f"no such run directory: {run_dir}")
    info = load_run_info(layout)
    if redacted := _redacted_paths(info["request"], ""):
        raise RunDirectoryError(
            f"the request holds redacted values: {', '.join(redacted)}",
            hint="give them by environment variable (for example api_key_env) and start anew",
        )
    return validate(RunRequest, info["request"], "request")


def _claim(root: str, now: datetime) -> Claim:
    taken = Claim.take(root, now)
    if isinstance(taken, Owner):
        raise RunIsLive(
            f"{root} is in use by process {taken.pid} on {taken.host}",
            hint="wait for it to end, or stop it first",
        )
    return taken


def _redacted_paths(value: object, path: str) -> list[str]:
    if value == REDACTED:
        return [path]
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in _redacted_paths(v, f"{path}.{k}".lstrip("."))]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in _redacted_paths(v, f"{path}.{i}")]
    return []
