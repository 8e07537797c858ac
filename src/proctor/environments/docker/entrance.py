"""Where commands come into a container: none while everything in it is being ended."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class Entrance:
    """A door for commands, and those that are on their way through it.

    The engine starts a command some time after it was asked to, so whoever ends all processes
    waits for those on their way, or would miss them.
    """

    def __init__(self) -> None:
        self._entering: set[asyncio.Event] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._shut = 0

    async def enter(self) -> Callable[[], None]:
        """Wait until the door is open. The answer is to be called, once at least, when the
        command has started or never will."""
        while not self._open.is_set():
            await self._open.wait()
        entered = asyncio.Event()
        self._entering.add(entered)

        def done() -> None:
            self._entering.discard(entered)
            entered.set()

        return done

    @asynccontextmanager
    async def shut(self, limit_s: float) -> AsyncIterator[bool]:
        """Keep the door shut; whether everybody on the way came in within `limit_s`."""
        self._shut += 1
        self._open.clear()
        try:
            yield await self._settled(limit_s)
        finally:
            self._shut -= 1
            if not self._shut:
                self._open.set()

    async def _settled(self, limit_s: float) -> bool:
        try:
            async with asyncio.timeout(limit_s):
                for entered in tuple(self._entering):
                    await entered.wait()
        except TimeoutError:
            return False
        return True
