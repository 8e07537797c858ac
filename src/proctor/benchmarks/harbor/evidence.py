"""What a task wants kept after the agent phase: its collect commands, then its artifacts.

In the agent's environment artifacts are evidence only; one that is missing, too large or not a
file, or holds too many of them, is a warning and never changes the score.
"""

import asyncio
import os
import posixpath
import shutil
from dataclasses import replace
from pathlib import Path

from proctor.benchmarks.harbor.config import ArtifactEntry, CollectSection
from proctor.benchmarks.harbor.jobs import VerifierJob
from proctor.environments.contract import EnvironmentSession
from proctor.evals.contracts.harness import AttemptContext
from proctor.evals.contracts.result import RunResult
from proctor.kernel.errors import EnvironmentFault
from proctor.kernel.ignore import GitIgnore
from proctor.kernel.issues import Cause, Issue, Phase, Severity

ARTIFACT_LIMIT_BYTES = 100_000_000
"""The most that one artifact, a file or a folder, may hold."""

ARTIFACT_LIMIT_FILES = 10_000
"""The most files that one artifact may hold: each is recorded."""

_REFUSED = frozenset(["too_large", "not_a_file", "refused_path"])


COLLECTED = "collected"
"""The folder of an attempt's artifacts that holds what the task declares."""


async def keep_evidence(
    job: VerifierJob,
    result: RunResult,
    session: EnvironmentSession,
    context: AttemptContext,
    *,
    below: str = "",
) -> RunResult:
    """Run the collect commands and keep the artifacts that the task declares, in a folder `below`
    the usual one where it has steps."""
    warnings = [w for step in job.collect if (w := await _collect(step, session)) is not None]
    for entry in job.artifacts:
        target = context.artifacts_dir / COLLECTED / below / artifact_name(entry)
        source = inside(entry.source, session)
        warnings += await _keep(entry, source, target, context.artifacts_dir, session)
    return replace(result, issues=(*result.issues, *warnings)) if warnings else result


def artifact_name(entry: ArtifactEntry) -> str:
    """The path of an artifact below the folder of those that were collected."""
    return entry.destination or posixpath.normpath(entry.source).lstrip("/.") or "workspace"


def inside(source: str, session: EnvironmentSession) -> str:
    """Where a declared source is: a session that may be anywhere has its own /logs and /app."""
    if not session.paths.logs.startswith("/logs"):
        for fixed, place in (("/logs", session.paths.logs), ("/app", session.paths.workspace)):
            if source == fixed or source.startswith(fixed + "/"):
                return place + source.removeprefix(fixed)
    return session.resolve(source)


async def _collect(step: CollectSection, session: EnvironmentSession) -> Issue | None:
    outcome = await session.exec(step.command, timeout_s=step.timeout_sec)
    if outcome.ok:
        return None
    how = "timed out" if outcome.timed_out else f"ended with exit code {outcome.exit_code}"
    return _warning("collect_failed", f"verifier.collect {step.command[:80]!r} {how}")


async def _keep(
    entry: ArtifactEntry, source: str, target: Path, top: Path, session: EnvironmentSession
) -> list[Issue]:
    try:
        await session.download(source, target, limit_bytes=ARTIFACT_LIMIT_BYTES)
    except FileNotFoundError:
        found = [_warning("artifact_missing", f"the artifact {entry.source!r} is not there")]
    except EnvironmentFault as fault:
        if fault.fault_code not in _REFUSED:
            raise
        shutil.rmtree(target, ignore_errors=True)
        found = [_warning(f"artifact_{fault.fault_code}", f"{entry.source}: {fault.message}")]
    else:
        found = []
        _drop_excluded(target, entry.exclude)
        if _too_many(target):
            await asyncio.to_thread(shutil.rmtree, target)
            message = f"{entry.source}: more than {ARTIFACT_LIMIT_FILES} files"
            found = [_warning("artifact_too_many_files", message)]
    _drop_empty(target, top)
    return found


def _too_many(target: Path) -> bool:
    count = 0
    for _, _, names in os.walk(target):
        count += len(names)
        if count > ARTIFACT_LIMIT_FILES:
            return True
    return False


def _drop_excluded(target: Path, patterns: list[str]) -> None:
    if not patterns or not target.is_dir():
        return
    rules = GitIgnore("\n".join(patterns))
    for folder, _, names in os.walk(target):
        for name in names:
            path = Path(folder, name)
            if rules.ignores(path.relative_to(target).as_posix()):
                path.unlink()


def _drop_empty(target: Path, top: Path) -> None:
    """Remove folders without a file, up to and including `top`."""
    for folder, _, _ in os.walk(target, topdown=False):
        if not os.listdir(folder):
            os.rmdir(folder)
    for parent in target.parents:
        if not parent.is_relative_to(top) or not parent.is_dir() or os.listdir(parent):
            break
        parent.rmdir()


def _warning(code: str, message: str) -> Issue:
    return Issue(Severity.WARNING, Phase.COLLECT, Cause.BENCHMARK, code, message)
