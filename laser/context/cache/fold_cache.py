"""What is remembered for folds: the records of a conversation from as far back as they were read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from laser.context.cache.stretch import Run
from laser.context.cache.topic_cache import holds_record
from laser.model.records import LogRecord
from laser.model.topics import TopicInfo
from laser.model.window import Match, Page
from laser.ports.log import Log
from laser.wire.batches import select_records

__all__ = ["FoldCache"]

# New records that the poll brings along which looks at the last known one.
_AHEAD = 256

_Key = tuple[str, str, int, Match]


class FoldCache:
    """Runs of matching records, each proven at every read by the raw record at its end."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._runs: OrderedDict[_Key, _ProvenRun] = OrderedDict()

    @property
    def size(self) -> int:
        """Bytes that are held, about."""
        return sum(proven.run.size for proven in self._runs.values())

    def shrink(self, max_bytes: int) -> None:
        """Forgets the least recently read runs until the rest fits."""
        size = self.size
        while self._runs and size > max_bytes:
            size -= self._runs.popitem(last=False)[1].run.size

    def clear(self) -> None:
        """Forgets everything."""
        self._runs.clear()

    async def read(self, stream: str, topic: str, partition: int, start: int, limit: int, match: Match) -> Page:
        """A page of one conversation, from the run that is known of it where there is one."""
        key = (stream, topic, partition, match)
        proven = self._runs.get(key)
        if proven is not None and proven.tail is not None and proven.run.low <= start <= proven.run.high:
            page = await self._continue(key, proven, start, limit)
            if page is not None:
                return page
            self._runs.pop(key, None)
        page = await self._log.read(stream, topic, partition, start=start, limit=limit, match=match)
        await self._remember(key, start, page)
        return page

    async def _continue(self, key: _Key, proven: _ProvenRun, start: int, limit: int) -> Page | None:
        """The page from a run; ``None`` when the run's last record is not there any more."""
        stream, topic, partition, match = key
        tail = proven.tail
        assert tail is not None
        # The last record proves what is known; where the partition begins now tells what retention took.
        info, page = await self._log.look(stream, topic, partition, start=tail[0], limit=_AHEAD)
        first = _first(info, partition)
        if page is None or first is None or first > start or not holds_record(page.records[:1], *tail):
            return None
        run = proven.run
        if page.next > run.high:
            run.extend(select_records(page.records, match), page.next)
            proven.tail = (page.records[-1].offset, page.records[-1].id)
        if key in self._runs:
            self._runs.move_to_end(key)
        records: Sequence[LogRecord] = run.since(start)
        if len(records) > limit:
            return Page(records[:limit], records[limit - 1].offset + 1, first, page.end)
        return Page(records, max(start, run.high), first, page.end)

    async def _remember(self, key: _Key, start: int, page: Page) -> None:
        if page.next <= start or page.first > start:
            return
        stream, topic, partition, _ = key
        proven = self._runs.get(key)
        if proven is None or start != proven.run.high:
            if proven is not None and proven.run.low <= start and page.next <= proven.run.high:
                return
            proven = self._runs[key] = _ProvenRun(Run(start, start))
        proven.run.extend(page.records, page.next)
        proven.tail = None
        self._runs.move_to_end(key)
        if page.next >= page.end:
            # The run has reached the end: from here on its last raw record can prove it.
            last = await self._log.read(stream, topic, partition, start=page.next - 1, limit=1)
            if proven.run.high == page.next and last.records and last.records[0].offset == page.next - 1:
                proven.tail = (last.records[0].offset, last.records[0].id)


def _first(info: TopicInfo | None, partition: int) -> int | None:
    parts = () if info is None else info.partitions
    return next((part.first for part in parts if part.id == partition), None)


class _ProvenRun:
    """A run, and the offset and id of the last raw record of its range; ``None`` while the run is being read."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.tail: tuple[int, int] | None = None
