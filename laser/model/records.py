"""Records as they go onto a log and as they come off it."""

from __future__ import annotations

import msgspec

__all__ = ["Appended", "LogRecord", "NewRecord"]


class NewRecord(msgspec.Struct, frozen=True, gc=False):
    """A record to append.

    Attributes:
        id: unsigned 128 bits, not 0, the same for every attempt at the same append.
        payload: 1 to ``MAX_PAYLOAD_BYTES`` bytes.
        headers: a header block (``laser.wire.blocks``), empty for none.
    """

    id: int
    payload: bytes
    headers: bytes = b""


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """A record read from a log.

    Attributes:
        partition, offset: its place. id: as appended; 0 where the writer gave none.
        timestamp_micros: the broker's clock at append, microseconds since 1970 UTC.
        headers: the header block as stored; not checked. payload: as stored.
    """

    partition: int
    offset: int
    id: int
    timestamp_micros: int
    headers: bytes
    payload: bytes


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where a batch landed: one partition, and each record's offset there in append order."""

    stream_id: int
    topic_id: int
    partition: int
    offsets: tuple[int, ...]
