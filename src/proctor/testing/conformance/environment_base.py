"""What the parts of the environment suite share: the factory, sessions, expected faults."""

import asyncio
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from proctor.environments.contract import (
    OUTPUT_LIMIT_BYTES,
    Environment,
    EnvironmentSession,
    EnvironmentSpec,
    ExecResult,
)
from proctor.environments.owner import owner_in_name
from proctor.kernel.errors import EnvironmentFault

LABELS = {"run": "conformance", "attempt": "1"}
COMMAND_LIMIT_S = 60.0
"""For commands that are expected to end by themselves: generous, because machines are busy."""


class EnvironmentCases(ABC):
    """The seams that a subclass fills."""

    tells_lingering: bool = True
    """Whether the provider reports processes that outlived their command."""

    @abstractmethod
    def environment(self) -> Environment:
        """A new provider."""

    def spec(self) -> EnvironmentSpec:
        """A specification that the provider can honour."""
        return EnvironmentSpec()

    def unsupported(self) -> list[EnvironmentSpec]:
        """Specifications that the provider must refuse before anything is opened."""
        return []

    def traces(self) -> set[str]:
        """Names of whatever sessions of this process leave in the world while they live.

        Default: the private temporary folders of this process. Override for containers etc.
        """
        pid = os.getpid()
        names = os.listdir(tempfile.gettempdir())
        return {n for n in names if (owner := owner_in_name(n)) is not None and owner[0] == pid}

    @asynccontextmanager
    async def opened(
        self, spec: EnvironmentSpec | None = None
    ) -> AsyncIterator[EnvironmentSession]:
        """A session that is closed at the end."""
        session = await self.environment().open(spec or self.spec(), LABELS)
        async with session:
            yield session

    def run(self, case: Callable[[EnvironmentSession], Awaitable[None]]) -> None:
        """Run a case in a session of its own, and check that it leaves nothing."""

        async def body() -> None:
            async with self.opened() as session:
                await case(session)

        self.run_bare(body)

    def run_bare(self, case: Callable[[], Awaitable[None]]) -> None:
        """Run a case that opens its own sessions, and check that it leaves nothing."""

        async def body() -> None:
            await case()

        before = self.traces()
        asyncio.run(body())
        left = self.traces() - before
        assert not left, f"left behind: {sorted(left)}"


async def sh(
    session: EnvironmentSession, script: str, *, limit: int = OUTPUT_LIMIT_BYTES
) -> ExecResult:
    """Run a script that must succeed."""
    result = await session.exec(script, timeout_s=COMMAND_LIMIT_S, output_limit_bytes=limit)
    assert result.exit_code == 0, f"{script!r}: {result}"
    return result


@contextmanager
def refused(*codes: str) -> Iterator[None]:
    """The block must raise an EnvironmentFault with one of these codes."""
    found = "no EnvironmentFault"
    try:
        yield
    except EnvironmentFault as fault:
        found = fault.fault_code
    assert found in codes, f"expected an EnvironmentFault {' or '.join(codes)}, found {found}"
