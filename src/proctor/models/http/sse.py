"""Server-sent events: the data fields of a stream of bytes."""

from collections.abc import Iterator


class EventParser:
    """Fed with pieces of a stream, gives the data of each complete event.

    Comments and fields other than `data` are skipped. Every byte is looked at once.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The events that `piece` completes."""
        start = len(self._buffer)
        self._buffer += piece
        begin = 0
        while (end := self._buffer.find(b"\n", max(start, begin))) >= 0:
            line = bytes(self._buffer[begin:end]).removesuffix(b"\r")
            begin = end + 1
            if line:
                self._line(line)
            elif self._data:
                yield b"\n".join(self._data)
                self._data = []
        del self._buffer[:begin]

    @property
    def rest(self) -> bool:
        """Whether an event was begun and not ended."""
        return bool(self._data or self._buffer.strip())

    def _line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
