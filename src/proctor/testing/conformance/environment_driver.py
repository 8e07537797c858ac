"""The way from inside to a service of the driver: open under every policy, and to nothing else."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

from proctor.environments.contract import EnvironmentSession, EnvironmentSpec
from proctor.testing.conformance.environment_base import EnvironmentCases, refused
from proctor.testing.conformance.environment_network import probe, service


class DriverCases(EnvironmentCases):
    """What `driver_address` and `end_driver_access` promise; a provider that cannot keep it
    refuses specifications that ask for it."""

    def reaching(self) -> EnvironmentSpec:
        """`spec`, asking for a way to the driver."""
        return replace(self.spec(), driver_access=True)

    def test_the_driver_is_reached_or_refused_beforehand(self) -> None:
        async def case() -> None:
            environment = self.environment()
            if environment.problems(self.reaching()):
                with refused("unsupported"):
                    await environment.open(self.reaching(), {"run": "conformance"})
                return
            async with (
                service("127.0.0.1") as wanted,
                service("127.0.0.1") as other,
                self.opened(self.reaching()) as session,
            ):
                first, again = [await _address(session, wanted) for _ in range(2)]
                assert first == again
                second = await _address(session, other)
                assert second != first
                seen = await probe(session, (first, second))
                assert seen.answers == [first, second]
                phases = self.reaching().network
                for policy in dict.fromkeys(phases.policies) if phases.switches else ():
                    await session.set_network(policy)
                    assert (await probe(session, (first,))).answers == [first], policy
                await session.end_driver_access()
                await session.end_driver_access()

        self.run_bare(case)

    def test_a_closed_session_leads_nowhere(self) -> None:
        async def case() -> None:
            if self.environment().problems(self.reaching()):
                return
            async with AsyncExitStack() as stack:
                port = await stack.enter_async_context(service("127.0.0.1"))
                session = await stack.enter_async_context(self.opened(self.reaching()))
                await asyncio.gather(*(_address(session, port) for _ in range(3)))
                await session.close()
                with refused("environment_gone", "cannot_start"):
                    await session.driver_address(port)

        self.run_bare(case)


async def _address(session: EnvironmentSession, port: int) -> str:
    """As `probe` writes it."""
    return (await session.driver_address(port)).replace(":", " ")
