"""The health check of a task's environment: it must succeed before the agent is set up."""

import asyncio
import time

from proctor.benchmarks.harbor.sections import HealthcheckSection
from proctor.environments.contract import EnvironmentSession
from proctor.kernel.errors import EnvironmentFault


async def healthy(check: HealthcheckSection | None, session: EnvironmentSession) -> None:
    """Wait until the check succeeds: every `start_interval_sec` while the environment starts
    (`start_period_sec`), where failures do not count, then every `interval_sec`.

    Raises EnvironmentFault `unhealthy` after `retries` failures that count, one after the other.
    """
    if check is None:
        return
    began, failures = time.monotonic(), 0
    while True:
        starting = time.monotonic() - began < check.start_period_sec
        outcome = await session.exec(check.command, timeout_s=check.timeout_sec)
        if outcome.ok:
            return
        failures += not starting
        if failures >= check.retries:
            how = "timed out" if outcome.timed_out else f"exit code {outcome.exit_code}"
            said = (outcome.stderr or outcome.stdout).strip()[-300:]
            raise EnvironmentFault(
                f"the health check failed {failures} times ({how}): {check.command[:200]}"
                + (f": {said}" if said else ""),
                code="unhealthy",
            )
        await asyncio.sleep(check.start_interval_sec if starting else check.interval_sec)
