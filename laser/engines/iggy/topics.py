"""Topics: looked up, described as laser's values, made, grown, emptied and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final, TypeVar

import msgspec
from apache_iggy import IggyClient, IggyExpiry, MaxTopicSize, Partition, StreamDetails, TopicDetails

from laser.engines.iggy.creation import creation
from laser.engines.iggy.durability import durability_of
from laser.engines.iggy.errors import Fault, Target, absent
from laser.engines.iggy.link import Misplaced
from laser.engines.iggy.links import Links
from laser.engines.iggy.polls import Poll, first_held, read_stretch
from laser.errors import LimitError
from laser.limits import MAX_PARTITIONS
from laser.model.topics import Durability, PartitionInfo, TopicConfig, TopicInfo, TopicRetention

__all__ = ["Layout", "Topics"]

K = TypeVar("K")
V = TypeVar("V")

_LOOK_SECONDS: Final = 0.02  # between two looks at a change that the server makes known a little later
_FRESH_SECONDS: Final = 1.0  # that another process's new partitions may go unnoticed
_PURGE_SECONDS: Final = 0.05  # measured: 1 append in 80 right after a purge was lost, none of 160 after 5 ms and more
_CACHED: Final = 4096


class _Home(msgspec.Struct, frozen=True, gc=False):
    """What does not change in the life of one topic. ``key`` tells that life from an earlier one of the same name."""

    key: tuple[int, int]  # id and creation time
    stream_id: int
    stream_created_at_micros: int
    durability: Durability | None


class Layout(msgspec.Struct, frozen=True, gc=False):
    """What an append needs to know of a topic. ``read_at``: when it was read, in the loop's time."""

    stream_id: int
    topic_id: int
    partition_ids: tuple[int, ...]
    read_at: float


class Topics:
    """The topics of one server, through the connections of one log."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._homes: dict[Target, _Home] = {}
        self._firsts: dict[tuple[tuple[int, int], int], int] = {}
        self._layouts: dict[Target, Layout] = {}
        self._option_keys: frozenset[str] | None = None

    async def find(self, target: Target, deadline: float) -> TopicInfo | None:
        """The topic now, ``None`` where it or its stream is absent."""

        async def request(client: IggyClient) -> TopicDetails | None:
            details = await client.get_topic(target.stream, target.topic)
            if details is None and self._links.in_doubt:
                # An answer out of step can look like "absent"; the second one cannot.
                details = await client.get_topic(target.stream, target.topic)
                if details is not None:
                    raise Misplaced
            if details is not None and details.name != target.topic:
                raise Misplaced
            return details

        while True:
            epoch = self._links.epoch
            details = await self._links.repeat(request, target, deadline)
            if details is None:
                self._homes.pop(target, None)
                self.forget(target)
                return None
            home = await self._home(target, details, deadline)
            if home is None:
                # Deleted or made anew between two answers: look again.
                await self._look_again(target, deadline)
                continue
            partitions = [
                self._settled(home, part) or await self._settle(target, home, part, deadline)
                for part in details.partitions
            ]
            if epoch == self._links.epoch:
                return self._note(target, home, details, partitions, epoch)

    def describe(self, target: Target, details: TopicDetails, epoch: int) -> TopicInfo | None:
        """What an answer of the server says, ``None`` where more has to be asked for that: ``find`` does."""
        home = self._homes.get(target)
        if home is None or home.key != (details.id, details.created_at):
            return None
        partitions: list[PartitionInfo] = []
        for part in details.partitions:
            settled = self._settled(home, part)
            if settled is None:
                return None
            partitions.append(settled)
        return self._note(target, home, details, partitions, epoch)

    def _note(
        self, target: Target, home: _Home, details: TopicDetails, partitions: list[PartitionInfo], epoch: int
    ) -> TopicInfo:
        partitions.sort(key=_partition_id)
        info = _describe(target, home, details, partitions, epoch)
        ids = tuple([part.id for part in partitions])
        _room(self._layouts)[target] = Layout(info.stream_id, info.topic_id, ids, self._links.loop.time())
        return info

    def known_layout(self, target: Target, now: float) -> Layout | None:
        """The partitions as they were at most ``_FRESH_SECONDS`` ago, where they were looked at since."""
        layout = self._layouts.get(target)
        return layout if layout is not None and layout.read_at + _FRESH_SECONDS >= now else None

    async def layout(self, target: Target, deadline: float) -> Layout:
        """The partitions now.

        Raises:
            NotFoundError: the topic is absent.
        """
        await self._existing(target, deadline)
        return self._layouts[target]

    def forget(self, target: Target) -> None:
        """Looks at the topic again when it is needed next."""
        self._layouts.pop(target, None)

    async def all(self, stream: str, names: Collection[str] | None, deadline: float) -> tuple[TopicInfo, ...]:
        """The topics of a stream by name, or those of them that are named; none when it is absent."""
        if names is None:
            inside = await self._stream(stream, deadline)
            names = [topic.name for topic in inside.topics] if inside is not None else []
        found = [await self.find(Target(stream, name), deadline) for name in sorted(set(names))]
        return tuple(info for info in found if info is not None)

    async def ensure(self, target: Target, config: TopicConfig, deadline: float) -> TopicInfo:
        """The topic, created with its stream where absent.

        Raises:
            UnsupportedError: the server cannot give the durability or retention; nothing was created.
        """
        info = await self.find(target, deadline)
        if info is not None:
            return info
        keys = await self.option_keys(deadline)
        create = creation(target, config, keys)
        repeat = self._links.repeat
        in_stream = Target(target.stream)
        await repeat(
            lambda client: client.create_stream(target.stream), in_stream, deadline, tolerate=Fault.EXISTS, settle=True
        )
        await repeat(create, target, deadline, tolerate=Fault.EXISTS, settle=True)
        return await self._await_partitions(target, 1, deadline)

    async def grow(self, target: Target, count: int, deadline: float) -> TopicInfo:
        """Adds partitions.

        Raises:
            NotFoundError: the topic is absent. LimitError: there would be more than ``MAX_PARTITIONS``.
        """
        before = await self._existing(target, deadline)
        wanted = len(before.partitions) + count
        if wanted > MAX_PARTITIONS:
            raise LimitError(
                f"count: {target} has {len(before.partitions)} partitions and would have {wanted}, "
                f"allowed are {MAX_PARTITIONS}",
                argument="count",
                size=wanted,
                limit=MAX_PARTITIONS,
            )
        attempts = 0

        async def request(client: IggyClient) -> None:
            nonlocal attempts
            attempts += 1
            if attempts > 1:
                # The answer to an earlier attempt was lost; it may have been carried out all the same.
                now = await client.get_topic(target.stream, target.topic)
                if now is not None and now.partitions_count >= wanted:
                    return
            await client.create_partitions(target.stream, target.topic, count)

        await self._links.repeat(request, target, deadline, settle=True)
        return await self._await_partitions(target, wanted, deadline)

    async def purge(self, target: Target, deadline: float) -> None:
        """Removes every record. NotFoundError: the topic is absent."""
        before = await self._existing(target, deadline)
        filled = [part for part in before.partitions if part.end > part.first]
        oldest = [await self._oldest(target, part, deadline) for part in filled]
        await self._links.repeat(
            lambda client: client.purge_topic(target.stream, target.topic), target, deadline, settle=True
        )
        self._firsts.clear()
        # The server answers before its partitions have let go of their records, and what is appended until then goes
        # with them, acknowledged or not. Partitions that held nothing do not show when it is their turn.
        for part, record in zip(filled, oldest, strict=True):
            while record is not None and await self._oldest(target, part, deadline) == record:
                await self._look_again(target, deadline)
        await asyncio.sleep(_PURGE_SECONDS)

    async def _oldest(self, target: Target, part: PartitionInfo, deadline: float) -> tuple[int, int] | None:
        """Offset and id of the first record held."""
        found = await read_stretch(self._links, Poll(target, part.id, part.first, 1, deadline), None)
        return (found.records[0].offset, found.records[0].id) if found.records else None

    async def delete(self, target: Target, deadline: float) -> None:
        """Removes a topic. NotFoundError: it is absent."""
        await self._existing(target, deadline)
        # It is there, so "absent" can only be the answer after another one was lost.
        await self._links.repeat(
            lambda client: client.delete_topic(target.stream, target.topic),
            target,
            deadline,
            tolerate=Fault.ABSENT,
            settle=True,
        )
        self._homes.pop(target, None)
        self.forget(target)

    async def option_keys(self, deadline: float) -> frozenset[str]:
        """The options that the server takes when a topic is created."""
        if self._option_keys is None:
            specs = await self._links.repeat(
                lambda client: client.describe_options("topic"), Target(), deadline, tolerate=Fault.UNSUPPORTED
            )
            self._option_keys = frozenset(spec.key for spec in specs or ())
        return self._option_keys

    async def _existing(self, target: Target, deadline: float) -> TopicInfo:
        info = await self.find(target, deadline)
        if info is None:
            raise absent(target)
        return info

    async def _await_partitions(self, target: Target, count: int, deadline: float) -> TopicInfo:
        while True:
            info = await self.find(target, deadline)
            if info is not None and len(info.partitions) >= count:
                return info
            await self._look_again(target, deadline)

    async def _look_again(self, target: Target, deadline: float) -> None:
        if self._links.loop.time() + _LOOK_SECONDS >= deadline:
            raise self._links.late(target)
        await asyncio.sleep(_LOOK_SECONDS)

    async def _stream(self, stream: str, deadline: float) -> StreamDetails | None:
        async def request(client: IggyClient) -> StreamDetails | None:
            details = await client.get_stream(stream)
            if details is not None and details.name != stream:
                raise Misplaced
            return details

        return await self._links.repeat(request, Target(stream), deadline)

    async def _home(self, target: Target, details: TopicDetails, deadline: float) -> _Home | None:
        key = (details.id, details.created_at)
        home = self._homes.get(target)
        if home is not None and home.key == key:
            return home
        inside = await self._stream(target.stream, deadline)
        if inside is None or key not in [(topic.id, topic.created_at) for topic in inside.topics]:
            return None
        options: dict[Any, Any] = {**details.derived_options.to_scalar_dict(), **details.options.to_scalar_dict()}
        home = _Home(key, inside.id, inside.created_at, durability_of(options))
        _room(self._homes)[target] = home
        return home

    def _settled(self, home: _Home, part: Partition) -> PartitionInfo | None:
        """A partition, ``None`` where only a poll can tell what it holds."""
        number, end, count = part.id, part.current_offset + 1, part.messages_count
        if count == 0 and end == 1:
            return PartitionInfo(number, part.created_at, 0, 0)
        first = max(0, end - count)
        if first and self._firsts.get((home.key, number)) != first:
            # Retention took records, or the two counters were read while a batch came in.
            return None
        return PartitionInfo(number, part.created_at, first, end)

    async def _settle(self, target: Target, home: _Home, part: Partition, deadline: float) -> PartitionInfo:
        held = await first_held(self._links, target, part.id, deadline)
        end = part.current_offset + 1
        first = end if held is None else min(held, end)
        _room(self._firsts)[home.key, part.id] = first
        return PartitionInfo(part.id, part.created_at, first, end)


def _partition_id(part: PartitionInfo) -> int:
    return part.id


def _room(cache: dict[K, V]) -> dict[K, V]:
    if len(cache) >= _CACHED:
        cache.clear()
    return cache


def _describe(
    target: Target, home: _Home, details: TopicDetails, partitions: list[PartitionInfo], epoch: int
) -> TopicInfo:
    expiry, bound = details.message_expiry, details.max_topic_size
    age = max(expiry.duration, timedelta(milliseconds=1)) if isinstance(expiry, IggyExpiry.ExpireDuration) else None
    size = bound.bytes if isinstance(bound, MaxTopicSize.Custom) else None
    return TopicInfo(
        stream=target.stream,
        stream_id=home.stream_id,
        stream_created_at_micros=home.stream_created_at_micros,
        name=target.topic,
        topic_id=details.id,
        created_at_micros=details.created_at,
        retention=TopicRetention(expire_after=age, max_size=size) if age or size else None,
        durability=home.durability,
        size_bytes=details.size,
        partitions=tuple(partitions),
        epoch=epoch,
    )
