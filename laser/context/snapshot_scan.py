"""Finding a conversation's newest snapshots on a topic by reading it backward."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from laser.context.gathering import gather
from laser.context.resume import record_at
from laser.errors import CodecError, NotFoundError
from laser.limits import CONTEXT_READ_WINDOW
from laser.model.ids import ulid_bytes
from laser.model.records import LogRecord
from laser.model.snapshot import Snapshot
from laser.model.topics import TopicInfo
from laser.ports.log import Log
from laser.wire.snapshot import decode_snapshot

__all__ = ["SnapshotFinder"]

_logger = logging.getLogger("laser.context")

_FIRST_STEP: Final = 16
# Snapshots that processes saved at once stand next to each other: looking at several finds the best one.
_CANDIDATES: Final = 32
# Conversations whose snapshots are remembered.
_REMEMBERED: Final = 1_000


class SnapshotFinder:
    """Finds the newest snapshots of a conversation and fold on one topic.

    Partitions are read backward in growing steps, no further than the newest ``CONTEXT_READ_WINDOW`` records and
    never below the first one held. A partition is left alone as soon as all that it may still hold is older than what
    was found. What was found is remembered: the next search reads what is new, and looks whether the newest snapshot
    is still in its place.
    """

    def __init__(self, log: Log, stream: str, topic: str, fold: str) -> None:
        self._log = log
        self._place = (stream, topic)
        self._fold = fold
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def newest(self, conversation: str) -> list[Snapshot]:
        """The newest few snapshots, newest first by time, then place."""
        known = self._known.pop(conversation, None)
        still_there = True

        async def look() -> TopicInfo | None:
            return await self._log.topic(*self._place)

        async def probe() -> None:
            nonlocal still_there
            still_there = known is None or await self._is_there(known.found[0])

        # Both answers come in one round trip.
        reads: list[Callable[[], Awaitable[TopicInfo | None]]] = [look, probe] if known is not None else [look]
        info = (await gather(reads))[0]
        if info is None:
            return []
        if known is not None and not (still_there and known.fits(info)):
            known = None
        found = await self._search(info, conversation, known)
        if found:
            self._known[conversation] = _Known(info, found)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return [entry.snapshot for entry in found]

    async def _search(self, info: TopicInfo, conversation: str, known: _Known | None) -> list[_Found]:
        found = (
            [] if known is None else [entry for entry in known.found if entry.offset >= _first(info, entry.partition)]
        )
        scans = []
        for part in info.partitions:
            low = max(part.first, part.end - CONTEXT_READ_WINDOW, 0 if known is None else known.end(part.id))
            scans.append(_Scan(self._log, self._place, part.id, low, part.end))
        needle = ulid_bytes(conversation)
        while True:
            newest = max((entry.time for entry in found), default=-1)
            pending = [scan for scan in scans if not scan.done and (scan.oldest is None or scan.oldest >= newest)]
            if not pending:
                break
            await gather([scan.step for scan in pending])
            for scan in pending:
                found += scan.take(needle, conversation, self._fold)
        found.sort(key=_recency, reverse=True)
        return found[:_CANDIDATES]

    async def _is_there(self, entry: _Found) -> bool:
        try:
            record = await record_at(self._log, *self._place, entry.partition, entry.offset)
        except NotFoundError:
            return False
        return record is not None and record.id == entry.id


class _Found(msgspec.Struct, frozen=True, gc=False):
    time: int
    partition: int
    offset: int
    id: int
    snapshot: Snapshot


class _Known:
    """What a search found, and where the topic ended then."""

    def __init__(self, info: TopicInfo, found: list[_Found]) -> None:
        self._identity = _identity(info)
        self._ends = {part.id: part.end for part in info.partitions}
        self.found = found

    def fits(self, info: TopicInfo) -> bool:
        """Whether the topic is the same one, and has only grown."""
        ends = {part.id: part.end for part in info.partitions}
        return _identity(info) == self._identity and all(ends.get(part, -1) >= end for part, end in self._ends.items())

    def end(self, partition: int) -> int:
        """The end of a partition then, 0 for one that is new."""
        return self._ends.get(partition, 0)


def _identity(info: TopicInfo) -> tuple[int, ...]:
    return info.stream_id, info.stream_created_at_micros, info.topic_id, info.created_at_micros, info.epoch


def _first(info: TopicInfo, partition: int) -> int:
    return next((part.first for part in info.partitions if part.id == partition), 0)


def _recency(entry: _Found) -> tuple[int, int]:
    return entry.time, entry.offset


class _Scan:
    """A backward read of one partition."""

    def __init__(self, log: Log, place: tuple[str, str], partition: int, low: int, end: int) -> None:
        self._log = log
        self._place = (*place, partition)
        self._low = low
        self._high = end
        self._size = _FIRST_STEP
        self._records: list[LogRecord] = []
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
            self._records += (record for record in page.records if record.offset < self._high)
            if page.records and at == start:
                self.oldest = page.records[0].timestamp_micros
            if at >= page.end:
                break
            at = max(at, page.next)
        self._high = start
        self._size *= 4

    def take(self, needle: bytes, conversation: str, fold: str) -> list[_Found]:
        """The snapshots among what was read since the last call."""
        records, self._records = self._records, []
        found: list[_Found] = []
        for record in records:
            # Most records are other conversations': searching the bytes spares decoding them.
            if needle not in record.payload:
                continue
            try:
                snapshot = decode_snapshot(record.payload)
            except CodecError as error:
                _, topic, partition = self._place
                _logger.warning(
                    "%s %d:%d is no snapshot and is passed over: %s", topic, partition, record.offset, error
                )
                continue
            if snapshot.conversation == conversation and snapshot.fold == fold:
                found.append(_Found(record.timestamp_micros, record.partition, record.offset, record.id, snapshot))
        return found
