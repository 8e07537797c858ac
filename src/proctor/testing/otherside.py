"""The other side of tools, as a process of its own that counts what really happened.

    python -m proctor.testing.otherside SOCKET

serves a Unix socket until its standard input ends. Each line is a JSON request, each answer a JSON
line. It is what outlives a killed agent, so only its count is believed.

| request | answer |
|---|---|
| `{"do": KEY, "once": bool}` | `{"effects": n}`: one more effect; with `once` only for a new key |
| `{"do": KEY, "answer": "lose"}` | the effect happens, and the connection is closed instead |
| `{"do": KEY, "answer": "refuse"}` | `{"refused": true}`, no effect |
| `{"query": KEY}` | `{"effects": n}` |
| `{"log": true}` | `{"keys": […]}`: every effect's key, in order |
"""

import asyncio
import socket as connections
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from proctor.kernel import jsontext

LONGEST_LINE = 2**28
"""Bytes of a request or an answer: its log of all effects can be long."""


class OtherSide:
    """The state of one other side."""

    def __init__(self) -> None:
        self._effects: Counter[str] = Counter()
        self._log: list[str] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to one request; None closes the connection."""
        if "log" in request:
            return {"keys": self._log}
        if "query" in request:
            return {"effects": self._effects[request["query"]]}
        key = request["do"]
        if request.get("answer") == "refuse":
            return {"refused": True}
        if not (request.get("once") and self._effects[key]):
            self._effects[key] += 1
            self._log.append(key)
        return None if request.get("answer") == "lose" else {"effects": self._effects[key]}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while line := await reader.readline():
                answer = self.answer(jsontext.loads(line))
                if answer is None:
                    break
                writer.write(jsontext.dumps(answer).encode() + b"\n")
                await writer.drain()
        except ConnectionError:  # the agent was killed in the middle of a request
            return
        finally:
            writer.close()


async def ask(socket: str, request: dict[str, Any]) -> dict[str, Any]:
    """One request over a connection of its own. Raises ConnectionError when there is no answer."""
    reader, writer = await asyncio.open_unix_connection(socket, limit=LONGEST_LINE)
    try:
        writer.write(jsontext.dumps(request).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise ConnectionResetError("the other side closed the connection")
    answer: dict[str, Any] = jsontext.loads(line)
    return answer


def ask_now(socket: str, request: dict[str, Any]) -> dict[str, Any]:
    """The same without a loop, for code that may not wait: it is on this machine and answers."""
    with connections.socket(connections.AF_UNIX) as connection:
        connection.connect(socket)
        connection.sendall(jsontext.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as answers:
            line = answers.readline()
    if not line:
        raise ConnectionResetError("the other side closed the connection")
    answer: dict[str, Any] = jsontext.loads(line)
    return answer


async def _main(socket: str) -> None:
    server = await asyncio.start_unix_server(OtherSide().serve, socket, limit=LONGEST_LINE)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextmanager
def other_side(socket: str) -> Iterator[None]:
    """Have an other side at `socket` for the time of the block."""
    argv = [sys.executable, "-m", "proctor.testing.otherside", socket]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError("the other side did not start")
            yield
        finally:
            process.stdin.close()
            process.wait(10)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
