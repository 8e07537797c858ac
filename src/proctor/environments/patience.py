"""Waiting, within a bound, for what nobody announces."""

import asyncio

_FIRST_S = 0.001


class Patience:
    """The pauses between looks at something: 1 ms at first, each twice as long as the one before
    up to `longest_s`, and for `limit_s` in all. Needs a running event loop."""

    def __init__(self, limit_s: float, longest_s: float = 0.05) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + limit_s
        self._longest_s = longest_s
        self._pause_s = _FIRST_S

    def over(self) -> bool:
        """Whether the time has passed."""
        return self._loop.time() > self._deadline

    async def pause(self) -> None:
        """Until the next look."""
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, self._longest_s)
