"""Ranges of a partition, read page by page up to a known end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from laser.engines.iggy.errors import Target, absent
from laser.engines.iggy.link import Misplaced
from laser.engines.iggy.links import Links
from laser.engines.iggy.polls import Poll, Stretch, find_ids, read_stretch
from laser.engines.iggy.raw import RawPage
from laser.engines.iggy.raw_polls import RawPolls, body_of, read_reply
from laser.engines.iggy.topics import Topics
from laser.errors import CodecError, NotFoundError
from laser.limits import CONTEXT_READ_WINDOW
from laser.model.records import LogRecord
from laser.model.topics import PartitionInfo, TopicInfo
from laser.model.window import Match, Page

__all__ = ["Ranges"]

_PAGE_RECORDS: Final = 5_000
_PAGE_BYTES: Final = 16_000_000
_LOOK_SECONDS: Final = 0.05
_MAX_DENSE: Final = 1_024


class Ranges:
    """Reads of one log."""

    def __init__(self, links: Links, topics: Topics) -> None:
        self._links = links
        self._topics = topics
        self._raw = RawPolls(links)
        self._averages: dict[Target, int] = {}
        # Partitions that hold so much of a conversation that a page of records is more than was asked for.
        self._dense: set[tuple[Target, int, Match | None]] = set()
        # One at a time looks through its page, so that the event loop gets its turn after a part of one page and not
        # after a part of every page that arrived.
        self._turn = asyncio.Lock()

    def note_size(self, target: Target, info: TopicInfo) -> None:
        """Takes note of how large a topic's records are, so that a page of them stays within bounds."""
        self._averages[target] = _average(info)

    async def records(
        self, target: Target, info: TopicInfo, partition: int, low: int, high: int, match: Match | None, deadline: float
    ) -> list[LogRecord]:
        """The matching records with ``low <= offset < high``; what is gone by now is left out."""
        found: list[LogRecord] = []
        at = low
        while at < high:
            count, size = _page(info, high - at)
            stretch = await self._stretch(Poll(target, partition, at, count, deadline, size), match)
            found += stretch.records
            at = stretch.next
            if not stretch.seen:
                at, high = await self._past_hole(target, partition, at, high, deadline)
        while found and found[-1].offset >= high:
            found.pop()
        return found

    async def _stretch(self, poll: Poll, match: Match | None) -> Stretch:
        raw = await self._raw.page(poll)
        if raw is None:
            return await read_stretch(self._links, poll, match)
        return Stretch(list(raw) if match is None else await self._select(raw, match), len(raw), raw.next)

    async def _select(self, raw: RawPage, match: Match) -> list[LogRecord]:
        found: list[LogRecord] = []
        async with self._turn:
            for part in raw.select_parts(match):
                found += part
                await asyncio.sleep(0)
        return found

    async def page(
        self, target: Target, partition: int, start: int, limit: int, match: Match | None, deadline: float
    ) -> Page:
        """A stretch from an offset on; see ``laser.ports.log``."""
        page = await self._raw_page(target, partition, start, limit, match, deadline)
        if page is not None:
            return page
        info = await self._topics.find(target, deadline)
        part = _part(info, partition)
        if info is None:
            raise absent(target)
        if part is None:
            raise NotFoundError(f"{target} has no partition {partition}", stream=target.stream, topic=target.topic)
        self.note_size(target, info)
        at, high = max(start, part.first), part.end
        last = at + max(limit, CONTEXT_READ_WINDOW)  # a page with a match must come to an end as well
        records: list[LogRecord] = []
        while at < min(high, last) and len(records) < limit:
            wanted = high - at if match is not None else min(high - at, limit - len(records))
            count, size = _page(info, wanted)
            stretch = await read_stretch(self._links, Poll(target, partition, at, count, deadline, size), match)
            records += stretch.records
            at = stretch.next
            if not stretch.seen:
                at, high = await self._past_hole(target, partition, at, high, deadline)
        if len(records) > limit:
            del records[limit:]
            at = records[-1].offset + 1
        return Page(records, at, part.first, max(part.end, at) if at > start else part.end)

    async def _raw_page(
        self, target: Target, partition: int, start: int, limit: int, match: Match | None, deadline: float
    ) -> Page | None:
        """The stretch read as bytes, ``None`` where that says too little: nothing there, or a start that is gone."""
        average = self._averages.get(target)
        if average is None or self._raw.usable is False:
            return None
        records: list[LogRecord] = []
        at, end, last = start, start, start + max(limit, CONTEXT_READ_WINDOW)
        while at < last:
            wanted = limit if match is None or (target, partition, match) in self._dense else _PAGE_RECORDS
            count = _count(wanted, average)
            raw = await self._raw.page(Poll(target, partition, at, count, deadline, count * average))
            if raw is None or not len(raw) or raw.first != at:
                break
            page = self._page(target, start, raw)
            if match is None:
                return page
            at, end, average = page.next, page.end, self._averages[target]
            records += await self._select(raw, match)
            # Half of what was asked for is enough: the rest of the next page would have to be read again.
            if at >= end or len(records) >= limit // 2:
                break
        if at == start:
            return None
        place = target, partition, match
        if len(records) > limit:
            # Nearly all records are of this conversation: from now on no more are read than can be used.
            if len(self._dense) >= _MAX_DENSE:
                self._dense.clear()
            self._dense.add(place)
            del records[limit:]
            at = records[-1].offset + 1
        elif len(records) < limit // 4:
            self._dense.discard(place)
        return Page(records, at, start, end)

    def ask(self, target: Target, partition: int, start: int, limit: int, deadline: float) -> tuple[Poll, bytes] | None:
        """The poll of a page without a match, and the body of its command, where polls are read as bytes."""
        average = self._averages.get(target)
        if average is None or not self._raw.usable:
            return None
        count = _count(limit, average)
        poll = Poll(target, partition, start, count, deadline, count * average)
        return poll, body_of(poll)

    def answer(self, poll: Poll, reply: bytes) -> Page | None:
        """The page that the reply to such a poll is, ``None`` where it says too little or does not fit."""
        try:
            raw = read_reply(poll, reply)
        except (CodecError, Misplaced):
            return None
        if not len(raw) or raw.first != poll.start:
            return None
        return self._page(poll.target, poll.start, raw)

    def _page(self, target: Target, start: int, raw: RawPage) -> Page:
        self._averages[target] = max(1, raw.size_bytes // len(raw))
        return Page(raw, raw.next, start, max(raw.current + 1, raw.next))

    async def find(
        self, target: Target, info: TopicInfo, part: PartitionInfo, owners: Mapping[int, str | None], deadline: float
    ) -> dict[int, int]:
        """The offsets of the records with these ids and conversations among the newest of a partition."""
        found: dict[int, int] = {}
        at, high = max(part.first, part.end - CONTEXT_READ_WINDOW), part.end
        while at < high and len(found) < len(owners):
            count, size = _page(info, high - at)
            more, following = await find_ids(self._links, Poll(target, part.id, at, count, deadline, size), owners)
            found = more | found
            if following == at:
                at, high = await self._past_hole(target, part.id, at, high, deadline)
            else:
                at = following
        return found

    async def _past_hole(self, target: Target, partition: int, at: int, high: int, deadline: float) -> tuple[int, int]:
        # Nothing came where records should be: they are gone, or the node is behind. Never taken for the end.
        info = await self._topics.find(target, deadline)
        part = _part(info, partition)
        if part is None:
            return high, high
        first, end = max(at, part.first), min(high, part.end)
        if first == at and at < end:
            if self._links.loop.time() + _LOOK_SECONDS >= deadline:
                raise self._links.late(target)
            await asyncio.sleep(_LOOK_SECONDS)
        return first, end


def _part(info: TopicInfo | None, partition: int) -> PartitionInfo | None:
    return next((part for part in info.partitions if part.id == partition), None) if info is not None else None


def _average(info: TopicInfo) -> int:
    return max(1, info.size_bytes // max(1, info.records))


def _page(info: TopicInfo, wanted: int) -> tuple[int, int]:
    # Records to ask for at once, and the bytes that they may have: about 16 MB at most, by the topic's average.
    average = _average(info)
    count = _count(wanted, average)
    return count, count * average


def _count(wanted: int, average: int) -> int:
    return max(1, min(wanted, _PAGE_RECORDS, _PAGE_BYTES // average))
