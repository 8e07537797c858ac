"""Putting the files that a specification names into a new session."""

from collections.abc import Sequence
from pathlib import Path

from proctor.environments.contract import EnvironmentSession
from proctor.kernel.errors import EnvironmentFault


async def place_copies(session: EnvironmentSession, copies: Sequence[tuple[str, str]]) -> None:
    """Upload each (source on this machine, path inside). Raises EnvironmentFault `missing_copy`."""
    for source, inside in copies:
        try:
            await session.upload(Path(source), inside)
        except FileNotFoundError:
            raise EnvironmentFault(
                f"{source}, to be copied to {inside}, does not exist",
                code="missing_copy",
                permanent=True,
            ) from None
