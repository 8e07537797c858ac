"""Calls to the engine's API, and what their failures mean."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from proctor.environments.docker.endpoint import Endpoint
from proctor.environments.docker.http import Body, Broken, Connection
from proctor.kernel import jsontext
from proctor.kernel.errors import EnvironmentFault

CALL_S = 60.0
"""The longest that an ordinary call may take."""

_PREFIX = "/v1.40"  # docker 19.03 and later; podman 3 and later
_ANSWER_BYTES = 20_000_000
_IDLE = 8


class EngineError(Exception):
    """The engine's answer to a call was an error: its HTTP status, message and headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str]) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


class Engine:
    """A client of one engine, for one event loop. Keeps a few connections open; `close` it.

    Calls raise EngineError for an answer that is an error, and EnvironmentFault
    `engine_unreachable` when there is none.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._idle: list[Connection] = []

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        json: Any = None,
        *,
        timeout_s: float = CALL_S,
    ) -> Any:
        """One call with a JSON answer."""
        return jsontext.loads(await self.done(method, path, query, json, timeout_s=timeout_s))

    async def done(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        json: Any = None,
        *,
        timeout_s: float = CALL_S,
    ) -> bytes:
        """One call whose answer says nothing more than that it was done."""
        body = b"" if json is None else jsontext.dumps(json).encode()
        async with (
            within(timeout_s, f"{method} {path}"),
            self.answer(method, path, query, body) as answer,
        ):
            return await collected(answer)

    @asynccontextmanager
    async def answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Body = b"",
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Connection]:
        """A call whose answer is streamed; raises EngineError unless it is a success."""
        kind = {"Content-Type": "application/json"} if body else {}
        connection = await self._sent(
            method, _target(path, query), {**kind, **(headers or {})}, body
        )
        keep = False
        try:
            if connection.status >= 400:
                raise await _error(connection)
            yield connection
            keep = True
        except Broken as error:
            raise self._unreachable(error) from error
        finally:
            if keep and len(self._idle) < _IDLE and connection.reusable():
                self._idle.append(connection)
            else:
                connection.close()

    async def upgrade(self, path: str, json: Any) -> Connection:
        """A call whose connection becomes a raw stream, in both directions."""
        headers = {
            "Content-Type": "application/json", "Connection": "Upgrade", "Upgrade": "tcp",
        }  # fmt: skip
        body = jsontext.dumps(json).encode()
        try:
            connection = await Connection.open(self.endpoint)
        except Broken as error:
            raise self._unreachable(error) from error
        try:
            async with within(CALL_S, f"POST {path}"):
                await connection.request("POST", _target(path, None), headers, body)
                if connection.status >= 300:
                    raise await _error(connection)
        except Broken as error:
            connection.close()
            raise self._unreachable(error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Drop the idle connections."""
        while self._idle:
            self._idle.pop().close()

    async def _sent(
        self, method: str, target: str, headers: Mapping[str, str], body: Body
    ) -> Connection:
        """A connection on which the request was answered. An idle one may have been closed by the
        engine in the meantime: then a new one is used. Asking twice is harmless: what calls make
        has a name that is given once, or (an exec) does nothing until it is started."""
        while self._idle and isinstance(body, bytes):
            connection = self._idle.pop()
            if connection.reader.at_eof():
                connection.close()
                continue
            try:
                await connection.request(method, target, headers, body)
            except Broken:
                connection.close()
                break
            except BaseException:
                connection.close()
                raise
            return connection
        try:
            connection = await Connection.open(self.endpoint)
        except Broken as error:
            raise self._unreachable(error) from error
        try:
            await connection.request(method, target, headers, body)
        except Broken as error:
            connection.close()
            raise self._unreachable(error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _unreachable(self, error: BaseException) -> EnvironmentFault:
        return EnvironmentFault(
            f"the engine at {self.endpoint} does not answer: {error}",
            code="engine_unreachable",
            hint="is it running? DOCKER_HOST names its socket",
        )


@asynccontextmanager
async def within(limit_s: float, what: str) -> AsyncIterator[None]:
    """A bound on waiting for the engine. Raises EnvironmentFault `no_answer`."""
    try:
        async with asyncio.timeout(limit_s):
            yield
    except TimeoutError:
        message = f"the engine took longer than {limit_s:g} s for this: {what}"
        raise EnvironmentFault(message, code="no_answer") from None


async def collected(answer: Connection, limit_bytes: int = _ANSWER_BYTES) -> bytes:
    """The whole body of an answer."""
    data = bytearray()
    async for chunk in answer.chunks():
        data += chunk
        if len(data) > limit_bytes:
            raise EnvironmentFault(f"the engine's answer is longer than {limit_bytes} bytes")
    return bytes(data)


def _target(path: str, query: Mapping[str, str] | None) -> str:
    return f"{_PREFIX}{path}" + (f"?{urlencode(query)}" if query else "")


async def _error(answer: Connection) -> EngineError:
    text = (await collected(answer)).decode("utf-8", "replace").strip()
    try:
        data = jsontext.loads(text)
    except ValueError:
        data = None
    if isinstance(data, dict) and isinstance(data.get("message"), str):
        text = str(data["message"])
    return EngineError(answer.status, text or f"status {answer.status}", answer.headers)
