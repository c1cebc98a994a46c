"""Replay: the messages of a conversation from stretches of many partitions, in one order, in constant memory."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from typing import Final

import anyio.lowlevel

from laser.context.cache import CachedLog
from laser.context.decoding import Copies, decode_record
from laser.context.gathering import gather
from laser.context.resume import check_same_record
from laser.context.spans import Span
from laser.errors import RetentionGapError, StaleCheckpointError
from laser.limits import COPY_DISTANCE
from laser.model.messages import ContextMessage, SkippedRecord
from laser.model.records import LogRecord
from laser.model.window import Match, Page
from laser.ports.log import Log
from laser.wire.batches import place_of, select_records
from laser.wire.routing import route

__all__ = ["Replay"]

_PAGE: Final = 1_000
# Records before a resume point that are looked at: the last one proves that the log is the same, and all of them tell
# whether a record after it is a second copy of an append whose answer was lost.
_OVERLAP: Final = COPY_DISTANCE
_RESUME_PAGE: Final = _OVERLAP + 224
_DECODE_CHUNK: Final = 256
_MAX_SKIPPED: Final = 1_000


class Replay:
    """Reads spans page by page and merges them: by time, rank of the topic, partition, offset.

    Within a partition the highest time seen so far counts. Of copies of one append (see ``COPY_DISTANCE``) the first
    one is given out.

    Args:
        match: whose messages; ``None`` for those of every conversation.

    Attributes:
        read: raw records passed so far. total: raw records of all spans.
        skipped: records that could not be decoded, the first 1,000. skipped_count: all of them.
    """

    def __init__(self, log: Log, stream: str, match: Match | None, spans: Sequence[Span]) -> None:
        self._log = log
        self._stream = stream
        self._match = match
        self._readers = [_Reader(self, span) for span in spans]
        self._started = False
        self._witness = log.witness if isinstance(log, CachedLog) else None
        self.total = sum(span.stop - span.start for span in spans)
        self.skipped: list[SkippedRecord] = []
        self.skipped_count = 0

    @property
    def read(self) -> int:
        """Raw records passed so far."""
        return sum(reader.scanned - reader.span.start for reader in self._readers)

    def positions(self) -> list[tuple[Span, int]]:
        """Each span with the offset up to which all its messages were given out."""
        return [(reader.span, reader.position) for reader in self._readers]

    async def next_batch(self, limit: int | None = None) -> list[ContextMessage] | None:
        """The next messages in order, at least one; ``None`` at the end.

        Args:
            limit: the most to give out at once, from 1; ``None`` for whatever is known to come next.

        Raises:
            StaleCheckpointError: the log is not the one that was read before.
            RetentionGapError: records of a span are gone.
        """
        while True:
            if not await self._fill():
                return None
            batch = await self._merge(limit)
            if batch:
                return batch

    async def _fill(self) -> bool:
        empty = [reader for reader in self._readers if not reader.buffer and not reader.done]
        if not self._started:
            self._started = True
            self._pass_vouched()
            empty = [reader for reader in empty if not reader.done]
            # The first pages of all partitions at once: on a remote log the waits add up otherwise.
            await gather([reader.fill for reader in empty])
        else:
            for reader in empty:
                await reader.fill()
        return any(reader.buffer or not reader.done for reader in self._readers)

    def _pass_vouched(self) -> None:
        """Finishes readers that have nothing to read, and whose resume point this client has seen itself.

        Of each topic one stays, to look whether the topic was purged.
        """
        if self._witness is None:
            return
        spans = [reader.span for reader in self._readers if reader.span.last_id is not None]
        looked_at = {span.topic.name for span in spans if not self._is_vouched(span)}
        for reader in self._readers:
            if self._is_vouched(reader.span):
                if reader.span.topic.name in looked_at:
                    reader.finish()
                looked_at.add(reader.span.topic.name)

    def _is_vouched(self, span: Span) -> bool:
        return (
            self._witness is not None
            and span.last_id is not None
            and span.start == span.stop
            and self._witness.vouches(span.topic, span.partition, span.start - 1, span.last_id)
        )

    async def _merge(self, limit: int | None) -> list[ContextMessage]:
        """What is known to come next: until a partition with more to read has nothing buffered."""
        heap = [(reader.buffer[0][0], index) for index, reader in enumerate(self._readers) if reader.buffer]
        if len(heap) == 1:
            return self._readers[heap[0][1]].take_many(limit)
        heapq.heapify(heap)
        batch: list[ContextMessage] = []
        while heap:
            _, index = heap[0]
            reader = self._readers[index]
            batch.append(reader.take())
            if reader.buffer:
                heapq.heapreplace(heap, (reader.buffer[0][0], index))
            else:
                heapq.heappop(heap)
                if not reader.done:
                    break
            if len(batch) == limit:
                break
            if len(batch) % _DECODE_CHUNK == 0:
                await anyio.lowlevel.checkpoint()
        return batch

    async def read_page(self, reader: _Reader) -> None:
        """Fills a reader's buffer with its next page."""
        span, start = reader.span, reader.scanned
        resumes = span.resumes and not reader.resumed
        if resumes and (start < span.stop or span.last_id is not None):
            page = await self._read_overlap(reader)
        elif start >= span.stop:
            reader.finish()
            return
        else:
            page = await self._log.read(
                self._stream, span.topic.name, span.partition, start=start, limit=_PAGE, match=self._match
            )
        if page.end < span.stop:
            raise StaleCheckpointError(
                f"partition {span.partition} of {span.topic.name!r} ends at {page.end}, it ended at {span.stop} when "
                "the read began: it was purged, or lost its end",
                topic=span.topic.name,
                partition=span.partition,
                expected=span.stop,
                actual=page.end,
            )
        if page.first > start and not (span.floats and start == span.start):
            raise RetentionGapError(
                f"partition {span.partition} of {span.topic.name!r} now begins at {page.first}: the records from "
                f"{start} on are gone by retention",
                topic=span.topic.name,
                partition=span.partition,
                wanted=start,
                first=page.first,
            )
        for count, record in enumerate(page.records, 1):
            if record.offset >= span.stop:
                break
            self._take(reader, record)
            if count % _DECODE_CHUNK == 0:
                await anyio.lowlevel.checkpoint()
        reader.scanned = max(start, min(page.next, span.stop))
        if reader.scanned >= span.stop:
            reader.finish()

    async def _read_overlap(self, reader: _Reader) -> Page:
        """Passes what lies before the span, and returns the page that goes on into it, matching records only."""
        span, reader.resumed = reader.span, True
        low = at = max(0, span.start - _OVERLAP)
        while True:
            limit = _RESUME_PAGE - (at - low)
            page = await self._log.read(self._stream, span.topic.name, span.partition, start=at, limit=limit)
            rest = self._pass_overlap(reader, page.records)
            # Large records make several pages of it.
            if page.next >= span.start or at >= page.end:
                return Page(rest, page.next, page.first, page.end)
            at = max(at, page.next)

    def _pass_overlap(self, reader: _Reader, records: Sequence[LogRecord]) -> list[LogRecord]:
        """Checks what lies before the span, remembers its ids, and returns the matching rest."""
        span = reader.span
        place = place_of(records, span.start - 1)
        if span.last_id is not None and place < len(records) and records[place].offset == span.start - 1:
            last = records[place]
            check_same_record(span.topic, span.partition, last.offset, span.last_id, last.id)
            if self._witness is not None:
                self._witness.saw(span.topic, span.partition, last.offset, last.id)
        rest: list[LogRecord] = []
        # Most of them are other conversations': they are not even decoded where the page can tell.
        for record in records if self._match is None else select_records(records, self._match):
            if record.offset < span.start:
                reader.copies.note(record, route(record.headers, record.payload).conversation_id)
            else:
                rest.append(record)
        return rest

    def _take(self, reader: _Reader, record: LogRecord) -> None:
        span = reader.span
        message = decode_record(record, span.topic)
        if isinstance(message, SkippedRecord):
            self.skipped_count += 1
            if len(self.skipped) < _MAX_SKIPPED:
                self.skipped.append(message)
        elif not reader.copies.note(record, message.provenance.conversation_id):
            reader.highest = max(reader.highest, record.timestamp_micros)
            reader.buffer.append(((reader.highest, span.rank, span.partition, record.offset), message))


class _Reader:
    """One span, its buffered messages with their order keys, and how far it was read."""

    def __init__(self, replay: Replay, span: Span) -> None:
        self._replay = replay
        self.span = span
        self.buffer: deque[tuple[tuple[int, int, int, int], ContextMessage]] = deque()
        self.scanned = span.start
        self.highest = 0
        self.copies = Copies()
        self.resumed = False
        self.done = False

    @property
    def position(self) -> int:
        return self.buffer[0][1].offset if self.buffer else self.scanned

    async def fill(self) -> None:
        while not self.buffer and not self.done:
            await self._replay.read_page(self)

    def finish(self) -> None:
        self.done = True
        self.scanned = max(self.scanned, self.span.stop)

    def take(self) -> ContextMessage:
        return self.buffer.popleft()[1]

    def take_many(self, limit: int | None) -> list[ContextMessage]:
        if limit is not None and limit < len(self.buffer):
            return [self.take() for _ in range(limit)]
        batch = [message for _, message in self.buffer]
        self.buffer.clear()
        return batch
