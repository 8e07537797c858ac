"""The process that runs a candidate, and the checker's handle on it.

The process is forked before the checker has read the task, so neither its memory nor its
descriptors ever hold the tests or the nonce. Checker and candidate exchange frames over two pipes:
a length of four bytes, then JSON. The candidate can put anything into its frames; all that they
mean to the checker is what a call has returned.
"""

from __future__ import annotations

import builtins
import json
import os
import signal
import struct
import sys
import types
from typing import Any

from proctor.benchmarks.humaneval.grader.confine import confine
from proctor.benchmarks.humaneval.grader.plain_data import NotPlain, decode, encode

MAX_FRAME_BYTES = 8 * 1024 * 1024
SHOWN_CHARS = 300


class CandidateGone(BaseException):
    """The candidate's process cannot answer any more.

    A BaseException, so that a test which expects an Exception of the candidate does not take it
    for one.
    """


class FrameTooLarge(ValueError):
    """A frame over the limit."""


def run_module(source: str, name: str, namespace: dict[str, Any]) -> None:
    """Run module code in `namespace`."""
    namespace.setdefault("__builtins__", builtins)  # Python before 3.10 takes none otherwise
    exec(compile(source, name, "exec"), namespace)  # noqa: S102 - what this program is for


def send_frame(fd: int, content: Any) -> None:
    """Write one frame."""
    data = json.dumps(content).encode("utf-8")
    if len(data) > MAX_FRAME_BYTES:
        raise FrameTooLarge(f"more than {MAX_FRAME_BYTES} bytes")
    data = struct.pack(">I", len(data)) + data
    while data:
        data = data[os.write(fd, data) :]


def read_frame(fd: int) -> Any:
    """Read one frame. Raises EOFError, FrameTooLarge, or ValueError for what is not JSON."""
    (length,) = struct.unpack(">I", _read_exactly(fd, 4))
    if length > MAX_FRAME_BYTES:
        raise FrameTooLarge(f"more than {MAX_FRAME_BYTES} bytes")
    return json.loads(_read_exactly(fd, length))


def _read_exactly(fd: int, length: int) -> bytes:
    parts = []
    while length:
        part = os.read(fd, min(length, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


class Candidate:
    """The checker's side. Made before anything secret is read."""

    def __init__(self) -> None:
        read_calls, self._calls = os.pipe()
        self._replies, write_replies = os.pipe()
        self.layers: list[str] = []
        self.gone: str | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._calls)
            os.close(self._replies)
            _serve(read_calls, write_replies)
        os.close(read_calls)
        os.close(write_replies)

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Hand over the program; returns `{"ready": true}` or `{"raised": [type, text]}`."""
        wanted = ("prompt", "answer", "whole", "entry_point", "memory_bytes", "cpu_s")
        self._send({name: request[name] for name in wanted})
        self.layers = [str(layer) for layer in self._reply()["confined"]]
        return self._reply()

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the candidate's function with plain values; what it returns is plain too."""
        if self.gone is not None:
            raise CandidateGone(self.gone)
        self._send({"args": encode(args), "kwargs": encode(kwargs)})
        reply = self._reply()
        if "returned" in reply:
            try:
                return decode(reply["returned"])
            except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
                return self._give_up(f"returned what cannot be read: {error}")
        name, text = reply["raised"]
        raise exception_of(str(name), str(text))

    def end(self) -> tuple[int, float]:
        """Kill the process; (wait status, CPU seconds it has used)."""
        os.kill(self.pid, signal.SIGKILL)
        _, status, usage = os.wait4(self.pid, 0)
        return status, usage.ru_utime + usage.ru_stime

    def _send(self, content: Any) -> None:
        try:
            send_frame(self._calls, content)
        except OSError:
            self._give_up("its process ended")

    def _reply(self) -> dict[str, Any]:
        try:
            reply = read_frame(self._replies)
        except EOFError:
            self._give_up("its process ended")
        except (ValueError, RecursionError) as error:
            self._give_up(f"its process sent what cannot be read: {error}")
        if not isinstance(reply, dict) or not _well_formed(reply):
            self._give_up("its process sent what cannot be read")
        return dict(reply)

    def _give_up(self, reason: str) -> Any:
        self.gone = reason
        raise CandidateGone(reason)


def _well_formed(reply: dict[str, Any]) -> bool:
    raised = reply.get("raised", ["", ""])
    confined = reply.get("confined", [])
    known = len(reply.keys() & {"ready", "returned", "raised", "confined"}) == 1
    return known and isinstance(raised, list) and len(raised) == 2 and isinstance(confined, list)


def exception_of(name: str, text: str) -> Exception:
    """The built-in exception of that name, else a RuntimeError; marked as the candidate's."""
    kind = getattr(builtins, name, None)
    error: Exception = RuntimeError(f"{name}: {text}")
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            error = kind(text)
        except TypeError:  # such as UnicodeDecodeError, which wants five arguments
            pass
    error.from_candidate = f"{name}: {text}"[:SHOWN_CHARS]  # type: ignore[attr-defined]
    return error


def _serve(calls: int, replies: int) -> None:
    """The candidate's process: never returns."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    try:
        request = read_frame(calls)
        layers = confine(request["memory_bytes"], request["cpu_s"])
        send_frame(replies, {"confined": layers})
        _serve_calls(calls, replies, request)
    finally:
        os._exit(0)


def _serve_calls(calls: int, replies: int, request: dict[str, Any]) -> None:
    try:
        function = _loaded(request)
    except BaseException as error:  # noqa: BLE001 - the answer may raise anything
        send_frame(replies, {"raised": _described(error)})
        return
    send_frame(replies, {"ready": True})
    while True:
        call = read_frame(calls)
        try:
            result = function(*decode(call["args"]), **decode(call["kwargs"]))
            reply = {"returned": encode(result)}
        except BaseException as error:  # noqa: BLE001 - so may the function
            reply = {"raised": _described(error)}
        try:
            send_frame(replies, reply)
        except FrameTooLarge as error:
            send_frame(replies, {"raised": ["ValueError", f"the result is too large: {error}"]})


def _loaded(request: dict[str, Any]) -> Any:
    """The function: from the prompt continued by the answer, or from a whole answer.

    Before a whole answer, the prompt runs by itself: its imports and helper functions are there,
    as they are for a completion.
    """
    module = sys.modules["candidate"] = types.ModuleType("candidate")
    namespace = module.__dict__
    if request["whole"]:
        run_module(complete(request["prompt"]), "prompt", namespace)
        run_module(request["answer"], "answer", namespace)
    else:
        run_module(request["prompt"] + request["answer"], "answer", namespace)
    function = namespace.get(request["entry_point"])
    if not callable(function):
        raise NameError(f"the answer defines no function {request['entry_point']!r}")
    return function


def complete(prompt: str) -> str:
    """A prompt as a module: a function without even a docstring gets `pass` as its body."""
    try:
        compile(prompt, "prompt", "exec")
    except SyntaxError:
        return prompt.rstrip() + "\n    pass\n"
    return prompt


def _described(error: BaseException) -> list[str]:
    if isinstance(error, NotPlain):
        return ["TypeError", f"the result is no plain value but a {error}"]
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - a hostile __str__
        text = "(its text cannot be read)"
    return [type(error).__name__, text[:SHOWN_CHARS]]
