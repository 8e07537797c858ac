"""The health check: how often, how long, and what counts."""

import asyncio

import pytest

from proctor.benchmarks.harbor.health import healthy
from proctor.benchmarks.harbor.sections import HealthcheckSection
from proctor.environments.contract import EnvironmentSpec
from proctor.environments.local import LocalEnvironment
from proctor.kernel.errors import EnvironmentFault


def checked(**settings):
    """How often the command ran; raises what the check raises."""
    plain = {"interval_sec": 0.01, "start_interval_sec": 0.01, "timeout_sec": 5.0}
    check = HealthcheckSection(**{**plain, **settings})

    async def body():
        async with await LocalEnvironment().open(EnvironmentSpec(), {}) as session:
            try:
                await healthy(check, session)
            finally:
                ran = (await session.exec("cat runs 2>/dev/null | wc -l")).stdout
                counts.append(int(ran))

    counts = []
    try:
        asyncio.run(body())
    except EnvironmentFault as fault:
        return counts[0], fault
    return counts[0], None


def test_a_healthy_environment_is_asked_once():
    assert checked(command="echo x >> runs") == (1, None)


def test_it_is_asked_until_it_succeeds():
    assert checked(command="echo x >> runs; [ $(wc -l < runs) -ge 3 ]") == (3, None)


def test_failures_that_count_end_it():
    ran, fault = checked(command="echo x >> runs; echo broken >&2; exit 4", retries=2)
    assert ran == 2
    assert fault.fault_code == "unhealthy"
    assert "failed 2 times (exit code 4)" in str(fault)
    assert "broken" in str(fault)


def test_while_it_starts_failures_do_not_count():
    command = "echo x >> runs; [ $(wc -l < runs) -ge 6 ]"
    assert checked(command=command, retries=1, start_period_sec=600.0) == (6, None)


def test_a_check_that_hangs_is_cut_off():
    ran, fault = checked(command="echo x >> runs; sleep 600", retries=1, timeout_sec=0.2)
    assert (ran, fault.fault_code) == (1, "unhealthy")
    assert "timed out" in str(fault)


@pytest.mark.parametrize("check", [None])
def test_no_check_asks_nothing(check):
    asyncio.run(healthy(check, None))
