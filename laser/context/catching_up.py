"""Catching up: a read view is brought to where its topic ends now."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, Generic, TypeVar

import anyio.lowlevel
import msgspec
import orjson

from laser.context.gathering import gather
from laser.context.resume import check_partition, check_same_record, check_topic
from laser.errors import NotFoundError, RetentionGapError, StaleCheckpointError
from laser.model.checkpoint import Checkpoint, PartitionMark, TopicMark
from laser.model.checks import check_progress
from laser.model.ids import new_record_id
from laser.model.messages import SkippedRecord
from laser.model.records import LogRecord
from laser.model.topics import PartitionInfo, TopicInfo
from laser.model.window import Page
from laser.ports.log import Log
from laser.ports.views import View
from laser.wire.batches import place_of

__all__ = ["CatchUp", "CatchUpProgress"]

_logger = logging.getLogger("laser.context")

Change = TypeVar("Change")
ViewT = TypeVar("ViewT")
T = TypeVar("T")

_DECODE_CHUNK: Final = 256
_MAX_SKIPPED: Final = 1_000


class CatchUpProgress(msgspec.Struct, frozen=True):
    """How far a view is.

    Attributes:
        read, total: raw records passed, and of the whole way. skipped: records that could not be decoded.
    """

    read: int
    total: int
    skipped: int


class CatchUp(Generic[Change]):
    """Brings one view up to date, for many readers at once.

    Where the topic is not the one that was applied (made anew, purged, cut short by a crash), the view is cleared and
    folded from the start; what retention took from the log goes from the view too.

    Args:
        decode: what a record says; ``None`` for one that is nothing to this view.
        page: records that are read and applied at once; few where one of them may say a lot.

    Attributes:
        skipped: records that could not be decoded, the first 1,000 that this client met.
        epoch: from when to when the view was not cleared, as a name; of the last run that ended. ``None`` where there
            was no topic.
    """

    def __init__(
        self,
        log: Log,
        stream: str,
        topic: str,
        view: View[Change],
        decode: Callable[[LogRecord, TopicInfo], Change | SkippedRecord | None],
        *,
        page: int = 2_000,
    ) -> None:
        self._log = log
        self._place = (stream, topic)
        self._view = view
        self._decode = decode
        self._page = page
        self._lock = anyio.Lock()
        self._finished = float("-inf")
        self.skipped: list[SkippedRecord] = []
        self.epoch: str | None = None

    async def ask(self, view: ViewT, question: Callable[[ViewT], Awaitable[T]]) -> T:
        """The answer of the view, with everything that was on the topic when this was called.

        While another process folds the view anew it holds less than before: a question that met that is asked again.

        Args:
            question: asks the view, once or several times.
        """
        while True:
            await self.run()
            epoch = self.epoch
            answer = await question(view)
            if epoch is None:
                return answer
            position = await self._view.position()
            if position is not None and _epoch_of(position) == epoch:
                return answer

    async def run(self, progress: Callable[[CatchUpProgress], None] | None = None) -> int:
        """Applies everything that was on the topic when this was called.

        Args:
            progress: called after each page, and at the end.

        Returns:
            Raw records that were read.
        """
        check_progress(progress)
        arrived = anyio.current_time()
        async with self._lock:
            # Not where the two are equal: a clock of coarse ticks shows one time before and after a write.
            if self._finished > arrived:
                return 0  # another reader began to catch up after this one had come
            began = anyio.current_time()
            read = await self._run(progress)
            self._finished = began
            return read

    async def rebuild(self, progress: Callable[[CatchUpProgress], None] | None = None) -> int:
        """Clears the view and folds it again from the start."""
        check_progress(progress)
        async with self._lock:
            await self._view.clear(expect=await self._view.position())
            began = anyio.current_time()
            read = await self._run(progress)
            self._finished = began
            return read

    async def _run(self, progress: Callable[[CatchUpProgress], None] | None) -> int:
        while True:
            text = await self._view.position()
            known = None if text is None else Checkpoint.from_json(orjson.loads(text)["checkpoint"])
            epoch = f"{new_record_id():032x}" if text is None else _epoch_of(text)
            info = await self._log.topic(*self._place)
            if info is None:
                if text is not None:
                    await self._view.clear(expect=text)
                self.epoch = None
                return 0
            try:
                read = await self._pass(info, text, _Walk(info, known, epoch), progress)
            except (StaleCheckpointError, NotFoundError) as error:
                _logger.warning("the view of %s is folded anew: %s", info.name, error)
                await self._view.clear(expect=text)
                continue
            if read is not None:
                self.epoch = epoch
                return read
            # Another process applied the same records meanwhile: look again where the view is.
            await anyio.lowlevel.checkpoint()

    async def _pass(
        self,
        info: TopicInfo,
        text: str | None,
        walk: _Walk,
        progress: Callable[[CatchUpProgress], None] | None,
    ) -> int | None:
        pages = await gather([partial(self._first_page, info, part, walk) for part in info.partitions])
        total, read = sum(part.end - walk.offsets[part.id] for part in info.partitions), 0
        firsts = {part.id: part.first for part in info.partitions}
        if walk.position() != text and not any(pages):
            # Nothing new, but something is gone, or was added empty.
            return 0 if await self._view.apply([], firsts=firsts, expect=text, position=walk.position()) else None
        for part, page in zip(info.partitions, pages, strict=True):
            ahead = None if page is None else (page, await self._changes(info, part, page, walk))
            while ahead is not None:
                page, changes = ahead
                before, expect = walk.offsets[part.id], text
                walk.move(part.id, max(before, page.next), page.records[place_of(page.records, before) :])
                text = walk.position()
                # While the view takes this page the next one is read: each waits for another thread or machine.
                reading = _Ahead(partial(self._following, info, part, walk))
                both: list[Callable[[], Awaitable[bool]]] = [
                    partial(self._apply, changes, firsts, expect, text),
                    reading.run,
                ]
                applied, _ = await gather(both)
                ahead = reading.found
                if not applied:
                    return None
                read += walk.offsets[part.id] - before
                if progress is not None:
                    progress(CatchUpProgress(read, max(total, read), len(self.skipped)))
        return read

    async def _apply(
        self, changes: Sequence[Change], firsts: Mapping[int, int], expect: str | None, position: str
    ) -> bool:
        if position == expect:
            return True
        return await self._view.apply(changes, firsts=firsts, expect=expect, position=position)

    async def _following(self, info: TopicInfo, part: PartitionInfo, walk: _Walk) -> tuple[Page, list[Change]] | None:
        if walk.offsets[part.id] >= part.end:
            return None
        page = await self._next_page(info, part, walk)
        return None if page is None else (page, await self._changes(info, part, page, walk))

    async def _first_page(self, info: TopicInfo, part: PartitionInfo, walk: _Walk) -> Page | None:
        """What follows the position, read together with the record before it, which must still be the same."""
        start, last_id = walk.offsets[part.id], walk.last_ids[part.id]
        if last_id is None or start <= part.first:
            return await self._next_page(info, part, walk) if start < part.end else None
        page = await self._log.read(*self._place, part.id, start=start - 1, limit=self._page + 1)
        if page.records and page.records[0].offset == start - 1:
            check_same_record(info, part.id, start - 1, last_id, page.records[0].id)
        return page if page.next > start else None

    async def _next_page(self, info: TopicInfo, part: PartitionInfo, walk: _Walk) -> Page | None:
        start = walk.offsets[part.id]
        page = await self._log.read(*self._place, part.id, start=start, limit=self._page)
        if page.next <= start:
            check_partition(info, PartitionInfo(part.id, part.created_at_micros, page.first, page.end), part.end, None)
            return None
        return page

    async def _changes(self, info: TopicInfo, part: PartitionInfo, page: Page, walk: _Walk) -> list[Change]:
        records = page.records[place_of(page.records, walk.offsets[part.id]) :]
        changes: list[Change] = []
        for count, record in enumerate(records, 1):
            change = self._decode(record, info)
            if isinstance(change, SkippedRecord):
                if len(self.skipped) < _MAX_SKIPPED:
                    self.skipped.append(change)
            elif change is not None:
                changes.append(change)
            if count % _DECODE_CHUNK == 0:
                await anyio.lowlevel.checkpoint()
        return changes


class _Ahead(Generic[Change]):
    """What is read while something else is under way."""

    def __init__(self, read: Callable[[], Awaitable[tuple[Page, list[Change]] | None]]) -> None:
        self._read = read
        self.found: tuple[Page, list[Change]] | None = None

    async def run(self) -> bool:
        self.found = await self._read()
        return True


class _Walk:
    """How far each partition was read.

    Raises:
        StaleCheckpointError: the topic is not the one that was read before.
    """

    def __init__(self, info: TopicInfo, known: Checkpoint | None, epoch: str) -> None:
        self._info = info
        self._epoch = epoch
        offsets = {} if known is None else known.topic_offsets(info.name) or {}
        mark = None if known is None else known.mark(info.name)
        self.offsets: dict[int, int] = {}
        self.last_ids: dict[int, int | None] = {}
        if mark is not None:
            check_topic(info, mark)
        for part in info.partitions:
            start = offsets.get(part.id, part.first)
            seen = None if mark is None else mark.partitions.get(part.id)
            try:
                check_partition(info, part, start, None if seen is None else seen.created_at_micros)
            except RetentionGapError:
                # Records that nobody had folded are gone: a fold from the start would not find them either.
                start, seen = part.first, None
            self.offsets[part.id] = start
            self.last_ids[part.id] = None if seen is None else seen.last_id

    def move(self, partition: int, offset: int, records: Sequence[LogRecord]) -> None:
        self.offsets[partition] = offset
        if records:
            self.last_ids[partition] = records[-1].id if records[-1].offset == offset - 1 else None

    def position(self) -> str:
        info = self._info
        parts = {part.id: PartitionMark(part.created_at_micros, self.last_ids[part.id]) for part in info.partitions}
        mark = TopicMark(info.stream_id, info.stream_created_at_micros, info.topic_id, info.created_at_micros, parts)
        checkpoint = Checkpoint({info.name: self.offsets}, {info.name: mark})
        # With where partitions begin, so that what retention takes moves the position too.
        firsts = {str(part.id): part.first for part in info.partitions}
        position = {"checkpoint": checkpoint.to_json(), "firsts": firsts, "epoch": self._epoch}
        return orjson.dumps(position).decode()


def _epoch_of(position: str) -> str:
    epoch: str = orjson.loads(position).get("epoch", "")
    return epoch
