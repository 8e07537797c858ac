"""Artifacts of the agent's environment, handed over to the fresh one that grades.

What the grader gets is what was recorded: every file's size and digest are checked on the way.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from proctor.environments.contract import DOWNLOAD_LIMIT_BYTES, EnvironmentSession
from proctor.evals.contracts.result import Artifact
from proctor.evals.results.artifacts import inventory
from proctor.evals.threads import TrackedThreads
from proctor.kernel.errors import EvaluatorFault

HANDED_OVER = "artifacts"
"""The folder below `paths.logs` of the session."""


async def hand_over(
    session: EnvironmentSession,
    directory: str,
    artifacts: Sequence[Artifact],
    threads: TrackedThreads,
    *,
    limit_bytes: int = DOWNLOAD_LIMIT_BYTES,
) -> None:
    """Put the artifacts in `directory` into `LOGS_DIR/artifacts` of a fresh session.

    Raises EvaluatorFault `artifacts_too_large` (together above `limit_bytes`, default 1 GB) and
    `artifact_changed` (not what was recorded when it was collected).
    """
    if not artifacts:
        return
    total = sum(artifact.size_bytes for artifact in artifacts)
    if total > limit_bytes:
        message = f"the artifacts hold {total} bytes, more than the {limit_bytes} handed over"
        raise EvaluatorFault(message, code="artifacts_too_large", permanent=True)
    present = set(await threads.call("checking artifacts", inventory, directory))
    for artifact in artifacts:
        if artifact not in present:
            message = f"{artifact.path} is not what was collected: it was changed or removed"
            raise EvaluatorFault(message, code="artifact_changed", permanent=True)
        source = Path(os.path.join(directory, artifact.path))
        await session.upload(source, f"{session.paths.logs}/{HANDED_OVER}/{artifact.path}")
