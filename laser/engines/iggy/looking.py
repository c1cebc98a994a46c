"""A topic and a stretch of one of its partitions, asked for at once: what a reader wants to know who was there before.

Whatever is out of the ordinary, from a busy connection to an answer that does not fit, takes the ordinary way of two
calls, which knows how to deal with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from apache_iggy import TopicDetails

from laser.engines._window import in_parallel
from laser.engines.iggy.answers import Answer, let_go
from laser.engines.iggy.errors import DRIVER_ERRORS, Target
from laser.engines.iggy.link import CallExpired, Link, LinkBroken
from laser.engines.iggy.links import Links
from laser.engines.iggy.ranges import Ranges
from laser.engines.iggy.raw import POLL_COMMAND
from laser.engines.iggy.topics import Topics
from laser.errors import NotFoundError
from laser.model.topics import TopicInfo
from laser.model.window import Page

__all__ = ["Looks"]

_LONELY: Final = 32  # looks over the only connection before another one is opened: side by side they take less time
_FAULTS: Final = (LinkBroken, CallExpired, *DRIVER_ERRORS)


class Looks:
    """The looks of one log."""

    def __init__(self, links: Links, topics: Topics, ranges: Ranges) -> None:
        self._links = links
        self._topics = topics
        self._ranges = ranges
        self._lonely = 0

    async def look(
        self, target: Target, partition: int, start: int, limit: int, deadline: float
    ) -> tuple[TopicInfo | None, Page | None]:
        """See ``Log.look``."""
        if len(self._links.all) == 1:
            self._lonely += 1
            if self._lonely == _LONELY:
                await self._links.another(deadline)
        return await self._at_once(target, partition, start, limit, deadline) or await self._one_by_one(
            target, partition, start, limit, deadline
        )

    async def _at_once(
        self, target: Target, partition: int, start: int, limit: int, deadline: float
    ) -> tuple[TopicInfo, Page] | None:
        links, epoch = self._links, self._links.epoch
        idle = [link for link in links.all if not link.busy]
        ask = self._ranges.ask(target, partition, start, limit, deadline)
        if ask is None or not idle or links.in_doubt:
            return None
        poll, body = ask
        one, other = idle[0], idle[-1]
        # Both are under way before either is awaited. A task for each would take longer than the server does.
        first = links.wait(one, asyncio.ensure_future(one.client.get_topic(target.stream, target.topic)), deadline)
        second = links.wait(
            other, asyncio.ensure_future(other.client.send_binary_request(POLL_COMMAND, body)), deadline, size=poll.size
        )
        answers = await _both(first, second, other)
        if answers is None or epoch != links.epoch:
            return None
        details, reply = answers
        info = self._describe(target, details, epoch)
        page = self._ranges.answer(poll, reply)
        return None if info is None or page is None else (info, page)

    def _describe(self, target: Target, details: TopicDetails | None, epoch: int) -> TopicInfo | None:
        if details is None or details.name != target.topic:
            return None
        info = self._topics.describe(target, details, epoch)
        if info is not None:
            self._ranges.note_size(target, info)
        return info

    async def _one_by_one(
        self, target: Target, partition: int, start: int, limit: int, deadline: float
    ) -> tuple[TopicInfo | None, Page | None]:
        async def find() -> TopicInfo | None:
            return await self._topics.find(target, deadline)

        async def read() -> Page | None:
            try:
                return await self._ranges.page(target, partition, start, limit, None, deadline)
            except NotFoundError:
                return None

        calls: list[Any] = [find, read]
        info, page = await in_parallel(calls, len(calls))
        if info is not None:
            self._ranges.note_size(target, info)
        return info, page


async def _both(first: Awaitable[Any], second: Answer[Any], link: Link) -> tuple[Any, Any] | None:
    """Two answers; ``None`` where one is a fault. The link of the second is busy from the beginning."""
    link.busy += 1
    try:
        return await first, await second
    except _FAULTS:
        return None
    finally:
        if second.future.done():
            link.busy -= 1
        else:
            second.future.add_done_callback(link.free)
        second.future.add_done_callback(let_go)
