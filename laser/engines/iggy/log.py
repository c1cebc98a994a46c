"""The log on Apache Iggy."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from functools import lru_cache

from laser.engines._loop import HomeLoop
from laser.engines._window import read_window
from laser.engines.iggy.appends import Appends
from laser.engines.iggy.config import IggyConfig
from laser.engines.iggy.durability import default_of, durabilities_of
from laser.engines.iggy.errors import Fault, Target
from laser.engines.iggy.links import Links
from laser.engines.iggy.looking import Looks
from laser.engines.iggy.ranges import Ranges
from laser.engines.iggy.topics import Topics
from laser.errors import ClosedError, InvalidError, UnsupportedError
from laser.model.records import Appended, LogRecord, NewRecord
from laser.model.topics import TopicConfig, TopicInfo
from laser.model.window import Match, Page, Window, WindowQuery
from laser.ports.log import EngineInfo

__all__ = ["IggyLog", "open_iggy_log"]


async def open_iggy_log(config: IggyConfig, *, timeout: float) -> IggyLog:
    """Connects to a server or cluster.

    Args:
        timeout: seconds that each call of the log may take in all, and this one.

    Raises:
        UnsupportedError: the event loop is not asyncio.
        DisconnectedError: no address answers. AuthenticationError: the login was refused.
        ConfigError: the TLS settings do not work.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError as error:
        raise UnsupportedError(
            "iggy: its client runs on asyncio only; run the program on asyncio, for example with "
            "anyio.run(main, backend='asyncio'), or use the embedded engine"
        ) from error
    log = IggyLog(config, timeout)
    try:
        await log.open()
    except BaseException:
        await log.aclose()
        raise
    return log


class IggyLog:
    """A ``Log`` (see ``laser.ports.log`` for what that promises) on Apache Iggy. Made by ``open_iggy_log``.

    **Durability.** The strongest that the server offers is the default; ``laser.engines.iggy.durability`` says what
    each one is on which server and what it costs.

    **Connections.** A broken connection is replaced within the call that meets it, at the same address or another one;
    an append whose answer was lost is looked for in its partition before it is sent again. Every call ends within the
    timeout. In a cluster the log follows the primary.

    **Retention.** Iggy removes whole segments and looks once a minute: records over a bound stay for a while, and a
    bound by size is not kept to below about 65 MB a partition.
    """

    _closed = True  # until it is made

    def __init__(self, config: IggyConfig, timeout: float) -> None:
        self._config = config
        self._home = HomeLoop("the Iggy log")
        self._links = Links(config, timeout)
        self._topics = Topics(self._links)
        self._ranges = Ranges(self._links, self._topics)
        self._looks = Looks(self._links, self._topics, self._ranges)
        self._appends = Appends(self._links, self._topics, self._ranges)
        self._closed = False
        self._appending = 0
        self._idle = asyncio.Event()

    def __repr__(self) -> str:
        return f"IggyLog({self._config.location}{', closed' if self._closed else ''})"

    def __del__(self) -> None:
        if not self._closed:
            warnings.warn(f"{self!r} was not closed: use aclose()", ResourceWarning, stacklevel=1, source=self)

    async def open(self) -> None:
        """Opens the first connection."""
        await self._links.open()

    async def ensure_topic(self, stream: str, topic: str, config: TopicConfig) -> TopicInfo:
        """See ``Log.ensure_topic``."""
        return await self._topics.ensure(self._target(stream, topic), config, self._links.deadline())

    async def topic(self, stream: str, topic: str) -> TopicInfo | None:
        """See ``Log.topic``."""
        target = self._target(stream, topic)
        info = await self._topics.find(target, self._links.deadline())
        if info is not None:
            self._ranges.note_size(target, info)
        return info

    async def topics(self, stream: str, names: Sequence[str] | None = None) -> tuple[TopicInfo, ...]:
        """See ``Log.topics``."""
        return await self._topics.all(self._target(stream, "").stream, names, self._links.deadline())

    async def append(
        self, stream: str, topic: str, records: Sequence[NewRecord], *, key: str, find_first: bool = False
    ) -> Appended:
        """See ``Log.append``."""
        target = self._target(stream, topic)
        self._appending += 1
        try:
            return await self._appends.append(target, records, key, find_first, self._links.deadline())
        finally:
            self._appending -= 1
            if self._closed and not self._appending:
                self._idle.set()

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        """See ``Log.read``."""
        target = self._target(stream, topic)
        return await self._ranges.page(target, partition, start, limit, match, self._links.deadline())

    async def look(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int
    ) -> tuple[TopicInfo | None, Page | None]:
        """See ``Log.look``."""
        return await self._looks.look(self._target(stream, topic), partition, start, limit, self._links.deadline())

    async def window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        """See ``Log.window``."""
        target = self._target(stream, topic)
        return await read_window(_Reader(target, self._topics, self._ranges, self._links.deadline()), query)

    async def add_partitions(self, stream: str, topic: str, count: int) -> TopicInfo:
        """See ``Log.add_partitions``."""
        return await self._topics.grow(self._target(stream, topic), count, self._links.deadline())

    async def purge(self, stream: str, topic: str) -> None:
        """See ``Log.purge``."""
        await self._topics.purge(self._target(stream, topic), self._links.deadline())

    async def delete_topic(self, stream: str, topic: str) -> None:
        """See ``Log.delete_topic``."""
        await self._topics.delete(self._target(stream, topic), self._links.deadline())

    async def describe(self) -> EngineInfo:
        """See ``Log.describe``."""
        self._check()
        deadline = self._links.deadline()
        stats = await self._links.repeat(
            lambda client: client.get_stats(), Target(), deadline, tolerate=Fault.FORBIDDEN
        )
        keys = await self._topics.option_keys(deadline)
        return EngineInfo(
            engine="iggy",
            version=str(stats.iggy_server_version) if stats is not None else "unknown",
            location=self._config.location,
            default_durability=default_of(keys),
            durabilities=durabilities_of(keys),
            remote=True,
            steady_clock=_is_replicated(str(stats.iggy_server_version) if stats is not None else ""),
        )

    async def aclose(self) -> None:
        """See ``Log.aclose``."""
        if self._home.forked:
            return
        self._home.check()
        self._closed = True
        if self._appending:
            await self._idle.wait()  # each append ends within the timeout by itself
        await self._appends.settle()
        await self._links.close()

    def _check(self) -> None:
        self._home.check()
        if self._closed:
            raise ClosedError("the Iggy log is closed: open a new one")

    def _target(self, stream: str, topic: str) -> Target:
        self._check()
        return _checked_target(stream, topic)


class _Reader:
    """One window's reads of one topic, under one deadline."""

    def __init__(self, target: Target, topics: Topics, ranges: Ranges, deadline: float) -> None:
        self._target = target
        self._topics = topics
        self._ranges = ranges
        self._deadline = deadline

    async def topic(self) -> TopicInfo | None:
        return await self._topics.find(self._target, self._deadline)

    async def read_range(self, info: TopicInfo, partition: int, low: int, high: int, match: Match) -> list[LogRecord]:
        return await self._ranges.records(self._target, info, partition, low, high, match, self._deadline)


def _is_replicated(version: str) -> bool:
    """Whether a server keeps partitions by consensus, as from 0.9 on.

    Such a server stamps each batch of a partition with a time above that of the one before, on whatever node: the
    replicas carry the last time along. Older ones stamp with the clock of the machine.
    """
    numbers = version.split("-")[0].split(".")[:2]
    return len(numbers) == 2 and all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= (0, 9)


@lru_cache(maxsize=1024)
def _checked_target(stream: str, topic: str) -> Target:
    for name, argument in ((stream, "stream"), (topic, "topic")):
        # The driver takes such a text for the number of a stream or topic, which is another one.
        if name.isascii() and name.isdigit():
            raise InvalidError(
                f"{argument}: {name[:40]!r} is a number to Iggy, not a name; use one with another character in it",
                argument=argument,
            )
    return Target(stream, topic)
