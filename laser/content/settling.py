"""Settling: holds of messages end once the log does not hold the message.

Where the catalog is in the log's own file a hold goes with its message. Elsewhere nothing tells the catalog that
retention, a purge or the deletion of a topic took messages, or that a process died between hold and append. So each
collection asks the log.

**The order that never loses.** Put; look at the topic; hold, with the log's identity; append; note the offset in the
hold. A hold ends only when all of this is so:

1. its content was last admitted longer ago than the grace, so that the hold is at least as old; where the append was
   never confirmed, also longer ago than ``CONTENT_GRACE_SECONDS``, whatever grace was asked for;
2. the log that is asked is the one that the hold names: its stream has the same id and creation time. Of another log,
   of a stream that is gone or has no topic left nothing is known, and the hold stays. It stays too while its topic is
   there under another name, which the topic's creation time tells;
3. the log was read after the catalog, and the message was found neither at its offset nor within ``COPY_DISTANCE`` of
   it, where a copy can be; where the append was never confirmed, or the id is the caller's, nowhere in the topic;
4. the hold is still what it was when 3 was found out: an append under way gives it another place.

A message that is found gets its place noted, so that it need not be looked for again. Not every message is looked for
each time: its offset tells that it is below what the topic still has, or past its end. A purge, after which offsets
are used again, shows in the oldest holds of each partition, of which a few are looked at; where one is gone, all of
that partition are.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

import anyio

from laser.content.finding import Claim, TopicView, find, is_in_doubt, look, ranges_of
from laser.content.places import decode_place, encode_place, read_holder
from laser.errors import ConflictError, LaserError
from laser.limits import CONTENT_GRACE_SECONDS
from laser.ports.catalog import Catalog, Hold
from laser.ports.log import Log

__all__ = ["Settling"]

_APPEND_GRACE_MICROS: Final = CONTENT_GRACE_SECONDS * 1_000_000
_TOGETHER: Final = 5_000  # holds of one topic that are looked for in one go
_PROBES: Final = 8  # holds of one partition that are looked at though nothing speaks against them
_KEEP_SECONDS: Final = 5.0

_Topic = tuple[str, str]
_Part = tuple[str, str, int | None]


class Settling:
    """One settling of all holds of messages, or of a tenant's.

    Args:
        keep: keeps the lease of whoever collects, and raises ``ConflictError`` where it is lost. pages: of holds that
            may be looked at. page: holds of one.

    Attributes:
        released: holds that ended because the log has the message no more. unconfirmed: those whose message never came.
            Of a dry run, those that would end. complete: whether all holds were looked at.
        failure: why some messages could not be looked for; their holds stay.
    """

    def __init__(
        self,
        catalog: Catalog,
        log: Log,
        keep: Callable[[], Awaitable[None]],
        *,
        tenant: str | None,
        grace_micros: int,
        dry_run: bool,
        pages: int,
        page: int,
    ) -> None:
        self.released = self.unconfirmed = 0
        self.complete = False
        self.failure: str | None = None
        self._catalog = catalog
        self._log = log
        self._keep_lease = keep
        self._tenant = tenant
        self._grace = grace_micros
        self._dry = dry_run
        self._pages = pages
        self._page = page
        self._views: dict[_Topic, TopicView] = {}
        self._kept_at = float("-inf")

    async def run(self) -> None:
        """Looks at all holds, and once more at those of partitions that turned out to have been purged."""
        probes = await self._walk(frozenset())
        purged = [part for part, claims in probes.items() if not await self._are_there(claims)]
        if purged:
            await self._walk(frozenset(purged))

    async def _walk(self, purged: Collection[_Part]) -> dict[_Part, list[Claim]]:
        """Ends holds whose messages are gone. Returns some that nothing speaks against, the oldest of each partition.

        Args:
            purged: partitions of which every message is looked for, and nothing else is.
        """
        self._views.clear()
        doubts: dict[_Topic, list[Claim]] = {}
        probes: dict[_Part, list[Claim]] = {}
        after: Hold | None = None
        self.complete = False
        for _ in range(self._pages):
            claims, after = await self._next_page(after)
            for claim in claims:
                if purged and claim.part not in purged:
                    continue
                view = await self._view(claim.topic)
                if view.log != claim.place.log:
                    continue
                if claim.part in purged or is_in_doubt(claim, view):
                    waiting = doubts.setdefault(claim.topic, [])
                    waiting.append(claim)
                    if len(waiting) >= _TOGETHER:
                        await self._settle(doubts.pop(claim.topic))
                else:
                    oldest = probes.setdefault(claim.part, [])
                    oldest.append(claim)
                    if len(oldest) > 4 * _PROBES:
                        probes[claim.part] = _oldest(oldest)
            if after is None:
                self.complete = True
                break
        for waiting in doubts.values():
            await self._settle(waiting)
        return {part: _oldest(claims) for part, claims in probes.items()}

    async def _next_page(self, after: Hold | None) -> tuple[list[Claim], Hold | None]:
        """Holds of messages that are old enough to end, and the hold to go on after; ``None`` at the end."""
        await self._keep()
        holds = await self._catalog.placed(tenant=self._tenant, after=after, limit=self._page)
        claims: list[Claim] = []
        for hold in holds:
            name, place = read_holder(hold.holder), decode_place(hold.place)
            if name is None or place is None or hold.age_micros < self._grace:
                continue
            if place.spot is not None or hold.age_micros >= _APPEND_GRACE_MICROS:
                claims.append(Claim(hold, name, place))
        return claims, holds[-1] if len(holds) == self._page else None

    async def _settle(self, claims: Sequence[Claim]) -> None:
        """Looks for messages of one topic, and ends the holds of those that are gone."""
        topic = claims[0].topic
        view = await self._look(topic, others=True)
        mine = [claim for claim in claims if claim.place.log == view.log and claim.place.topic not in view.others]
        try:
            found = (
                {}
                if view.info is None
                else await find(self._log, view.info, mine, ranges_of(view.info, mine), self._keep)
            )
        except ConflictError:
            raise
        except LaserError as error:
            self._fail(topic, error)
            return
        gone = [claim for claim in mine if claim.name not in found]
        moved: list[tuple[Hold, str | None]] = []
        if view.info is not None:
            for claim in mine:
                spot = found.get(claim.name)
                if spot is not None and (spot, view.info.created_at_micros) != (claim.place.spot, claim.place.topic):
                    moved.append((claim.hold, encode_place(claim.place.at(view.info, spot))))
        self.released += await self._end([claim.hold for claim in gone if claim.place.spot is not None])
        self.unconfirmed += await self._end([claim.hold for claim in gone if claim.place.spot is None])
        if moved and not self._dry:
            await self._catalog.settle(moved)

    async def _end(self, holds: Sequence[Hold]) -> int:
        if self._dry or not holds:
            return len(holds)
        return await self._catalog.settle([(hold, None) for hold in holds])

    async def _are_there(self, claims: Sequence[Claim]) -> bool:
        """Whether messages of one partition are exactly where they are said to be."""
        topic = claims[0].topic
        info = (await self._look(topic)).info
        if info is None:
            return False
        try:
            spots = {claim.place.spot for claim in claims}
            ranges = sorted((spot[0], spot[1], spot[1] + 1) for spot in spots if spot is not None)
            found = await find(self._log, info, claims, ranges, self._keep)
        except ConflictError:
            raise
        except LaserError as error:
            self._fail(topic, error)
            return True
        return all(found.get(claim.name) == claim.place.spot for claim in claims)

    async def _view(self, topic: _Topic) -> TopicView:
        """A topic as it was when this walk first came to it."""
        view = self._views.get(topic)
        if view is None:
            view = self._views[topic] = await self._look(topic)
        return view

    async def _look(self, topic: _Topic, *, others: bool = False) -> TopicView:
        try:
            return await look(self._log, *topic, others=others)
        except LaserError as error:
            self._fail(topic, error)
            return TopicView(None, None)

    def _fail(self, topic: _Topic, error: LaserError) -> None:
        self.failure = f"messages of topic {topic[1]!r} of stream {topic[0]!r} could not be looked for: {error}"

    async def _keep(self) -> None:
        now = anyio.current_time()
        if now - self._kept_at >= _KEEP_SECONDS:
            await self._keep_lease()
            self._kept_at = now


def _oldest(claims: Sequence[Claim]) -> list[Claim]:
    return heapq.nsmallest(_PROBES, claims, key=lambda claim: claim.place.mark)
