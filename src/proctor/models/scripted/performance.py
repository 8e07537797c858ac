"""Acting out one reply over HTTP: answers whole or streamed, and everything that goes wrong."""

import asyncio
import itertools
from collections.abc import Iterable

from proctor.kernel import jsontext
from proctor.kernel.clock import Clock
from proctor.models.http.server import Responder
from proctor.models.scripted.answer import NoReference, answer
from proctor.models.scripted.dialect import Call, Dialect
from proctor.models.scripted.rules import FaultSpec, ReplySpec
from proctor.models.scripted.wire import error_body, retry_after_header

JSON = "application/json"
STREAM = "text/event-stream"
HTML = (
    "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>scripted</body></html>"
)


class Performance:
    """One reply to one call. `status` is what was sent, 0 when nothing was."""

    def __init__(
        self, dialect: Dialect, call: Call, reply: ReplySpec, responder: Responder, clock: Clock
    ) -> None:
        self._dialect = dialect
        self._call = call
        self._reply = reply
        self._responder = responder
        self._clock = clock
        self.status = 0

    async def play(self) -> None:
        """Wait as long as the reply says, then answer or fail."""
        if self._reply.delay_s:
            await self._clock.sleep(self._reply.delay_s)
        try:
            await self._act(self._reply.fault)
        except NoReference:
            self.error(400, "no_reference", "a served rule file knows no references")

    async def _act(self, fault: FaultSpec | None) -> None:
        if fault is None:
            await self._answer()
        elif fault.kind == "status":
            self._refuse(fault)
        elif fault.kind == "reset":
            self._responder.reset()
        elif fault.kind == "hang":
            await asyncio.Event().wait()
        elif fault.kind == "html":
            self._send(200, HTML.encode("ascii"), "text/html")
        elif fault.kind in ("malformed", "empty_choices", "no_content"):
            await self._empty(fault.kind)
        elif fault.kind == "cut":
            await self._cut()
        else:
            await self._endless()

    def error(self, status: int, code: str, message: str) -> None:
        """Answer with an error of the server's own."""
        self._refuse(FaultSpec(kind="status", status=status, code=code, message=message))

    async def _answer(self) -> None:
        made = answer(self._reply, self._call.ask)
        if not self._call.stream:
            self._send(200, self._json(self._dialect.whole(made, self._call)), JSON)
            return
        await self._stream(self._dialect.events(made, self._call, self._reply.chunk_chars))
        self._responder.end()

    def _refuse(self, fault: FaultSpec) -> None:
        wait = retry_after_header(fault, self._clock.now())
        headers = {} if wait is None else {"Retry-After": wait}
        self._send(fault.status or 500, error_body(fault), JSON, headers)

    async def _empty(self, kind: str) -> None:
        """Bodies that are no answers; a streamed one is as empty as a whole one."""
        message = {"role": "assistant", "content": None}
        choice = {"index": 0, "message": message, "delta": message, "finish_reason": "stop"}
        body = self._json({"choices": [choice] if kind == "no_content" else []})
        if kind == "malformed":
            body = body[: len(body) // 2]
        if not self._call.stream:
            self._send(200, body, JSON)
            return
        await self._stream([b"data: " + body + b"\n\n", b"data: [DONE]\n\n"])
        self._responder.end()

    async def _cut(self) -> None:
        """Half of the answer, then nothing more."""
        made = answer(self._reply, self._call.ask)
        if self._call.stream:
            pieces = list(self._dialect.events(made, self._call, self._reply.chunk_chars))
            await self._stream(pieces[: len(pieces) // 2])
        else:
            body = self._json(self._dialect.whole(made, self._call))
            self.status = 200
            self._responder.start(200, JSON, {"Content-Length": str(len(body))})
            await self._responder.write(body[: len(body) // 2])
        self._responder.cut()

    async def _endless(self) -> None:
        piece = self._dialect.endless(self._call)
        if self._call.stream:
            await self._stream(itertools.repeat(piece))
        self.status = 200
        self._responder.start(200, JSON)
        while True:
            await self._responder.write(b" " * 65536)

    async def _stream(self, pieces: Iterable[bytes]) -> None:
        self.status = 200
        self._responder.start(200, STREAM)
        for number, piece in enumerate(pieces):
            if number and self._reply.chunk_delay_s:
                await self._clock.sleep(self._reply.chunk_delay_s)
            elif number % 64 == 63:
                await asyncio.sleep(0)  # an endless stream must not stop the server
            await self._responder.write(piece)

    def _send(
        self, status: int, body: bytes, content_type: str, headers: dict[str, str] | None = None
    ) -> None:
        self.status = status
        self._responder.send(status, body, content_type, headers)

    @staticmethod
    def _json(value: object) -> bytes:
        return jsontext.dumps(value).encode("utf-8")
