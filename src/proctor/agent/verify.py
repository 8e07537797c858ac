"""Whether a candidate is accepted: the acceptance contract decides, not the model's closing words.

A contract is a list of checks, all of which must accept:

    {"kind": "file", "path": "out.txt", "sha256": "…"}             sha256 is optional
    {"kind": "command", "argv": [...], "exit_code": 0, "output_sha256": "…", "timeout_s": 60}
    {"kind": "report", "path": "report.json"}    counts: tests > 0, failures and errors 0
    {"kind": "action", "tool": "run_tests", "evidence": {"exit_code": 0}}
    {"kind": "reviewer", "who": "…"}             a person decides about this candidate

Evidence older than the last write to the same resource is stale and accepts nothing: files and
commands are looked at now, an action counts only if nothing wrote to what it read since it began,
and a reviewer's decision is bound to the candidate and to the state of the files.
"""

import asyncio
import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from proctor.agent.core.locks import Mode, startable
from proctor.agent.core.view import ActionView, View
from proctor.environments.process import run_process
from proctor.kernel import jsontext
from proctor.kernel.digest import of_bytes, of_json
from proctor.kernel.errors import EnvironmentFault

Check = Mapping[str, Any]
_REPORT_BYTES = 10_000_000
_COMMAND_S = 600.0
_PAUSES_S = (0.1, 0.4, 1.6)
_OF_THE_MACHINE = frozenset(
    (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOSPC)
)


def verdict(check: Check, accepted: bool, reason: str, **evidence: Any) -> dict[str, Any]:
    """One line of the record."""
    return {"check": dict(check), "accepted": accepted, "reason": reason, "evidence": evidence}


def review_subject(view: View) -> str:
    """What a reviewer's decision is bound to: this candidate on these files after these writes."""
    return of_json([view.candidate, view.revision, _last_write(view, None)])


def checks_of(view: View) -> tuple[Check, ...]:
    """The checks of the acceptance contract. One that cannot be read accepts nothing."""
    found = view.task.get("acceptance") or ()
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        return ({"kind": "unreadable"},)
    return tuple(c if isinstance(c, Mapping) else {"kind": "unreadable"} for c in found)


async def judge(view: View, check: Check, root: Path | None) -> dict[str, Any] | None:
    """The verdict of one check; None when a person has not decided yet. What the agent wrote is
    data: nothing in it raises. Where the machine cannot check (no process, file or memory to be
    had), it is tried again a few times; then its error is raised, and nobody is judged."""
    for pause_s in _PAUSES_S:
        try:
            return await _judge_once(view, check, root)
        except (OSError, EnvironmentFault):
            await asyncio.sleep(pause_s)
    return await _judge_once(view, check, root)


async def _judge_once(view: View, check: Check, root: Path | None) -> dict[str, Any] | None:
    kind = check.get("kind")
    try:
        if kind == "file":
            return await asyncio.to_thread(_file, check, _inside(root, check))
        if kind == "report":
            return await asyncio.to_thread(_report, check, _inside(root, check))
        if kind == "command":
            return await _command(check, root)
        if kind == "action":
            return _action(view, check)
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
            raise
        return verdict(check, False, f"cannot be checked: {error}")
    if kind == "reviewer":
        return review(view, check)
    return verdict(check, False, f"there is no check of kind {kind!r}")


def _inside(root: Path | None, check: Check) -> Path:
    """The file of a check; a link that leads out of the workspace is refused."""
    if root is None:
        raise ValueError("the run has no workspace")
    base = os.path.realpath(root)
    path = os.path.realpath(os.path.join(base, str(check["path"])))
    if os.path.commonpath([base, path]) != base:
        raise ValueError(f"{check['path']!r} is outside of the workspace")
    return Path(path)


@contextmanager
def _opened(check: Check, path: Path) -> Iterator[BufferedReader]:
    """A regular file, and nothing that an open or a read could wait for. Raises ValueError."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError(f"{check['path']} is not a file")
        yield stream


def _file(check: Check, path: Path) -> dict[str, Any]:
    if not path.is_file():
        return verdict(check, False, f"{check['path']} is not a file")
    with _opened(check, path) as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    wanted = check.get("sha256")
    if wanted is not None and str(wanted).removeprefix("sha256:") != found:
        return verdict(check, False, f"{check['path']} has other content", sha256=found)
    return verdict(check, True, "", sha256=found)


def _report(check: Check, path: Path) -> dict[str, Any]:
    with _opened(check, path) as stream:
        data = stream.read(_REPORT_BYTES + 1)
    if len(data) > _REPORT_BYTES:
        raise ValueError(f"{check['path']} is larger than {_REPORT_BYTES} bytes")
    counts = jsontext.loads(data)
    if not isinstance(counts, dict):
        raise ValueError(f"{check['path']} is not a JSON object")
    found = {name: counts.get(name, 0) for name in ("tests", "failures", "errors")}
    if not all(type(count) is int and count >= 0 for count in found.values()):
        raise ValueError(f"{check['path']}: tests, failures and errors are numbers from 0")
    good = found["tests"] > 0 and not found["failures"] and not found["errors"]
    return verdict(check, good, "" if good else f"{check['path']}: {found}", **found)


async def _command(check: Check, root: Path | None) -> dict[str, Any]:
    argv = [str(word) for word in check["argv"]]
    cwd = None if root is None else str(root)
    limit = min(float(check.get("timeout_s", 60.0)), _COMMAND_S)
    done = await run_process(argv, cwd=cwd, timeout_s=limit)
    digest = of_bytes(done.stdout.encode("utf-8", "surrogateescape"))
    wanted, output = check.get("exit_code", 0), check.get("output_sha256")
    evidence = {"exit_code": done.exit_code, "output_sha256": digest}
    if done.timed_out or done.exit_code != wanted:
        end = "timed out" if done.timed_out else f"exit code {done.exit_code}"
        return verdict(check, False, f"{argv[0]}: {end}", **evidence)
    if output is not None and f"sha256:{str(output).removeprefix('sha256:')}" != digest:
        return verdict(check, False, f"{argv[0]}: other output", **evidence)
    return verdict(check, True, "", **evidence)


def _action(view: View, check: Check) -> dict[str, Any]:
    """The last finished action of a tool, if nothing wrote to its resources since it began."""
    tool = str(check.get("tool", ""))
    wanted = check.get("evidence", {})
    last: ActionView | None = None
    for action in view.actions:
        if action.tool == tool and action.state == "done" and not action.timed_out:
            last = action
    if last is None:
        return verdict(check, False, f"{tool} was never executed to its end")
    if _last_write(view, last) > last.started_seq:
        return verdict(
            check, False, f"{tool} is stale: something was written since", action=last.id
        )
    if any(last.evidence.get(name) != value for name, value in wanted.items()):
        return verdict(check, False, f"{tool}: other evidence", action=last.id)
    return verdict(check, True, "", action=last.id)


def _last_write(view: View, reader: ActionView | None) -> int:
    """The place in the log of the last write that `reader`'s resources could have seen."""
    newest = 0
    for action in view.actions:
        if action is reader or not action.started_seq or action.effect == "pure":
            continue
        writes = [a for a in action.resources if a.mode is Mode.WRITE]
        reads = writes if reader is None else reader.resources
        if writes and not startable([writes], [reads]):
            newest = max(newest, action.started_seq, action.ended_seq)
    return newest


def review(view: View, check: Check) -> dict[str, Any] | None:
    """What a reviewer decided about this candidate on these files; None: nothing yet."""
    subject = review_subject(view)
    for wait in reversed(list(view.waits)):
        if wait.kind == "review" and wait.subject == subject and wait.spec.get("check") == check:
            if wait.state == "arrived":
                return verdict(check, True, "", by=wait.by)
            if wait.state in ("denied", "expired"):
                said = wait.value if isinstance(wait.value, str) else ""
                return verdict(check, False, f"reviewer {wait.by}: {said or wait.state}")
    return None
