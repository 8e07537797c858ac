"""An environment that counts its sandboxes, opening and closing ones included."""

import asyncio
import itertools
import threading
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from proctor.environments.contract import EnvironmentSession, EnvironmentSpec
from proctor.environments.local import LocalEnvironment, LocalSession
from proctor.kernel.errors import EnvironmentFault

_numbers = itertools.count(1)


class Counter:
    """How many there are, and how many there were at most. Shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = 0
        self.peak = 0
        self.opened: list[float] = []
        self.rejected = 0

    def begin(self, most_in_1_s: int | None) -> None:
        with self._lock:
            moment = time.monotonic()
            recent = [t for t in self.opened if moment - t < 1.0]
            if most_in_1_s is not None and len(recent) >= most_in_1_s:
                self.rejected += 1
                raise EnvironmentFault("too many requests", code="rate_limited")
            self.opened.append(moment)
            self.now += 1
            self.peak = max(self.peak, self.now)

    def end(self) -> None:
        with self._lock:
            self.now -= 1


class CountingEnvironment(LocalEnvironment):
    """`local` under an id of its own. `most_in_1_s`: more opens in any second are rejected."""

    counter: ClassVar[Counter]
    most_in_1_s: ClassVar[int | None] = None

    async def open_session(
        self, spec: EnvironmentSpec, labels: Mapping[str, str]
    ) -> EnvironmentSession:
        self.counter.begin(self.most_in_1_s)
        await asyncio.sleep(0)
        session = CountedSession(spec, labels, self._settings)
        session.counter = self.counter
        return session


class CountedSession(LocalSession):
    counter: Counter
    closed = False

    async def close(self) -> None:
        await super().close()
        await asyncio.sleep(0)
        if not self.closed:
            self.closed = True
            self.counter.end()


def counting(**fields: Any) -> type[CountingEnvironment]:
    """A provider of its own, with its own limits and its own counter."""
    name = f"counting-{next(_numbers)}"
    return type("Counting", (CountingEnvironment,), {"id": name, "counter": Counter(), **fields})
