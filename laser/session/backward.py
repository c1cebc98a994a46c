"""Reading a conversation backward, a page at a time, from where it ended at some moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import anyio.lowlevel
import msgspec

from laser.context.decoding import Copies, decode_record
from laser.context.gathering import gather
from laser.context.resume import check_partition, check_partitions_there, check_topic, record_at
from laser.errors import RetentionGapError, StaleCheckpointError
from laser.limits import COPY_DISTANCE
from laser.model.checkpoint import Checkpoint
from laser.model.messages import ContextMessage, SkippedRecord
from laser.model.topics import AgentTopic, PartitionInfo, TopicInfo
from laser.model.window import Match
from laser.ports.log import Log
from laser.session.gaps import check_beginning

__all__ = ["Backward", "Older"]

_TOPIC: Final = AgentTopic.Sessions
_FIRST_STEP: Final = 512
_MAX_STEP: Final = 65_536
_PAGE: Final = 1_000
_DECODE_CHUNK: Final = 256
# On a cluster clocks can step back: further than this below a session's beginning nothing of it is looked for.
_SLACK_MICROS: Final = 3_600_000_000


class Older(msgspec.Struct, frozen=True):
    """A page.

    Attributes:
        messages, skipped: oldest first. bounds: before which offset of each partition the page before it ends, as
            cursors hold it; ``None`` where there is none. seen: partitions with messages of the conversation so far.
    """

    messages: tuple[ContextMessage, ...]
    skipped: tuple[SkippedRecord, ...]
    bounds: dict[str, int] | None = None
    seen: frozenset[int] = frozenset()


class Backward:
    """Reads pages backward from exclusive bounds.

    The order is that of each partition, newest first; across partitions by time. A cursor holds one bound a partition,
    so whatever is appended meanwhile, no message is missed or given out twice.
    """

    def __init__(
        self,
        log: Log,
        stream: str,
        conversation: str,
        began: Callable[[], Awaitable[int]],
        head: Checkpoint,
        seen: set[int],
    ) -> None:
        self._log = log
        self._stream = stream
        self._conversation = conversation
        self._began = began
        self._head = head
        self._seen = seen

    async def page(self, bounds: dict[int, int], limit: int) -> Older:
        """The newest messages before bounds, and the bounds of the page before it.

        Raises:
            RetentionGapError: there would be older ones, and retention took them. StaleCheckpointError: the log is not
                the one of the head.
        """
        info = await self._log.topic(self._stream, _TOPIC)
        if info is None:
            if any(bounds.values()):
                raise StaleCheckpointError(
                    f"topic {_TOPIC!r} does not exist any more", topic=_TOPIC, partition=None, expected=1, actual=0
                )
            return Older((), ())
        self._check(info, bounds)
        tails = [
            _Tail(self._log, self._stream, self._conversation, info, part, bounds.get(part.id, 0), self._began)
            for part in info.partitions
        ]
        taken: list[ContextMessage | SkippedRecord] = []
        count = 0
        while True:
            await gather([tail.fill for tail in tails])
            ready = [tail for tail in tails if tail.buffer]
            if not ready or count == limit:
                break
            tail = max(ready, key=_Tail.order)
            found = tail.take()
            taken.append(found)
            if isinstance(found, ContextMessage):
                self._seen.add(found.partition)
                count += 1
        taken.reverse()
        messages = tuple(one for one in taken if isinstance(one, ContextMessage))
        skipped = tuple(one for one in taken if isinstance(one, SkippedRecord))
        more = bool(ready)
        if not more:
            more = await self._is_cut(info, raises=not messages)
        at = {str(tail.partition): tail.bound for tail in tails} if more else None
        return Older(messages, skipped, at, frozenset(self._seen))

    async def _is_cut(self, info: TopicInfo, *, raises: bool) -> bool:
        """Whether retention took the beginning of the conversation: the next older page says so."""
        parts = self._seen or {part.id for part in info.partitions}
        try:
            await check_beginning(self._log, self._stream, info, parts, self._began)
        except RetentionGapError:
            if raises:
                raise
            return True
        return False

    def _check(self, info: TopicInfo, bounds: dict[int, int]) -> None:
        mark = self._head.mark(_TOPIC)
        if mark is not None:
            check_topic(info, mark)
        check_partitions_there(info, bounds)
        for part in info.partitions:
            known = None if mark is None else mark.partitions.get(part.id)
            created = None if known is None else known.created_at_micros
            check_partition(info, part, max(bounds.get(part.id, 0), part.first), created)


class _Tail:
    """One partition, read from its end to its beginning."""

    def __init__(
        self,
        log: Log,
        stream: str,
        conversation: str,
        info: TopicInfo,
        part: PartitionInfo,
        bound: int,
        began: Callable[[], Awaitable[int]],
    ) -> None:
        self._log = log
        self._stream = stream
        self._match = Match(conversation)
        self._info = info
        self._first = part.first
        self._low = max(bound, part.first)
        self._step = _FIRST_STEP
        self._began = began
        self.partition = part.id
        self.buffer: deque[tuple[int, ContextMessage | SkippedRecord]] = deque()

    @property
    def bound(self) -> int:
        """Before which offset what was not taken lies."""
        return self.buffer[0][1].offset + 1 if self.buffer else self._low

    def order(self) -> tuple[int, int, int]:
        time, found = self.buffer[0]
        return time, self.partition, found.offset

    def take(self) -> ContextMessage | SkippedRecord:
        return self.buffer.popleft()[1]

    async def fill(self) -> None:
        while not self.buffer and self._low > self._first:
            high, low = self._low, max(self._first, self._low - self._step)
            await self._read(low, high)
            self._low, self._step = low, min(2 * self._step, _MAX_STEP)
            if not self.buffer and low > self._first and await self._is_before(low):
                self._low = self._first

    async def _is_before(self, offset: int) -> bool:
        record = await record_at(self._log, self._stream, self._info.name, self.partition, offset)
        return record is not None and record.timestamp_micros < await self._began() - _SLACK_MICROS

    async def _read(self, low: int, high: int) -> None:
        # What lies just before tells which of these records are copies of an append whose answer was lost.
        copies, at = Copies(), max(self._first, low - COPY_DISTANCE)
        count = 0
        while at < high:
            page = await self._log.read(
                self._stream, self._info.name, self.partition, start=at, limit=_PAGE, match=self._match
            )
            for record in page.records:
                if record.offset >= high:
                    break
                count += 1
                if count % _DECODE_CHUNK == 0:
                    await anyio.lowlevel.checkpoint()
                found = decode_record(record, self._info)
                is_message = isinstance(found, ContextMessage)
                if is_message and copies.note(record, self._match.conversation_id):
                    continue
                if record.offset >= low:
                    self.buffer.appendleft((record.timestamp_micros, found))
            at = max(at, page.next)
            if page.next >= page.end:
                break
