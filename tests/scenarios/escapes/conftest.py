"""Every escape is tried on every provider that promises isolation, under each closed policy."""

import asyncio

import pytest
from tests.scenarios.environments.providers import LISTED, NOTHING, Provider

from proctor.environments.contract import Resources
from proctor.environments.netns.sandbox import problem as switching_problem

SANDBOXES = ("bubblewrap", "docker", "podman")
POLICIES = {"no-network": NOTHING, "allowlist": LISTED}
COMMAND_LIMIT_S = 120.0


class Cell:
    """A provider with a policy; `hold` runs a case inside one of its sandboxes."""

    def __init__(self, provider: str, policy: str) -> None:
        self.provider = Provider(provider)
        self.policy = POLICIES[policy]

    def spec(self, **wishes):
        return self.provider.spec(*[self.policy] * 3, resources=Resources(**wishes))

    def hold(self, case, **wishes):
        """The result of `case(session)` in a new sandbox with these resources."""

        async def body():
            environment = self.provider.environment()
            async with await environment.open(self.spec(**wishes), {"run": "escapes"}) as session:
                return await case(session)

        return asyncio.run(body())

    def run(self, command, *, timeout_s=COMMAND_LIMIT_S, wishes=None, **more):
        """The result of one command in a new sandbox."""
        return self.hold(
            lambda session: session.exec(command, timeout_s=timeout_s, **more), **(wishes or {})
        )

    def python(self, source, **more):
        return self.run(["python3", "-c", source], **more)


@pytest.fixture(
    params=[(provider, policy) for provider in SANDBOXES for policy in POLICIES],
    ids="-".join,
)
def cell(request, need):
    made = Cell(*request.param)
    reason = made.provider.missing()
    need(not reason, f"{made.provider.name}: {reason}")
    need(made.policy is NOTHING or not switching_problem(), switching_problem())
    return made


@pytest.fixture(params=SANDBOXES)
def sandbox(request, need):
    """The same where the network does not matter: once a provider."""
    made = Cell(request.param, "no-network")
    reason = made.provider.missing()
    need(not reason, f"{made.provider.name}: {reason}")
    need(made.policy is NOTHING or not switching_problem(), switching_problem())
    return made
