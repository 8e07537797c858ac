"""The scripted model as an HTTP server, for tests, benches and trying out harnesses.

In process: `async with ScriptedServer("rules.yaml") as server: …`. On its own:
`python -m proctor.models.scripted.server rules.yaml --port 8000`. It speaks chat completions at
`/v1/chat/completions` and shows its counts at `/_proctor/stats`.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from proctor.kernel import jsontext
from proctor.kernel.clock import Clock, SystemClock
from proctor.kernel.errors import ProctorError
from proctor.models.http.server import HttpServer, Responder
from proctor.models.http.serving import Incoming
from proctor.models.scripted.chat import ChatCompletions
from proctor.models.scripted.dialect import BadRequest, Dialect
from proctor.models.scripted.performance import JSON, Performance
from proctor.models.scripted.rules import ReplySpec, RuleFile, load
from proctor.models.scripted.script import Script

STATS_PATH = "/_proctor/stats"


class ScriptedServer:
    """Serves a rule file. `requests` counts what arrived at a protocol's path."""

    def __init__(
        self,
        rules: RuleFile | Path | str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self._script = Script(rules if isinstance(rules, RuleFile) else load(Path(rules))[0])
        self._clock: Clock = clock or SystemClock()
        self._dialects: dict[str, Dialect] = {d.path: d for d in (ChatCompletions(),)}
        self._host = host
        self._http = HttpServer(self._handle, host, port)
        self._statuses: Counter[int] = Counter()
        self._arrivals: list[tuple[int, asyncio.Future[None]]] = []
        self.requests = 0
        self.waiting = 0
        self.most_waiting = 0

    async def __aenter__(self) -> "ScriptedServer":
        await self._http.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._http.close()

    @property
    def base_url(self) -> str:
        """What a client is given as its base URL."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._http.port}/v1"

    def stats(self) -> dict[str, Any]:
        """Counts since the start. Status 0: no status was sent (reset, hang, client gone)."""
        return {
            "requests": self.requests,
            "statuses": {str(status): n for status, n in sorted(self._statuses.items())},
            "rules": dict(self._script.uses_by_rule),
            "waiting": self.waiting,
            "most_waiting": self.most_waiting,
            "connections_open": self._http.open_connections,
            "connections_opened": self._http.opened,
        }

    async def arrived(self, requests: int) -> None:
        """Wait until `requests` requests have arrived since the start."""
        if self.requests < requests:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._arrivals.append((requests, future))
            await future

    async def _handle(self, incoming: Incoming, responder: Responder) -> None:
        dialect = self._dialects.get(incoming.path)
        if dialect is None or incoming.method != "POST":
            self._other(incoming, responder)
            return
        self._count_arrival()
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        status = 0
        try:
            performance = self._performance(dialect, incoming, responder)
            try:
                await performance.play()
            finally:
                status = performance.status
        except BadRequest as error:
            status = 400
            self._error(responder, 400, str(error))
        finally:
            self.waiting -= 1
            self._statuses[status] += 1

    def _performance(
        self, dialect: Dialect, incoming: Incoming, responder: Responder
    ) -> Performance:
        call = dialect.read(incoming)
        chosen = self._script.choose(call.ask)
        if chosen is None:
            raise BadRequest(f"no rule holds for turn {call.ask.turn} of this conversation")
        reply: ReplySpec = chosen.reply
        return Performance(dialect, call, reply, responder, self._clock)

    def _other(self, incoming: Incoming, responder: Responder) -> None:
        if incoming.path == STATS_PATH and incoming.method == "GET":
            responder.send(200, jsontext.dumps(self.stats()).encode("utf-8"), JSON)
        else:
            self._error(responder, 404, f"no {incoming.method} {incoming.path} here")

    def _error(self, responder: Responder, status: int, message: str) -> None:
        error = {"message": message, "type": "invalid_request_error", "code": None}
        responder.send(status, jsontext.dumps({"error": error}).encode("utf-8"), JSON)

    def _count_arrival(self) -> None:
        self.requests += 1
        for wanted, future in self._arrivals:
            if self.requests >= wanted and not future.done():
                future.set_result(None)
        if self._arrivals:
            self._arrivals = [(n, f) for n, f in self._arrivals if not f.done()]


async def _serve(file: Path, host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with ScriptedServer(file, host=host, port=port) as server:
        sys.stdout.write(server.base_url + "\n")
        sys.stdout.flush()
        await stop.wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; the first line of stdout is the base URL."""
    parser = argparse.ArgumentParser(
        prog="python -m proctor.models.scripted.server",
        description="Serve a rule file of the scripted model as an OpenAI-compatible endpoint.",
    )
    parser.add_argument("file", type=Path, help="the rule file, see docs/models.md")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0 (default): any free port")
    args = parser.parse_args(argv)
    try:
        asyncio.run(_serve(args.file, args.host, args.port))
    except (ProctorError, OSError, OverflowError) as error:
        hint = getattr(error, "hint", None)
        sys.stderr.write(f"{error}\n" + (f"{hint}\n" if hint else ""))
        return 2
    return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
