"""Searching with regular expressions in processes that can be killed.

A regular expression on a hostile text can run for years while it holds the interpreter lock, so
searches run in worker processes: started on first use, kept for the next search, each with its
own process group, memory limit and time limit per search. One that overruns its time is killed.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections import deque
from pathlib import Path

from proctor.kernel import jsontext
from proctor.kernel.errors import EvaluatorFault

MEMORY_LIMIT_BYTES = 1024**3
MAX_WORKERS = 4
_PROGRAM = Path(__file__).with_name("regex_search.py")


class SearchTimeout(Exception):
    """The search took longer than its time limit and was killed."""


class SearchFailed(Exception):
    """The search ended without a result; the reason is the message."""


class _Worker:
    """One process and our end of its socket. Killed when it is collected or at exit."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_PROGRAM), str(MEMORY_LIMIT_BYTES)],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    env={"LANG": "C.UTF-8"},
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise EvaluatorFault(f"cannot start the regex worker: {error}") from error
        ours.setblocking(False)
        self.socket = ours
        self.close = weakref.finalize(self, _end, self.process, ours)

    async def ask(self, request: bytes) -> bytes:
        """Send one line and wait for one line; empty when the process is gone."""
        loop = asyncio.get_running_loop()
        reply = b""
        try:
            await loop.sock_sendall(self.socket, request)
            while not reply.endswith(b"\n"):
                part = await loop.sock_recv(self.socket, 65_536)
                if not part:
                    return b""
                reply += part
        except ConnectionError:
            return b""
        return reply


def _end(process: "subprocess.Popen[bytes]", ours: socket.socket) -> None:
    ours.close()
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class RegexSearch:
    """`await search(pattern, text)` over at most `MAX_WORKERS` processes.

    Waiting for a free worker does not count against the time limit of a search.
    """

    def __init__(self, time_limit_s: float, max_workers: int | None = None) -> None:
        self.time_limit_s = time_limit_s
        self._max = max_workers or max(1, min(MAX_WORKERS, os.cpu_count() or 1))
        self._idle: list[_Worker] = []
        self._busy = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def search(self, pattern: str, text: str, ignore_case: bool) -> bool:
        """Whether `pattern` is found. Raises SearchTimeout, SearchFailed or EvaluatorFault."""
        request = [pattern, ignore_case, text, self.time_limit_s]
        line = (jsontext.dumps(request) + "\n").encode("utf-8")
        await self._take_turn()
        worker: _Worker | None = None
        usable = False
        try:
            worker = self._idle.pop() if self._idle else _Worker()
            async with asyncio.timeout(self.time_limit_s):
                reply = await worker.ask(line)
            usable = bool(reply)
        except TimeoutError:
            raise SearchTimeout(f"took longer than {self.time_limit_s:g} s") from None
        finally:
            if worker is not None and usable:
                self._idle.append(worker)
            elif worker is not None:
                worker.close()
            self._pass_turn()
        return _result(reply)

    async def close(self) -> None:
        """End all idle workers. Idempotent; a later search starts new ones."""
        while self._idle:
            self._idle.pop().close()

    async def _take_turn(self) -> None:
        if self._busy < self._max:
            self._busy += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_turn()  # the turn came and cannot be used: the next one gets it
            raise

    def _pass_turn(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done() and not turn.get_loop().is_closed():
                turn.set_result(None)
                return
        self._busy -= 1


def _result(reply: bytes) -> bool:
    if not reply:
        raise SearchFailed("the worker ended without a result (memory limit?)")
    value = jsontext.loads(reply)
    if isinstance(value, bool):
        return value
    raise SearchFailed(str(value))
