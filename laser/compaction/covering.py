"""The coverage of sessions, kept between looks: worked out anew only where something was compacted since."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import anyio

from laser.compaction.compaction import Compaction
from laser.compaction.coverage import NO_COVERAGE, Coverage
from laser.compaction.registry import StrategyRegistry
from laser.compaction.saved import SavedState
from laser.context.connection import Connection
from laser.context.tail_fold import TailFold
from laser.errors import NotFoundError
from laser.model.messages import ContextMessage
from laser.model.topics import AgentTopic, TopicInfo

__all__ = ["read_coverage"]

_logger = logging.getLogger("laser.compaction")

_MAX_SESSIONS: Final = 1_024
_MAX_SHAPES: Final = 4
# Messages up to which they are looked at again and again while nothing that was saved fits them.
_LOOK_AGAIN: Final = 256

_FOLD: Final = "laser.compaction.covering"

_Shape = tuple[StrategyRegistry, int | None, bool | None, str | None]
_Version = tuple[object, ...]


async def read_coverage(
    laser: Connection,
    session: str,
    registry: StrategyRegistry,
    *,
    window: int | None = None,
    images: bool | None = None,
    provider: str | None = None,
) -> Coverage:
    """What stands for the older messages of a session, by whatever strategy it has. Nothing is compacted.

    The same object comes back until something changes. The messages themselves are read only then. A session whose
    strategy is not in the registry has no coverage: its messages are all there.

    Args:
        registry: kept by the caller; another one is another look. window, images, provider: see
            ``Compaction.prepare``; for strategies that draw.
    """
    sessions: OrderedDict[str, _Watched] = laser.share("compaction.coverage", OrderedDict)
    watched = sessions.get(session)
    if watched is None:
        watched = sessions[session] = _Watched(laser, session)
        while len(sessions) > _MAX_SESSIONS:
            sessions.popitem(last=False)
    else:
        sessions.move_to_end(session)
    return await watched.read((registry, window, images, provider))


class _Messages(TailFold):
    """The messages of a session, of which nothing is kept: whether the log is still the one that was looked at."""

    def __init__(self, laser: Connection, session: str) -> None:
        super().__init__(laser, session, AgentTopic.Sessions, _FOLD)
        self.firsts: tuple[tuple[int, int], ...] = ()
        self.begin()

    def begin(self) -> None:
        """See ``TailFold.begin``."""
        self.count = 0

    async def take(self, messages: Sequence[ContextMessage], topic: TopicInfo) -> None:
        """See ``TailFold.take``."""
        self.count += len(messages)

    async def end(self, topic: TopicInfo | None) -> None:
        """See ``TailFold.end``."""
        self.firsts = () if topic is None else tuple((part.id, part.first) for part in topic.partitions)


class _Watched:
    """One session."""

    def __init__(self, laser: Connection, session: str) -> None:
        self._laser = laser
        self._session = session
        self._saved = SavedState(laser, session, None)
        self._messages = _Messages(laser, session)
        self._lock = anyio.Lock()
        self._found: OrderedDict[_Shape, tuple[_Version, Coverage, int]] = OrderedDict()

    async def read(self, shape: _Shape) -> Coverage:
        async with self._lock:
            await self._saved.catch_up()
            counted = sum(step.kind in ("saved", "switched") for step in self._saved.steps)
            if self._saved.chosen is None or not any(step.kind == "saved" for step in self._saved.steps):
                return NO_COVERAGE
            await self._messages.catch_up()
            version = self._saved.began, counted, self._messages.began, self._messages.firsts
            held = self._found.get(shape)
            if held is not None and held[0] == version and not self._may_fit_now(held[1], held[2]):
                return held[1]
            registry, window, images, provider = shape
            try:
                coverage = await Compaction(self._laser, self._session, registry=registry, inherit=False).coverage(
                    window=window, images=images, provider=provider
                )
            except NotFoundError as error:
                _logger.warning("session %s: shown whole: %s", self._session, error)
                coverage = NO_COVERAGE
            self._found[shape] = version, coverage, self._messages.count
            self._found.move_to_end(shape)
            while len(self._found) > _MAX_SHAPES:
                self._found.popitem(last=False)
            return coverage

    def _may_fit_now(self, found: Coverage, count: int) -> bool:
        """Whether what was saved fitted none of ``count`` messages, and may fit those that came since.

        That takes messages that went and came back; each time about as many are waited for as there were.
        """
        now = self._messages.count
        return found.last is None and count < now and (now <= _LOOK_AGAIN or now >= 2 * count)
