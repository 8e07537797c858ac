"""Bounded capture of a stream: head and tail are kept, the middle is counted and dropped."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Captured:
    """What was kept of a stream. `raw` is set only where decoding had to replace bytes."""

    text: str
    dropped_bytes: int
    raw: bytes | None


class BoundedCapture:
    """Keeps at most `limit_bytes` of what is fed to it, half from each end.

    Memory stays below about 1.5 times the limit plus one chunk, whatever is fed. Decoding happens
    at the end, so a character that was split between two reads is whole again.
    """

    __slots__ = ("_head", "_head_limit", "_tail", "_tail_limit", "total_bytes")

    def __init__(self, limit_bytes: int) -> None:
        if limit_bytes < 0:
            raise ValueError(f"an output limit must not be negative: {limit_bytes}")
        self._tail_limit = limit_bytes // 2
        self._head_limit = limit_bytes - self._tail_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total_bytes += len(chunk)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail += chunk
            if len(self._tail) > 2 * self._tail_limit:  # trimmed rarely, so that feeding is linear
                del self._tail[: len(self._tail) - self._tail_limit]

    def result(self) -> Captured:
        """The kept text, with a note in the middle when something was dropped."""
        head, tail = self._head, self._tail[max(0, len(self._tail) - self._tail_limit) :]
        if len(head) + len(tail) == self.total_bytes:
            return _decode(bytes(head + tail), 0)
        head = head[: _whole_characters(head)]
        tail = tail[_continuation_bytes(tail) :]
        dropped = self.total_bytes - len(head) - len(tail)
        note = f"\n[… {dropped} bytes dropped …]\n".encode()
        return _decode(bytes(head + note + tail), dropped)


def _decode(data: bytes, dropped: int) -> Captured:
    try:
        return Captured(data.decode("utf-8"), dropped, None)
    except UnicodeDecodeError:
        return Captured(data.decode("utf-8", "replace"), dropped, data)


def _whole_characters(data: bytearray) -> int:
    """How long `data` is without a character that the cut left incomplete at its end."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # a first byte: is its character complete?
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if back < needed else len(data)
        if byte < 0x80:
            break
    return len(data)


def _continuation_bytes(data: bytearray) -> int:
    """How many bytes at the start of `data` belong to a character that began before the cut."""
    count = 0
    while count < min(3, len(data)) and 0x80 <= data[count] < 0xC0:
        count += 1
    return count
