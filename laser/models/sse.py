"""Server-sent events from bytes in any cut."""

from __future__ import annotations

from laser.errors import LimitError
from laser.limits import MAX_REPLY_BYTES

__all__ = ["EventReader"]


class EventReader:
    """Takes a stream's bytes as they arrive and gives the data of every event that is whole.

    Lines end with CR LF, LF or CR; comments, ids and retry times are passed over. The name of an event is not needed:
    every provider repeats it in the data.

    Raises:
        LimitError: the stream has more than ``MAX_REPLY_BYTES``.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that end in these bytes."""
        self._size += len(chunk)
        if self._size > MAX_REPLY_BYTES:
            raise LimitError(
                f"chunk: the stream has more than {MAX_REPLY_BYTES} bytes",
                argument="chunk",
                size=self._size,
                limit=MAX_REPLY_BYTES,
            )
        self._rest.append(chunk)
        if b"\n" not in chunk and b"\r" not in chunk and not self._rest[0].endswith(b"\r"):
            return []
        # A CR at the end may be half of a CR LF, so it waits for what comes next.
        pending = b"".join(self._rest)
        held = b"\r" if pending.endswith(b"\r") else b""
        pending = pending[: len(pending) - len(held)]
        if b"\r" in pending:
            pending = pending.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = pending.split(b"\n")
        self._rest = [lines.pop() + held]
        return self._lines(lines)

    def close(self) -> list[bytes]:
        """The data of a last event whose end is missing; it may be cut."""
        lines = [b"".join(self._rest).rstrip(b"\r"), b""]
        self._rest = []
        return self._lines(lines)

    def _lines(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        for line in lines:
            if not self._begun:
                line = line.removeprefix(b"\xef\xbb\xbf")
                self._begun = True
            if not line:
                if self._data:
                    events.append(b"\n".join(self._data))
                    self._data = []
            elif line.startswith(b"data"):
                name, _, value = line.partition(b":")
                if name == b"data":
                    self._data.append(value.removeprefix(b" "))
        return events
