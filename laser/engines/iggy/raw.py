"""Polls read as bytes: no object per record, and a conversation's records found by searching the bytes.

The layout is that of Iggy 0.9: a reply is partition (u32), current offset (u64), count (u32), then batches as they
are stored. A batch has a header of 256 bytes (base offset at 8, base timestamp at 16, batch length at 32, all u64;
message count at 48, u32; the rest zero) and then messages of 48 bytes (id at 8, u128; offset delta at 24, headers
length at 32, payload length at 36, all u32), payload and headers. All numbers are little-endian. The layout belongs
to the server's version, so the engine uses it only after it has read the same records both ways (``raw_polls``).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Final, overload

from laser.errors import CodecError
from laser.model.records import LogRecord
from laser.model.window import Match
from laser.wire.batches import LazyRecords, select_each
from laser.wire.blocks import STRING
from laser.wire.provenance import CONVERSATION_KEY

__all__ = ["POLL_COMMAND", "RawPage", "poll_body"]

POLL_COMMAND: Final = 100

_REPLY: Final = struct.Struct("<IQI")
_BATCH: Final = struct.Struct("<QQ8xQ8xI")
_BATCH_AT: Final = 8
_BATCH_BYTES: Final = 256
_DELTA: Final = struct.Struct("<I")
_DELTA_AT: Final = 24
_LENGTHS: Final = struct.Struct("<II")
_LENGTHS_AT: Final = 32
_MESSAGE: Final = struct.Struct("<8x16s8xII8x")
_MESSAGE_BYTES: Final = 48
_INDEX_BYTES: Final = 120

# A conversation header as it stands in a block: key length, key, kind, and a value of 26 bytes.
_FRAMED_KEY: Final = (
    struct.pack("<BI", STRING, len(CONVERSATION_KEY)) + CONVERSATION_KEY + struct.pack("<BI", STRING, 26)
)


@lru_cache(maxsize=1024)
def _head(stream: str, topic: str, consumer: str) -> bytes:
    return b"\x01" + _identifier(consumer) + _identifier(stream) + _identifier(topic) + b"\x01"


def poll_body(stream: str, topic: str, consumer: str, partition: int, offset: int, count: int) -> bytes:
    """The body of a poll of one partition from an offset on, that commits nothing."""
    return _head(stream, topic, consumer) + struct.pack("<IBQIB", partition, 1, offset, count, 0)


class RawPage(LazyRecords):
    """The records of a poll's reply, decoded when they are looked at. Ascending by offset.

    Args:
        reply: the bytes. start: the first offset wanted; earlier messages of the first batch are passed over.
        count: the most records wanted.

    Attributes:
        partition: as the reply says. current: the partition's last offset, likewise.
        first, next: the offset of the first record, and the one after the last; both ``start`` when there is none.

    Raises:
        CodecError: the bytes do not fit the layout. Messages are looked at when they are needed, so reading the records
            of a page can raise it too.
    """

    def __init__(self, reply: bytes, start: int, count: int) -> None:
        if len(reply) < _REPLY.size:
            raise CodecError(f"poll reply: {len(reply)} bytes are too few")
        self.partition, self.current, _ = _REPLY.unpack_from(reply)
        self._data = reply
        self._known: tuple[int, list[int]] | None = None
        self._start = start
        self._batches = _walk_batches(reply)
        self.first, self._count = self._bounds(count)
        self.next = self.first + self._count

    @property
    def size_bytes(self) -> int:
        """Memory that the page takes, about."""
        return len(self._data) + len(self._batches) * _INDEX_BYTES

    def select_parts(self, match: Match) -> Iterator[list[LogRecord]]:
        """The records that a match wants, without decoding the others where that can be told from the bytes.

        Conversation ids are found in upper and in lower case; other spellings only where the long way is taken.
        """
        return self._select(match, self.first, self.next)

    def _select(self, match: Match, low: int, high: int) -> Iterator[list[LogRecord]]:
        """The parts of ``select_parts`` with ``low <= offset < high``."""
        if match.children or not self._all_attributable:
            return select_each(self._between(low, high), match)
        hits = self._hits(match.conversation_id)
        return select_each(self._records_at(hits, low, high) if hits else (), match)

    @cached_property
    def _all_attributable(self) -> bool:
        """Whether there is one conversation header for each message, so that none cannot be attributed."""
        return self._data.count(_FRAMED_KEY) == sum(batch[2] for batch in self._batches)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> LogRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[LogRecord]: ...
    def __getitem__(self, index: int | slice) -> LogRecord | Sequence[LogRecord]:
        if isinstance(index, slice):
            first, stop, step = index.indices(self._count)
            if step == 1 and stop > first:
                return _Part(self, first, stop)
            return [self[place] for place in range(first, stop, step)]
        place = index + self._count if index < 0 else index
        if not 0 <= place < self._count:
            raise IndexError(index)
        wanted = self.first + place
        batch = self._batches[bisect_right(self._batches, wanted, key=_first_offset) - 1]
        return self._decode(self._frames_of(batch)[wanted - batch[1]], wanted, batch[3])

    def __iter__(self) -> Iterator[LogRecord]:
        return self._between(self.first, self.next)

    def _between(self, low: int, high: int) -> Iterator[LogRecord]:
        for batch in self._batches:
            _, base, messages, timestamp, _ = batch
            if base + messages > low and base < high:
                for offset, frame in enumerate(self._frames_of(batch), base):
                    if low <= offset < high:
                        yield self._decode(frame, offset, timestamp)

    def place_of(self, offset: int) -> int:
        """See ``LazyRecords.place_of``."""
        return min(max(0, offset - self.first), self._count)

    def _bounds(self, count: int) -> tuple[int, int]:
        if not self._batches:
            return self._start, 0
        _, first, _, _, _ = self._batches[0]
        _, last, messages, _, _ = self._batches[-1]
        low = max(first, self._start)
        return low, max(0, min(last + messages - low, count))

    def _hits(self, conversation_id: str) -> list[int]:
        hits: list[int] = []
        upper = conversation_id.encode()
        # The longer the needle, the larger the steps of the search.
        for needle in {_FRAMED_KEY + upper, _FRAMED_KEY + upper.lower()}:
            at = self._data.find(needle)
            while at >= 0:
                hits.append(at)
                at = self._data.find(needle, at + len(needle))
        hits.sort()
        return hits

    def _records_at(self, hits: Sequence[int], low: int, high: int) -> Iterator[LogRecord]:
        """The records of a range of offsets that contain given places of the reply."""
        data, lengths = self._data, _LENGTHS.unpack_from
        place, hit = 0, hits[0]
        for at, base, messages, timestamp, stop in self._batches:
            if hit >= stop:
                continue
            frame, offset = at + _BATCH_BYTES, base
            for _ in range(messages):
                if frame + _MESSAGE_BYTES > stop:
                    raise _torn(at, stop)
                headers, payload = lengths(data, frame + _LENGTHS_AT)
                after = frame + _MESSAGE_BYTES + headers + payload
                if hit < after:
                    if after > stop:
                        raise _torn(at, stop)
                    if low <= offset < high:
                        yield self._decode(frame, offset, timestamp)
                    while place < len(hits) and hits[place] < after:
                        place += 1
                    if place == len(hits):
                        return
                    hit = hits[place]
                    if hit >= stop:
                        break
                frame = after
                offset += 1

    def _frames_of(self, batch: _Batch) -> list[int]:
        """Where the messages of a batch begin. Kept for the last batch asked for: neighbours are asked for next."""
        if self._known is None or self._known[0] != batch[0]:
            frames: list[int] = []
            frame, data, lengths = batch[0] + _BATCH_BYTES, self._data, _LENGTHS.unpack_from
            last = batch[4] - _MESSAGE_BYTES
            for _ in range(batch[2]):
                if frame > last:
                    raise _torn(batch[0], batch[4])
                frames.append(frame)
                headers, payload = lengths(data, frame + _LENGTHS_AT)
                frame += _MESSAGE_BYTES + headers + payload
            if frame != batch[4]:
                raise _torn(batch[0], batch[4])
            self._known = (batch[0], frames)
        return self._known[1]

    def _decode(self, frame: int, offset: int, timestamp: int) -> LogRecord:
        record_id, headers, payload = _MESSAGE.unpack_from(self._data, frame)
        body = frame + _MESSAGE_BYTES
        return LogRecord(
            self.partition,
            offset,
            int.from_bytes(record_id, "little"),
            timestamp,
            self._data[body + payload : body + payload + headers],
            self._data[body : body + payload],
        )


class _Part(LazyRecords):
    """A slice of a page, as lazy as the page."""

    def __init__(self, page: RawPage, first: int, stop: int) -> None:
        self._page = page
        self._range = range(first, stop)

    @property
    def size_bytes(self) -> int:
        """Memory that the slice takes: the page's."""
        return self._page.size_bytes

    def select_parts(self, match: Match) -> Iterator[list[LogRecord]]:
        """See ``RawPage.select_parts``."""
        return self._page._select(match, *self._bounds)

    def place_of(self, offset: int) -> int:
        """See ``LazyRecords.place_of``."""
        return min(max(0, self._page.place_of(offset) - self._range.start), len(self._range))

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, index: int) -> LogRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[LogRecord]: ...
    def __getitem__(self, index: int | slice) -> LogRecord | Sequence[LogRecord]:
        if isinstance(index, slice):
            part = self._range[index]
            if part.step == 1 and len(part):
                return _Part(self._page, part.start, part.stop)
            return [self._page[place] for place in part]
        return self._page[self._range[index]]

    def __iter__(self) -> Iterator[LogRecord]:
        return self._page._between(*self._bounds)

    @property
    def _bounds(self) -> tuple[int, int]:
        return self._page.first + self._range.start, self._page.first + self._range.stop


_Batch = tuple[int, int, int, int, int]
"""Place, first offset, message count, timestamp and end of a batch."""


def _torn(at: int, end: int) -> CodecError:
    return CodecError(f"poll reply: the messages of the batch from {at} to {end} do not fill it")


def _walk_batches(data: bytes) -> list[_Batch]:
    """The batches of a reply.

    Raises:
        CodecError: a length that leaves the reply, more messages than fit, or offsets with a gap.
    """
    batches: list[_Batch] = []
    at, size, unpack, delta = _REPLY.size, len(data), _BATCH.unpack_from, _DELTA.unpack_from
    expected = -1
    while at < size:
        if size - at < _BATCH_BYTES:
            raise CodecError(f"poll reply: a batch header is cut short at {at} of {size}")
        base, timestamp, length, messages = unpack(data, at + _BATCH_AT)
        if length < _BATCH_BYTES + _MESSAGE_BYTES or length > size - at:
            raise CodecError(f"poll reply: batch at {at} of {size} has the impossible length {length}")
        # A batch that the poll cuts into keeps its base; its first message says where it begins now.
        first = base + delta(data, at + _BATCH_BYTES + _DELTA_AT)[0]
        if messages > (length - _BATCH_BYTES) // _MESSAGE_BYTES:
            raise CodecError(f"poll reply: batch at {at} of {size} has {length} bytes, too few for {messages} messages")
        if not messages or (first != expected and expected >= 0):
            raise CodecError(f"poll reply: batch at {at} of {size} begins at offset {first}, expected is {expected}")
        batches.append((at, first, messages, timestamp, at + length))
        at += length
        expected = first + messages
    return batches


def _first_offset(batch: _Batch) -> int:
    return batch[1]


def _identifier(name: str) -> bytes:
    data = name.encode()
    return struct.pack("<BB", 2, len(data)) + data
