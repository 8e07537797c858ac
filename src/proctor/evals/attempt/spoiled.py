"""What fails in an environment that the agent has worked in is the agent's doing.

An agent can be root where it works: it may remove the shell, put a folder where a file comes next,
or turn `rm` into a program that does nothing. Were that a fatal issue, an agent could take back a
wrong answer, and every official value of the run with it. So it is an attempt without a verdict.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from proctor.environments.contract import EnvironmentSession
from proctor.evals.attempt.blame import PhaseFailed
from proctor.kernel.errors import ProctorError
from proctor.kernel.issues import Cause, Issue, Phase, Severity

_THE_PLACES_OWN = frozenset(["environment_gone", "engine_unreachable", "unkillable"])
_ALIVE_S = 30.0


@asynccontextmanager
async def after_agent(session: EnvironmentSession, *, first: bool = False) -> AsyncIterator[None]:
    """Around what is done in `session` once an agent has worked in it.

    An environment's failure becomes an error `environment_spoiled` of cause `agent`, unless the
    environment is gone, its engine does not answer or what runs in it cannot be killed. Setting
    up a further step runs the benchmark's own programs there: their failure stays the benchmark's,
    but as an error. `first`: the agent's first run is within; how that itself fails is not changed.
    """
    try:
        yield
    except PhaseFailed as failure:
        issue = failure.issue
        if issue.severity is not Severity.FATAL or (first and issue.phase is Phase.RUN):
            raise
        if issue.cause is Cause.BENCHMARK and issue.phase is Phase.PREPARE:
            found = replace(issue, severity=Severity.ERROR)
            raise PhaseFailed(
                found, permanent=failure.permanent, retry_after_s=failure.retry_after_s
            ) from failure
        if issue.cause is not Cause.ENVIRONMENT or issue.code in _THE_PLACES_OWN:
            raise
        if not await _lives(session):
            raise
        # Permanent: spoiling the environment must not buy another try.
        raise PhaseFailed(_spoiled(issue), permanent=True, retry_after_s=None) from failure


def _spoiled(issue: Issue) -> Issue:
    message = f"the environment fails after the agent worked in it ({issue.code}): {issue.message}"
    return replace(
        issue,
        severity=Severity.ERROR,
        cause=Cause.AGENT,
        code="environment_spoiled",
        message=message,
    )


async def _lives(session: EnvironmentSession) -> bool:
    """Whether the place is there; one that cannot even say so is not."""
    try:
        async with asyncio.timeout(_ALIVE_S):
            return await session.alive()
    except (ProctorError, OSError):
        return False
