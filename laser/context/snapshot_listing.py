"""Every snapshot on a topic, for people to look at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from laser.errors import CodecError
from laser.model.records import LogRecord
from laser.model.snapshot import Snapshot
from laser.ports.log import Log
from laser.wire.snapshot import decode_snapshot

__all__ = ["FoundSnapshot", "all_snapshots"]

_PAGE: Final = 100


class FoundSnapshot(msgspec.Struct, frozen=True):
    """A record of a topic of snapshots.

    Attributes:
        partition, offset, timestamp_micros: where and when. size: bytes of the record's payload.
        snapshot: what it holds; ``None`` when that is no snapshot, and ``reason`` says why.
    """

    partition: int
    offset: int
    timestamp_micros: int
    size: int
    snapshot: Snapshot | None
    reason: str | None = None


async def all_snapshots(log: Log, stream: str, topic: str) -> AsyncIterator[FoundSnapshot]:
    """Every record of a topic of snapshots as of now, by partition, then offset; none where the topic is absent."""
    info = await log.topic(stream, topic)
    for part in () if info is None else info.partitions:
        at = part.first
        while at < part.end:
            page = await log.read(stream, topic, part.id, start=at, limit=_PAGE)
            for record in page.records:
                if record.offset < part.end:
                    yield _found(record)
            if at >= page.end:
                break
            at = max(at, page.next)


def _found(record: LogRecord) -> FoundSnapshot:
    snapshot, reason = None, None
    try:
        snapshot = decode_snapshot(record.payload)
    except CodecError as error:
        reason = str(error)
    return FoundSnapshot(
        record.partition, record.offset, record.timestamp_micros, len(record.payload), snapshot, reason
    )
