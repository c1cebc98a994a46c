"""Finding a conversation's newest snapshots on a topic by reading it backward."""

from __future__ import annotations

import logging
from typing import Final

from laser.context.gathering import gather
from laser.errors import CodecError
from laser.limits import CONTEXT_READ_WINDOW
from laser.model.ids import ulid_bytes
from laser.model.snapshot import Snapshot
from laser.ports.log import Log
from laser.wire.snapshot import decode_snapshot

__all__ = ["newest_snapshots"]

_logger = logging.getLogger("laser.context")

_FIRST_STEP: Final = 16
# Snapshots that processes saved at once stand next to each other: looking at several finds the best one.
_CANDIDATES: Final = 32


async def newest_snapshots(log: Log, stream: str, topic: str, conversation: str, fold: str) -> list[Snapshot]:
    """The newest few snapshots of a conversation and fold, newest first by time, then place.

    Partitions are read backward in growing steps, no further than the newest ``CONTEXT_READ_WINDOW`` records and
    never below the first one held. A partition is left alone as soon as all that it may still hold is older than
    what was found.
    """
    info = await log.topic(stream, topic)
    if info is None:
        return []
    scans = [_Scan(log, stream, topic, part.id, part.first, part.end) for part in info.partitions]
    needle = ulid_bytes(conversation)
    found: list[tuple[int, int, Snapshot]] = []
    while True:
        newest = max((time for time, _, _ in found), default=-1)
        pending = [scan for scan in scans if not scan.done and (scan.oldest is None or scan.oldest >= newest)]
        if not pending:
            break
        await gather([scan.step for scan in pending])
        for scan in pending:
            found += scan.take(needle, conversation, fold)
    found.sort(key=lambda entry: entry[:2], reverse=True)
    return [snapshot for _, _, snapshot in found[:_CANDIDATES]]


class _Scan:
    """A backward read of one partition."""

    def __init__(self, log: Log, stream: str, topic: str, partition: int, first: int, end: int) -> None:
        self._log = log
        self._place = (stream, topic, partition)
        self._low = max(first, end - CONTEXT_READ_WINDOW)
        self._high = end
        self._size = _FIRST_STEP
        self._records: list[tuple[int, int, bytes]] = []
        self.oldest: int | None = None

    @property
    def done(self) -> bool:
        return self._high <= self._low

    async def step(self) -> None:
        stream, topic, partition = self._place
        start = max(self._low, self._high - self._size)
        at = start
        while at < self._high:
            page = await self._log.read(stream, topic, partition, start=at, limit=self._high - at)
            self._records += [(r.timestamp_micros, r.offset, r.payload) for r in page.records if r.offset < self._high]
            if page.records and at == start:
                self.oldest = page.records[0].timestamp_micros
            if page.next <= at:
                break
            at = page.next
        self._high = start
        self._size *= 4

    def take(self, needle: bytes, conversation: str, fold: str) -> list[tuple[int, int, Snapshot]]:
        """The snapshots among what was read since the last call."""
        records, self._records = self._records, []
        found: list[tuple[int, int, Snapshot]] = []
        for time, offset, payload in records:
            # Most records are other conversations': searching the bytes spares decoding them.
            if needle not in payload:
                continue
            try:
                snapshot = decode_snapshot(payload)
            except CodecError as error:
                _, topic, partition = self._place
                _logger.warning("%s %d:%d is no snapshot and is passed over: %s", topic, partition, offset, error)
                continue
            if snapshot.conversation == conversation and snapshot.fold == fold:
                found.append((time, offset, snapshot))
        return found
