"""`python:file.py:function`: the user's own function grades.

`function(answer, target, task)` gets the answer and the target as JSON values and the task as a
dictionary (`id`, `input`, `target`, `category`, `metadata`). It returns a bool or 0/1 (metric kind
`binary`), a number from `low` to `high` (`scalar`), or a dictionary whose key `score` is one of
these and whose other keys are kept as evidence.

Each grading is a fresh process: own process group, killed whole at its end; a time limit and a
memory limit; the short list of environment variables, no secrets; an empty temporary folder as
working directory. The function's folder is on its import path. The file is read once, when the
benchmark is made, and that text is what runs and what is digested. An exception, a time-out and
an ended process are errors of the evaluator; a result of a wrong type or range is unavailable.
"""

import asyncio
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proctor.benchmarks.table.options import TableOptions
from proctor.benchmarks.table.scorers.contract import Scorer, Verdict, not_scored
from proctor.environments.contract import ExecResult
from proctor.environments.limits import ProcessLimits
from proctor.environments.owner import Owner
from proctor.environments.process import run_process
from proctor.environments.removal import remove_entry
from proctor.environments.variables import base_variables
from proctor.evals.contracts.task import TaskSpec
from proctor.kernel import digest, jsontext
from proctor.kernel.errors import OptionError
from proctor.kernel.jsontext import JsonError, JsonValue

TIME_LIMIT_S = 30.0
FILE_SIZE_LIMIT_MB = 1_024
_OUTPUT_LIMIT_BYTES = 200_000
_PROGRAM = Path(__file__).with_name("python_grader.py")
_STDERR_SHOWN = 2_000


class PythonFunction(Scorer):
    """Grades with a function of the user, in a limited process of its own."""

    id = "python"
    own_options = ("metric_kind", "low", "high", "time_limit_s", "memory_limit_mb")
    needs_target = False
    target_is_text = False

    def __init__(self, options: TableOptions, argument: str = "") -> None:
        super().__init__(options, argument)
        location, _, self._function = argument.rpartition(":")
        if not location or not self._function.isidentifier():
            raise OptionError(
                f"benchmark.scorer=python:{argument}: no file and function",
                hint="write python:FILE.py:FUNCTION",
            )
        self._path = Path(location).resolve()
        try:
            self._source = self._path.read_text("utf-8")
            compile(self._source, str(self._path), "exec")
        except OSError as error:
            raise OptionError(
                f"benchmark.scorer: {location} cannot be read: {error.strerror}",
                hint=f"relative paths start from {Path.cwd()}",
            ) from None
        except (SyntaxError, ValueError) as error:
            raise OptionError(f"benchmark.scorer: {location} is not Python: {error}") from None

    def settings(self) -> dict[str, Any]:
        """The function's name and the digest of its file, with the options."""
        code = {"function": self._function, "code": digest.of_bytes(self._source.encode("utf-8"))}
        return super().settings() | code

    async def score(self, answer: JsonValue, task: TaskSpec) -> Verdict:
        """What the function returns; checked by `Table` against the metric."""
        nonce = secrets.token_hex(16)
        limit_s = self.options.time_limit_s or TIME_LIMIT_S
        with _private_folder() as folder:
            result = await run_process(
                [sys.executable, "-I", str(_PROGRAM)],
                cwd=str(folder),
                env=base_variables() | {"HOME": str(folder), "TMPDIR": str(folder)},
                stdin=self._request(nonce, answer, task),
                timeout_s=limit_s,
                output_limit_bytes=_OUTPUT_LIMIT_BYTES,
                limits=ProcessLimits(
                    memory_mb=self.options.memory_limit_mb, file_size_mb=FILE_SIZE_LIMIT_MB
                ),
            )
            await _empty(folder)
        if result.timed_out:
            return not_scored("scorer_timeout", f"the scorer took longer than {limit_s:g} s")
        return _verdict(result, nonce)

    def _request(self, nonce: str, answer: JsonValue, task: TaskSpec) -> bytes:
        request = {
            "nonce": nonce,
            "path": str(self._path),
            "function": self._function,
            "source": self._source,
            "answer": answer,
            "target": task.target,
            "task": {
                "id": task.id,
                "input": task.input,
                "target": task.target,
                "category": task.category,
                "metadata": dict(task.metadata),
            },
        }
        return jsontext.dumps(request).encode("utf-8")


@contextmanager
def _private_folder() -> Iterator[Path]:
    """An empty folder that a reaper recognises by its name when the driver dies."""
    folder = Path(tempfile.gettempdir(), Owner.this_process().new_name())
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        _remove(folder)


async def _empty(folder: Path) -> None:
    """Remove what a function left, off the event loop; the usual empty folder costs nothing."""
    try:
        os.rmdir(folder)
    except OSError:
        await asyncio.to_thread(_remove, folder)


def _remove(folder: Path) -> None:
    parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        remove_entry(parent, folder.name)
    finally:
        os.close(parent)


def _verdict(result: ExecResult, nonce: str) -> Verdict:
    replies = [reply for line in result.stdout.split("\n") if (reply := _reply(line, nonce))]
    if len(replies) != 1:
        how = "no verdict" if not replies else f"{len(replies)} verdicts"
        tail = result.stderr[-_STDERR_SHOWN:].strip()
        reason = f"the scorer's process ended with {how} (exit code {result.exit_code})"
        return not_scored("scorer_no_verdict", reason, tail or None)
    reply = replies[0]
    if "error" in reply:
        reason = f"the scorer raised {reply['error']}"
        return not_scored("scorer_failed", reason, reply.get("traceback"))
    evidence = reply.get("evidence") or {}
    if "value" not in reply:
        return Verdict(
            unavailable=f"the scorer returned {reply['shown']} ({reply['type']})",
            evidence=evidence,
        )
    return Verdict(reply["value"], evidence=evidence)


def _reply(line: str, nonce: str) -> dict[str, Any] | None:
    if nonce not in line:
        return None
    try:
        reply = jsontext.loads(line)
    except JsonError:
        return None
    return reply if isinstance(reply, dict) and reply.get("nonce") == nonce else None
