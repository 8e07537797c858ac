"""The process that decides: runs the task's tests against a candidate in another process.

stdin: one JSON object. stdout: one line, the nonce and the verdict as JSON:
`{"outcome", "detail", "confined"}` with the outcomes

- `passed`: `check` returned;
- `failed`: a test failed;
- `raised`: loading the answer or a call of its function raised;
- `timeout`: the time was up, of the processor or of the clock;
- `ended`: the candidate's process ended or answered nonsense;
- `bad_test`: the tests cannot run at all, whatever the answer.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any

from proctor.benchmarks.humaneval.grader.candidate import (
    Candidate,
    CandidateGone,
    complete,
    run_module,
)
from proctor.benchmarks.humaneval.grader.confine import hide

DETAIL_CHARS = 500


class TimeUp(BaseException):
    """The clock has run out."""


class BadTest(Exception):
    """The task's own code does not run."""


def main() -> None:
    """Grade once."""
    candidate = Candidate()
    hide()
    request = json.loads(sys.stdin.buffer.read())
    memory = request["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard == resource.RLIM_INFINITY or hard > memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    outcome, detail = _judged(candidate, request)
    line = {"outcome": outcome, "detail": detail[:DETAIL_CHARS], "confined": candidate.layers}
    sys.stdout.write(f"\n{request['nonce']} {json.dumps(line)}\n")
    sys.stdout.flush()
    os._exit(0)


def _judged(candidate: Candidate, request: dict[str, Any]) -> tuple[str, str]:
    # The alarm repeats: test code with a bare `except` may swallow the first one.
    signal.signal(signal.SIGALRM, _on_alarm)
    signal.setitimer(signal.ITIMER_REAL, request["wall_s"], 0.5)
    try:
        outcome, detail = _tried(candidate, request)
    except TimeUp:
        outcome, detail = "timeout", _too_slow(request)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    _, cpu_s = candidate.end()
    if _Clock.up:
        return "timeout", _too_slow(request)
    if outcome == "ended" and cpu_s >= request["cpu_s"] - 0.1:
        return "timeout", f"used {cpu_s:.1f} s of processor time"
    return outcome, detail


class _Clock:
    up = False


def _on_alarm(number: int, frame: Any) -> None:
    _Clock.up = True
    raise TimeUp


def _too_slow(request: dict[str, Any]) -> str:
    return f"not done after {request['wall_s']:g} s"


def _tried(candidate: Candidate, request: dict[str, Any]) -> tuple[str, str]:
    try:
        loaded = candidate.load(request)
        if "raised" in loaded:
            return "raised", ": ".join(map(str, loaded["raised"]))
        check = _check_function(candidate, request)
        check(candidate.call)
    except BadTest as error:
        return "bad_test", str(error)
    except CandidateGone as error:
        return "ended", f"the candidate: {error}"
    except TimeUp:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a test raises, it has not passed
        return _failed(error, request["test"])
    if candidate.gone is not None:
        return "ended", f"the candidate: {candidate.gone}"
    return "passed", ""


def _check_function(candidate: Candidate, request: dict[str, Any]) -> Any:
    """`check` of the tests, beside the helper functions of the prompt.

    The name of the function under test means the candidate's here, as it does in the original.
    """
    namespace: dict[str, Any] = {"__name__": "tests"}
    try:
        run_module(complete(request["prompt"]), "prompt", namespace)
        namespace[request["entry_point"]] = candidate.call
        run_module(request["test"], "test", namespace)
        check = namespace["check"]
    except Exception as error:  # noqa: BLE001 - the task's code may raise anything
        raise BadTest(f"{type(error).__name__}: {error}") from None
    if not callable(check):
        raise BadTest("check is no function")
    return check


def _failed(error: BaseException, test: str) -> tuple[str, str]:
    theirs = getattr(error, "from_candidate", None)
    where = _line_of(error, test)
    if theirs is not None:
        return "raised", f"{theirs} (in {where})"
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return "failed", f"{text} (in {where})"


def _line_of(error: BaseException, test: str) -> str:
    """The test's line that the error came through."""
    trace, number = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "test":
            number = trace.tb_lineno
        trace = trace.tb_next
    lines = test.split("\n")
    return lines[number - 1].strip()[:200] if 0 < number <= len(lines) else "the tests"
