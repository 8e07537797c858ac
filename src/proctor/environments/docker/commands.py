"""Commands of one container: started, followed, and ended one by one or all at once."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from proctor.environments.contract import ExecResult
from proctor.environments.docker.container import Container
from proctor.environments.docker.engine import EngineError
from proctor.environments.docker.freezing import says_frozen
from proctor.environments.docker.networks import Networks
from proctor.environments.docker.running import Running
from proctor.environments.docker.wrapper import Wrapper
from proctor.kernel.errors import EnvironmentFault

_START_WAIT_S = 5.0
_KILL_CALL_S = 10.0
_KILL_WAIT_S = 2.0
_STARTS = 3
"""A freeze that the engine hears of between two calls refuses a start; hardly ever a second one."""


class Commands:
    """Runs commands in a container, and sees each of them to its end."""

    def __init__(
        self, container: Container, networks: Networks, check_open: Callable[[], None]
    ) -> None:
        self._container = container
        self._networks = networks
        self._check_open = check_open
        self._ending: set[asyncio.Future[Any]] = set()

    async def run(
        self,
        body: Any,
        wrapper: Wrapper,
        stdin: bytes | None,
        limit_s: float | None,
        output_limit_bytes: int,
    ) -> ExecResult:
        """Run what `body`, a request of the engine's, describes; it starts `wrapper`'s shell."""
        began = time.monotonic()
        for left in reversed(range(_STARTS)):
            entered = await self._container.entrance.enter()
            kills = self._container.kills
            starting = asyncio.ensure_future(
                self._start(body, wrapper, output_limit_bytes, entered)
            )
            try:
                running = await asyncio.shield(starting)
            except asyncio.CancelledError:  # the engine starts it all the same
                await self._shielded(self._end_starting(starting))
                raise
            timed_out = await self._followed(running, stdin, limit_s)
            if timed_out or running.pid is not None or not left or not says_frozen(running.text()):
                break
        code = None if timed_out else await self._exit_code(running, kills)
        return running.result(code, timed_out=timed_out, duration_s=time.monotonic() - began)

    async def end_all(self) -> None:
        """End everything from outside, or restart the container: no tool inside is needed."""
        await self._shielded(self._clear())

    async def ended(self) -> None:
        """Wait, within a bound, for what is being ended."""
        if self._ending:
            await asyncio.wait(set(self._ending), timeout=_KILL_CALL_S)

    async def _start(
        self, body: Any, wrapper: Wrapper, output_limit_bytes: int, entered: Callable[[], None]
    ) -> Running:
        try:
            exec_id, connection = await self._container.begin(body)
        except BaseException as error:
            entered()
            if isinstance(error, EngineError):
                raise self._not_started(error) from error
            raise
        return Running(exec_id, connection, wrapper, output_limit_bytes, entered)

    async def _followed(self, running: Running, stdin: bytes | None, limit_s: float | None) -> bool:
        """Follow a command to its end; whether it had to be ended at its limit."""
        following = asyncio.ensure_future(running.follow(stdin))
        try:
            await asyncio.wait((following,), timeout=limit_s)
        except asyncio.CancelledError:
            await self._shielded(self._end(running, following))
            raise
        timed_out = not following.done()
        if timed_out:
            await self._shielded(self._end(running, following))
        if not following.cancelled():
            following.result()
        return timed_out

    def _not_started(self, error: EngineError) -> EnvironmentFault:
        found = self._container.fault(error, "start a command")
        if found.fault_code == "environment_gone":
            return found
        return EnvironmentFault(f"no command starts: {error.message}", code="cannot_start")

    async def _exit_code(self, running: Running, kills: int) -> int:
        """The exit code; a fault when the stream ended because the container did."""
        ended = running.ended
        if ended is not None:
            return ended.exit_code
        if self._container.kills > kills:
            return 137  # by `kill_processes`
        self._check_open()
        await self._container.confirm_running()  # or it killed its own group
        try:
            facts = await self._container.engine.call("GET", f"/exec/{running.exec_id}/json")
        except EngineError as error:
            raise self._container.fault(error, "ask how a command ended") from error
        if running.pid is None:
            raise EnvironmentFault(f"no command starts: {running.text()}", code="cannot_start")
        code = facts.get("ExitCode")
        return code if isinstance(code, int) and not facts.get("Running") else 137

    # --- ending

    async def _end_starting(self, starting: "asyncio.Future[Running]") -> None:
        await asyncio.wait((starting,))
        if starting.exception() is None:
            running = starting.result()
            await self._end(running, asyncio.ensure_future(running.follow(None)))

    async def _end(self, running: Running, following: "asyncio.Future[None]") -> None:
        """Kill a command's whole group inside; where even that fails, everything."""
        try:
            async with asyncio.timeout(_START_WAIT_S):
                await running.started.wait()
        except TimeoutError:
            pass
        try:
            if running.pid is None or not await self._killed(running, following):
                await self._restart()
                await asyncio.wait((following,), timeout=_KILL_WAIT_S)
        except EnvironmentFault as fault:
            if fault.fault_code != "environment_gone":
                raise
        finally:
            if not following.done():
                following.cancel()
                await asyncio.wait((following,))

    async def _killed(self, running: Running, following: "asyncio.Future[None]") -> bool:
        kill = ["/bin/sh", "-c", f"kill -9 -{running.pid}"]
        await self._container.plain(kill, limit_s=_KILL_CALL_S)
        await asyncio.wait((following,), timeout=_KILL_WAIT_S)
        if following.done():
            return True
        # Something that left the group may hold the pipes open: what counts is the command.
        try:
            facts = await self._container.engine.call("GET", f"/exec/{running.exec_id}/json")
        except EngineError as error:
            raise self._container.fault(error, "ask whether a command ended") from error
        return not facts.get("Running")

    async def _shielded(self, work: Coroutine[Any, Any, None]) -> None:
        """Do `work` to its end, however often we are cancelled; `close` waits for it too."""
        task = asyncio.ensure_future(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        await asyncio.shield(task)

    async def _clear(self) -> None:
        if not await self._container.sweep():
            await self._restart()

    async def _restart(self) -> None:
        if await self._container.restart():
            await self._networks.started()
