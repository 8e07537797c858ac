"""Reserving a new run directory."""

import os
from datetime import datetime

from proctor.kernel.errors import RunDirectoryError, UsageError
from proctor.kernel.ids import readable, run_id_from_time

LAUNCHES = "launch"
"""The folder of all launches below the results directory."""


def namespace(benchmark_id: str, harness_id: str, model_name: str) -> str:
    """`<benchmark>/<harness>/<model>` as portable directory names; never below `launch`, where
    launches are kept."""
    top = readable(benchmark_id)
    top = f"_{top}" if top.casefold() == LAUNCHES else top
    return os.path.join(top, readable(harness_id), readable(model_name))


def reserve(results_dir: str, space: str, run_id: str | None, now: datetime) -> str:
    """Make a new run directory and return its path. An explicit run id must not exist yet;
    one made from the time is counted up until it is unique."""
    parent = os.path.join(os.path.abspath(os.path.expanduser(results_dir)), space)
    try:
        os.makedirs(parent, exist_ok=True)
        if run_id is not None:
            return _explicit(parent, run_id)
        return _unique(parent, run_id_from_time(now))
    except OSError as error:
        raise UsageError(
            f"cannot write to the results directory: {error.strerror}: {error.filename}",
            hint="choose another with --results DIR",
        ) from error


def _explicit(parent: str, run_id: str) -> str:
    path = os.path.join(parent, run_id)
    try:
        os.mkdir(path)
    except FileExistsError:
        raise RunDirectoryError(
            f"run {run_id!r} exists already: {path}",
            hint=f"`proctor resume {path}` continues it; another --run-id starts a new one",
        ) from None
    return path


def _unique(parent: str, base: str) -> str:
    number = 1
    while True:
        path = os.path.join(parent, base if number == 1 else f"{base}-{number}")
        try:
            os.mkdir(path)
        except FileExistsError:
            number += 1
        else:
            return path
