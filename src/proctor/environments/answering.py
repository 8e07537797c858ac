"""A place that has fallen silent must not be waited for for ever."""

import asyncio
import functools
import math
from collections.abc import Awaitable, Callable
from typing import Any

from proctor.kernel.errors import EnvironmentFault

ANSWER_MARGIN_S = 10.0
"""How much later than its time limit a command's answer may come before we stop waiting for it."""


def answered(run: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """A session's `exec`, which keeps its command's time itself, with an end of our own behind it:
    an EnvironmentFault `no_answer`. A command without a limit has none of ours either."""

    @functools.wraps(run)
    async def exec(*arguments: Any, **options: Any) -> Any:
        limit_s = options.get("timeout_s")
        if limit_s is None or not 0 < limit_s < math.inf:
            return await run(*arguments, **options)
        silence = asyncio.timeout(limit_s + ANSWER_MARGIN_S)
        try:
            async with silence:
                return await run(*arguments, **options)
        except TimeoutError:
            if not silence.expired():
                raise
            raise EnvironmentFault(
                f"a command with a limit of {limit_s:g} s got no answer", code="no_answer"
            ) from None

    return exec
