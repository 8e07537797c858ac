"""How a run ends: its report, and the documents that say so."""

import contextlib
import os
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from proctor.evals.report import RunReport
from proctor.evals.results.layout import RUNNING
from proctor.evals.results.run_info import ended
from proctor.evals.results.summary import summary_json, summary_text
from proctor.evals.results.writer import RunWriter
from proctor.kernel.clock import Clock
from proctor.kernel.errors import ProctorError, StorageError
from proctor.store.files import Sync, write_atomic


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run stopped working: an event of its state machine, and the error if there is one.

    `raised` is what has to propagate once the state is written (SystemExit and its like).
    """

    event: str
    error: str | None = None
    raised: BaseException | None = None

    @classmethod
    def of(cls, error: BaseException | None) -> "Ending":
        """The ending of a pool that ended by itself, with this exception or none."""
        if error is None:
            return cls("finish")
        if isinstance(error, ProctorError):
            return cls("fail", _text(error))
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if isinstance(error, Exception):
            return cls("fail", f"a defect stopped the run, see logs/run.jsonl: {what}")
        return cls("interrupt", f"stopped by {what}", error)


def log_defect(writer: RunWriter, error: BaseException | None) -> None:
    """Leave the traceback of what should not have happened in the run's log."""
    if isinstance(error, Exception) and not isinstance(error, ProctorError):
        with contextlib.suppress(StorageError):  # the run ends as failed in any case
            writer.log("run.defect", traceback="".join(traceback.format_exception(error)))


def write_end(
    writer: RunWriter, info: Mapping[str, Any], ending: Ending, report: RunReport, clock: Clock
) -> RunReport:
    """Write summary and status; what really happened comes back. Blocking.

    A disk that is too full for it makes a finished run a failed one.
    """
    final = ended(info, ending.event, clock.now(), ending.error)
    try:
        _write(writer, final, replace(report, status=final["status"], error=ending.error))
    except StorageError as failure:
        event = "fail" if ending.event == "finish" else ending.event
        failed = Ending(event, ending.error or _text(failure))
        status = write_failure(writer, info, failed, clock)
        return replace(report, status=status, error=failed.error)
    with contextlib.suppress(StorageError):  # the log only repeats what run_info says
        writer.log("run.finished", status=final["status"], error=ending.error)
    return replace(report, status=final["status"], error=ending.error)


def write_failure(writer: RunWriter, info: Mapping[str, Any], ending: Ending, clock: Clock) -> str:
    """Write at least the status, if the disk still takes it; the status. Blocking."""
    final = ended(info, ending.event, clock.now(), ending.error)
    with contextlib.suppress(StorageError):  # then the dead owner is all that says so
        writer.write_document(writer.layout.run_info, final, "run_info")
    return str(final["status"])


def _write(writer: RunWriter, info: dict[str, Any], report: RunReport) -> None:
    layout = writer.layout
    with contextlib.suppress(OSError):  # tasks are still in it, or it was never made
        os.rmdir(layout.state(RUNNING))
    summary = summary_json(report, info)
    summary["components"] = writer.redactor.config(summary["components"])
    writer.write_facts(layout.summary, summary, "summary")
    text = writer.redactor.text(summary_text(report, info)).encode("utf-8")
    write_atomic(layout.summary_text, text, "summary_text", Sync.NONE)
    writer.write_document(layout.run_info, info, "run_info")


def _text(error: ProctorError) -> str:
    return error.message + (f" ({error.hint})" if error.hint else "")
