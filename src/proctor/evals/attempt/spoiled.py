"""What fails in an environment that the agent has worked in is the agent's doing.

An agent can be root where it works: it may remove the shell, put a folder where a file comes next,
turn `rm` into a program that does nothing, or end the whole place. Were that a fatal issue, an
agent could take back a wrong answer, and every official value of the run with it. So it is an
attempt without a verdict, as long as another place of the same kind works.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from proctor.environments.contract import EnvironmentSession
from proctor.evals.attempt.blame import PhaseFailed
from proctor.evals.attempt.calls import DeadlineReached
from proctor.evals.attempt.inference import too_late
from proctor.evals.attempt.ownership import Ownership
from proctor.evals.attempt.services import AttemptServices
from proctor.evals.planner import ExecutionPlan
from proctor.kernel.errors import ProctorError
from proctor.kernel.issues import Cause, Issue, Phase, Severity

_THE_PLACES_OWN = frozenset(["engine_unreachable", "unkillable"])
_GONE = "environment_gone"
_ASK_S = 60.0
_FILE, _TRIAL = "proctor-trial", b"works\n"


class Spoiled(PhaseFailed):
    """The agent spoiled the place, if another one works; `original` is the failure as it came."""

    def __init__(self, original: PhaseFailed) -> None:
        # Permanent: spoiling the environment must not buy another try.
        super().__init__(_spoiled(original.issue), permanent=True, retry_after_s=None)
        self.original = original


@asynccontextmanager
async def after_agent(
    session: EnvironmentSession, *, acted: Callable[[], bool] | None = None
) -> AsyncIterator[None]:
    """Around what is done in `session` once an agent has worked in it.

    An environment's failure becomes an error `environment_spoiled` of cause `agent`, also where
    what ran inside has ended the environment; unless it is gone otherwise, its engine does not
    answer or what runs in it cannot be killed. Setting up a further step runs the benchmark's own
    programs there: their failure stays the benchmark's, but as an error. `acted`: the agent's
    first run is within, and this says whether it has begun; how the run itself fails is changed
    only where the agent ended its environment.
    """
    try:
        yield
    except PhaseFailed as failure:
        issue = failure.issue
        if issue.severity is not Severity.FATAL or not (acted is None or acted()):
            raise
        if issue.cause is Cause.BENCHMARK and issue.phase is Phase.PREPARE:
            found = replace(issue, severity=Severity.ERROR)
            raise PhaseFailed(
                found, permanent=failure.permanent, retry_after_s=failure.retry_after_s
            ) from failure
        if issue.cause is not Cause.ENVIRONMENT or issue.code in _THE_PLACES_OWN:
            raise
        running = acted is not None and issue.phase is Phase.RUN
        if not await _spoilt(session, running=running or issue.code == _GONE):
            raise
        raise Spoiled(failure) from failure


async def judged(
    spoiled: Spoiled,
    services: AttemptServices,
    plan: ExecutionPlan,
    labels: Mapping[str, str],
    issues: list[Issue],
) -> PhaseFailed:
    """The failure to record, once the place is closed and gives back what the agent had taken:
    where no other place works either, the provider failed and not the agent. What goes wrong in
    closing the other place is added to `issues`."""
    owned = Ownership()
    trial = _tried(services, plan, labels, owned)
    try:
        async with owned:
            works = await services.calls.bounded("trying another place", trial, plan.open_timeout_s)
    except (ProctorError, OSError, DeadlineReached):
        works = False
    finally:
        issues.extend(owned.warnings)
    return spoiled if works else spoiled.original


def _spoiled(issue: Issue) -> Issue:
    message = f"the environment fails after the agent worked in it ({issue.code}): {issue.message}"
    return replace(
        issue,
        severity=Severity.ERROR,
        cause=Cause.AGENT,
        code="environment_spoiled",
        message=message,
    )


async def _spoilt(session: EnvironmentSession, *, running: bool) -> bool:
    """Whether the place is there, or was ended by what ran inside. `running`: only the latter
    counts. A place that cannot even say so is not the agent's."""
    try:
        async with asyncio.timeout(_ASK_S):
            if not running and await session.alive():
                return True
            return await session.ended_inside()
    except (ProctorError, OSError):
        return False


async def _tried(
    services: AttemptServices, plan: ExecutionPlan, labels: Mapping[str, str], owned: Ownership
) -> bool:
    """Whether the provider opens a place like the agent's and does there what it promises."""
    spec = replace(plan.environment, copies=())
    session = await services.components.environment.open(spec, labels)
    if too_late():
        await session.close()
        raise asyncio.CancelledError
    owned.add("the place that was opened for a trial", session.close)
    await session.write(_FILE, _TRIAL)
    done = await session.exec(
        f'IFS= read -r line < {_FILE}; printf "%s\\n" "$line"', timeout_s=_ASK_S
    )
    return done.stdout.encode() == _TRIAL == await session.read(_FILE)
