"""The event loop under load: how late it is, and which callback holds it longest."""

import asyncio
import gc
import time
from typing import Any

SAMPLE_S = 0.002


class LagSampler:
    """How much later than asked a short sleep ends, each sample weighted by the time it stands
    for: at a random moment of the run, what a ready callback would have to wait. Beside it, how
    much CPU the loop's thread used meanwhile: the rest of the lag is other threads and other
    processes that had the processor."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, float, float]] = []

    async def run(self) -> None:
        """Sample until cancelled."""
        before, cpu_before = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(SAMPLE_S)
            now, cpu_now = time.perf_counter(), time.thread_time()
            took, cpu = now - before, cpu_now - cpu_before
            before, cpu_before = now, cpu_now
            lag = max(0.0, took - SAMPLE_S)
            self._samples.append((lag, min(lag, cpu), took))

    def to_json(self) -> dict[str, float]:
        """Percentiles of the time, in milliseconds; `own` is the loop's own CPU."""
        lags = sorted((lag, weight) for lag, _, weight in self._samples)
        own = sorted((cpu, weight) for _, cpu, weight in self._samples)
        shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
        found = {name: _at(lags, share) * 1000 for name, share in shares.items()}
        return {**found, "own p99.9": _at(own, 0.999) * 1000}


def _at(ordered: list[tuple[float, float]], share: float) -> float:
    """The value that is not exceeded during `share` of the time."""
    target = share * sum(weight for _, weight in ordered)
    passed = 0.0
    for value, weight in ordered:
        passed += weight
        if passed >= target:
            return value
    return ordered[-1][0] if ordered else 0.0


class CallbackProbe:
    """The CPU time that each callback takes of the loop's thread. CPU, not wall time: on a shared
    machine wall time says how busy the neighbours are."""

    def __init__(self, slow_s: float = 0.020) -> None:
        self.slow_s = slow_s
        self.longest_s = 0.0
        self.longest = ""
        self.slow = 0
        self.callbacks = 0

    def install(self) -> None:
        """Watch every callback of every loop of this process from now on."""
        original = asyncio.Handle._run

        def watched(handle: asyncio.Handle) -> None:
            before = time.thread_time()
            original(handle)
            self._note(handle, time.thread_time() - before)

        asyncio.Handle._run = watched  # type: ignore[method-assign, assignment]

    def _note(self, handle: asyncio.Handle, took_s: float) -> None:
        self.callbacks += 1
        if took_s > self.slow_s:
            self.slow += 1
        if took_s > self.longest_s:
            self.longest_s, self.longest = took_s, _name(handle)

    def to_json(self) -> dict[str, Any]:
        return {
            "longest_ms": self.longest_s * 1000,
            "longest": self.longest,
            "slow": self.slow,
            "callbacks": self.callbacks,
        }


class CollectorProbe:
    """The CPU time of garbage collections, which happen inside whatever callback runs."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.total_s = 0.0
        self._began = 0.0

    def install(self) -> None:
        """Watch every collection of this process from now on."""
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
            return
        took_s = time.thread_time() - self._began
        self.total_s += took_s
        self.longest_s = max(self.longest_s, took_s)

    def to_json(self) -> dict[str, float]:
        return {"longest_ms": self.longest_s * 1000, "total_ms": self.total_s * 1000}


def _name(handle: asyncio.Handle) -> str:
    """The coroutine that a callback steps, else the callback."""
    callback = handle._callback  # type: ignore[attr-defined]
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        coroutine = task.get_coro()
        return getattr(coroutine, "__qualname__", repr(coroutine))
    return getattr(callback, "__qualname__", repr(callback))
