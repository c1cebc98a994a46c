"""Following: a live tail of a conversation."""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Final

import anyio
import anyio.lowlevel
import msgspec

from laser.context.decoding import Copies, decode_record
from laser.context.resume import (
    check_partition,
    check_partitions_there,
    check_same_record,
    check_topic,
    check_topics_there,
)
from laser.context.spans import look_up
from laser.errors import ClosedError, RetentionGapError, StaleCheckpointError, TransportError
from laser.limits import COPY_DISTANCE
from laser.model.checkpoint import Checkpoint, PartitionMark, TopicMark
from laser.model.messages import ContextMessage, SkippedRecord
from laser.model.records import LogRecord
from laser.model.topics import TopicInfo
from laser.model.window import Match, Page
from laser.ports.log import Log
from laser.wire.batches import place_of, select_records

__all__ = ["CaughtUp", "Follow"]

_logger = logging.getLogger("laser.context")

_PAGE: Final = 500
_MIN_WAIT: Final = 0.005
_MAX_WAIT: Final = 0.25
_MAX_RETRY_WAIT: Final = 2.0
_DECODE_CHUNK: Final = 256
# Messages given out between two chances for other tasks to run.
_GIVE_CHUNK: Final = 64
_MAX_SKIPPED: Final = 1_000


class CaughtUp(msgspec.Struct, frozen=True):
    """Everything that was on the log when the follow began has been given out; what comes now is live."""


class Follow:
    """An async iterator over a conversation's messages as they arrive, with one ``CaughtUp`` among them.

    It reads a page ahead of its consumer and no further, so a slow consumer costs no memory. When the log cannot be
    reached it logs a warning, tries again until it can, and goes on at the very next record. Within a partition
    messages come in their order; those of one round of reads are merged by time across partitions.

    Leave the loop whenever you like: nothing runs in the background. A step that is cancelled loses nothing.
    ``checkpoint()`` says where to go on later.

    Attributes:
        skipped: records that could not be decoded, the first 1,000. skipped_count: all of them.

    Raises (from the iteration):
        StaleCheckpointError: the log is no longer the one that was followed. RetentionGapError: records are gone.
    """

    def __init__(
        self, log: Log, stream: str, conversation_id: str, topics: Sequence[str], start: Checkpoint | None
    ) -> None:
        self._log = log
        self._stream = stream
        self._match = Match(conversation_id)
        self._topics = list(topics)
        self._from = start
        self._tails: dict[tuple[str, int], _Tail] = {}
        self._marks: dict[str, TopicMark] = {}
        self._ready: deque[tuple[ContextMessage, _Tail]] = deque()
        self._goal: dict[tuple[str, int], int] | None = None
        self._caught_up = False
        self._closed = False
        self._given = 0
        self.skipped: list[SkippedRecord] = []
        self.skipped_count = 0

    def checkpoint(self) -> Checkpoint:
        """Where to go on after the last message that was given out: the start, as long as there was none.

        Before the first step of a follow without a checkpoint it is empty.
        """
        per_topic: dict[str, dict[int, int]] = {topic: {} for topic in self._marks}
        parts: dict[str, dict[int, PartitionMark]] = {topic: {} for topic in self._marks}
        for (topic, partition), tail in self._tails.items():
            per_topic[topic][partition] = tail.given
            parts[topic][partition] = PartitionMark(tail.created_at_micros, tail.given_id)
        marks = {
            topic: TopicMark(
                mark.stream_id, mark.stream_created_at_micros, mark.topic_id, mark.created_at_micros, parts[topic]
            )
            for topic, mark in self._marks.items()
        }
        if self._from is not None:
            for topic in self._topics:
                offsets, mark = self._from.topic_offsets(topic), self._from.mark(topic)
                if offsets is not None and topic not in per_topic:
                    per_topic[topic] = offsets
                    if mark is not None:
                        marks[topic] = mark
        return Checkpoint(per_topic, marks)

    def __aiter__(self) -> Follow:
        return self

    async def __anext__(self) -> ContextMessage | CaughtUp:
        wait = _MIN_WAIT
        failures = 0
        while not self._closed:
            if self._ready:
                self._given += 1
                if self._given % _GIVE_CHUNK == 0:
                    await anyio.lowlevel.checkpoint()
                message, tail = self._ready.popleft()
                tail.give(message)
                return message
            if not self._caught_up and self._reached_goal():
                self._caught_up = True
                return CaughtUp()
            try:
                moved = await self._round()
                if failures:
                    _logger.warning("the follow of %s goes on", self._match.conversation_id)
                failures = 0
            except TransportError as error:
                if not error.retryable:
                    raise
                failures += 1
                if failures == 1:
                    # Whoever waits must be able to see why nothing comes.
                    _logger.warning("the follow of %s waits for the log: %s", self._match.conversation_id, error)
                await anyio.sleep(min(_MAX_RETRY_WAIT, 0.05 * 2 ** min(failures, 10)))
                continue
            if not moved and (self._caught_up or not self._reached_goal()):
                await anyio.sleep(wait)
                wait = min(_MAX_WAIT, wait * 1.5)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Ends the iteration. Calling it again does nothing."""
        self._closed = True
        await anyio.lowlevel.checkpoint()

    async def __aenter__(self) -> Follow:
        if self._closed:
            raise ClosedError("this follow was closed; follow again from its checkpoint()")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _round(self) -> bool:
        """Reads every partition once. Returns whether anything came, also if only for other conversations."""
        infos = await look_up(self._log, self._stream, self._topics)
        for rank, topic in enumerate(self._topics):
            self._look(rank, topic, infos.get(topic))
        if self._goal is None:
            self._goal = {key: tail.end for key, tail in self._tails.items()}
        reads = [
            await self._read(tail) for tail in list(self._tails.values()) if tail.end > tail.next or tail.unchecked
        ]
        # Nothing has moved so far: had a read failed or been cancelled, the next round would read the same again.
        moved = any(read.next > read.tail.next for read in reads)
        for _, message, tail in heapq.merge(*[self._accept(read) for read in reads], key=_order):
            self._ready.append((message, tail))
        return moved

    def _look(self, rank: int, topic: str, info: TopicInfo | None) -> None:
        mark = self._marks.get(topic)
        if info is None:
            if mark is not None:
                raise StaleCheckpointError(
                    f"topic {topic!r} was deleted while it was followed",
                    topic=topic,
                    partition=None,
                    expected=mark.created_at_micros,
                    actual=0,
                )
            if self._from is not None:
                check_topics_there([topic], (), self._from)
            return
        if mark is None:
            mark = self._begin(rank, info)
        check_topic(info, mark)
        check_partitions_there(info, {part: tail.next for (name, part), tail in self._tails.items() if name == topic})
        for part in info.partitions:
            tail = self._tails.get((topic, part.id))
            if tail is None:
                # A partition that was added while following: all of it is new.
                tail = self._tails[topic, part.id] = _Tail(rank, info, part.id, part.created_at_micros, 0)
            check_partition(info, part, tail.next, tail.created_at_micros)
            tail.end = part.end
            if tail.epoch != info.epoch:
                # The server may have died in between, and handed offsets out again since.
                tail.epoch, tail.unchecked = info.epoch, tail.next > 0

    def _begin(self, rank: int, info: TopicInfo) -> TopicMark:
        saved = self._from.mark(info.name) if self._from is not None else None
        starts = (self._from.topic_offsets(info.name) or {}) if self._from is not None else None
        if starts is not None:
            check_partitions_there(info, starts)
        first_look = self._goal is None
        for part in info.partitions:
            known = saved.partitions.get(part.id) if saved is not None else None
            # Without a checkpoint what is there already is not new; a topic that appears later is.
            start = starts.get(part.id, 0) if starts is not None else part.end if first_look else 0
            created = part.created_at_micros if known is None else known.created_at_micros
            tail = _Tail(rank, info, part.id, created, start)
            tail.last_id = tail.given_id = None if known is None else known.last_id
            # What lies before the start is looked at once: to check the log, and to know it again from then on.
            tail.unchecked = start > 0
            self._tails[info.name, part.id] = tail
        mark = saved or TopicMark(
            info.stream_id, info.stream_created_at_micros, info.topic_id, info.created_at_micros, {}
        )
        self._marks[info.name] = mark
        return mark

    async def _read(self, tail: _Tail) -> _Read:
        read = _Read(tail)
        at = tail.next - min(tail.next, COPY_DISTANCE if tail.unchecked else 1)
        while True:
            page = await self._log.read(
                self._stream, tail.topic.name, tail.partition, start=at, limit=_PAGE + tail.next - at
            )
            _check_page(tail, page)
            place = place_of(page.records, tail.next - 1)
            if tail.last_id is not None and place < len(page.records) and page.records[place].offset == tail.next - 1:
                check_same_record(tail.topic, tail.partition, tail.next - 1, tail.last_id, page.records[place].id)
            if page.records:
                read.last = page.records[-1]
            for count, record in enumerate(select_records(page.records, self._match), 1):
                read.records.append((record, decode_record(record, tail.topic)))
                if count % _DECODE_CHUNK == 0:
                    await anyio.lowlevel.checkpoint()
            at = max(at, page.next)
            # Large records make several pages of what lies before the place to go on at.
            if at >= tail.next:
                read.next = at
                return read

    def _accept(self, read: _Read) -> list[_Ordered]:
        """Moves a tail to the end of what was read, and returns the messages in it."""
        tail, found = read.tail, []
        for record, message in read.records:
            if isinstance(message, SkippedRecord):
                if record.offset >= tail.next:
                    self.skipped_count += 1
                    if len(self.skipped) < _MAX_SKIPPED:
                        self.skipped.append(message)
            elif not tail.copies.note(record, message.provenance.conversation_id) and record.offset >= tail.next:
                tail.highest = max(tail.highest, record.timestamp_micros)
                found.append(((tail.highest, tail.rank, tail.partition, record.offset), message, tail))
        tail.pass_to(read, len(found))
        return found

    def _reached_goal(self) -> bool:
        return self._goal is not None and all(
            tail.next >= self._goal.get(key, 0) and not tail.unchecked for key, tail in self._tails.items()
        )


class _Tail:
    """One partition: how far it was read, and how far it was given out."""

    def __init__(self, rank: int, topic: TopicInfo, partition: int, created_at_micros: int, start: int) -> None:
        self.rank = rank
        self.topic = topic
        self.partition = partition
        self.created_at_micros = created_at_micros
        self.next = self.given = self.end = start
        self.last_id: int | None = None
        self.given_id: int | None = None
        self.unchecked = False
        self.epoch = topic.epoch
        self.highest = 0
        self.copies = Copies()
        self._waiting = 0

    def pass_to(self, read: _Read, found: int) -> None:
        """Notes how far the partition was read, and how many messages of it wait to be given out."""
        self.next, self.unchecked = read.next, False
        if read.last is not None:
            self.last_id = read.last.id or None
        self._waiting += found
        self._pass_others()

    def give(self, message: ContextMessage) -> None:
        """Notes that a message was given out."""
        self._waiting -= 1
        self.given, self.given_id = message.offset + 1, message.record_id or None
        self._pass_others()

    def _pass_others(self) -> None:
        # With nothing waiting, the records of other conversations up to here are behind us too.
        if not self._waiting:
            self.given, self.given_id = self.next, self.last_id


_Ordered = tuple[tuple[int, int, int, int], ContextMessage, _Tail]


class _Read:
    """What was read of one partition: how far, the last record, and the conversation's records."""

    def __init__(self, tail: _Tail) -> None:
        self.tail = tail
        self.next = tail.next
        self.last: LogRecord | None = None
        self.records: list[tuple[LogRecord, ContextMessage | SkippedRecord]] = []


def _check_page(tail: _Tail, page: Page) -> None:
    if page.end < tail.next:
        raise StaleCheckpointError(
            f"partition {tail.partition} of {tail.topic.name!r} ends at {page.end}, before {tail.next}: "
            "it was purged, or lost its end",
            topic=tail.topic.name,
            partition=tail.partition,
            expected=tail.next,
            actual=page.end,
        )
    if page.first > tail.next:
        raise RetentionGapError(
            f"partition {tail.partition} of {tail.topic.name!r} now begins at {page.first}: "
            f"the records from {tail.next} on are gone by retention",
            topic=tail.topic.name,
            partition=tail.partition,
            wanted=tail.next,
            first=page.first,
        )


def _order(entry: _Ordered) -> tuple[int, int, int, int]:
    return entry[0]
