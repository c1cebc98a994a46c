"""Appends: sent once; after a lost answer looked for first, and sent again only where they are not found."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec
from apache_iggy import Partitioning, SendMessage, SendMessagesResponse

from laser.engines.iggy.errors import DRIVER_ERRORS, Fault, Target, absent, fault_of, translate
from laser.engines.iggy.headers import headers_of
from laser.engines.iggy.keys import partition_of, partitions_of
from laser.engines.iggy.lanes import Lane, Lanes
from laser.engines.iggy.links import CallExpired, Link, LinkBroken, Links
from laser.engines.iggy.polls import has_records
from laser.engines.iggy.ranges import Ranges
from laser.engines.iggy.topics import Layout, Topics
from laser.errors import AppendIndeterminateError, InvalidError, LaserError, LimitError, NotFoundError
from laser.limits import MAX_BATCH_BYTES, MAX_PARTITIONS
from laser.model.records import Appended, NewRecord
from laser.wire.routing import route

__all__ = ["Appends"]

_PATIENCE_SECONDS: Final = 5.0  # with an append that was cancelled and has no answer yet


class _Found(msgspec.Struct, frozen=True, gc=False):
    """Records that are on the log: their partition, and their offsets by id."""

    stream_id: int
    topic_id: int
    partition: int
    offsets: dict[int, int]

    def missing(self, records: Sequence[NewRecord]) -> list[NewRecord]:
        """Those of the records that are not among these."""
        return [record for record in records if record.id not in self.offsets]

    def appended(
        self, records: Sequence[NewRecord], sent: Appended | None = None, rest: Sequence[NewRecord] = ()
    ) -> Appended:
        """Where all of the records are; ``sent`` is where the rest of them went just now."""
        offsets = dict(self.offsets)
        if sent is not None:
            offsets.update(zip((record.id for record in rest), sent.offsets, strict=True))
        return Appended(
            self.stream_id, self.topic_id, self.partition, tuple([offsets[record.id] for record in records])
        )


class Appends:
    """The appends of one log."""

    def __init__(self, links: Links, topics: Topics, ranges: Ranges) -> None:
        self._links = links
        self._topics = topics
        self._ranges = ranges
        self._lanes = Lanes()
        # Appends on their way whose callers were cancelled, by where they go. Later ones must not overtake them.
        self._given_up: dict[tuple[Target, int], asyncio.Future[SendMessagesResponse]] = {}

    async def append(
        self, target: Target, records: Sequence[NewRecord], key: str, find_first: bool, deadline: float
    ) -> Appended:
        """Appends records to the partition of a key; see ``laser.ports.log``."""
        links = self._links
        started = links.loop.time()
        size = _check_size(records) if len(records) > 1 else len(records[0].payload)
        messages = _messages(records)
        partition, rest, found = 0, records, None
        broken: LinkBroken | None = None
        attempts = 0
        while True:
            try:
                if broken is not None:
                    await self._links.pause(attempts, deadline, broken)
                if broken is not None or find_first:
                    found = await self._find(target, records, key, deadline)
                    rest = records if found is None else found.missing(records)
                    if found is not None and not rest:
                        return found.appended(records)
                    messages = messages if rest is records else _messages(rest)
                layout = self._topics.known_layout(target, started) or await self._topics.layout(target, deadline)
                partition = partition_of(key, layout.partition_ids) if found is None else found.partition
                if self._given_up:
                    await self._settle((target, partition), deadline)
                lane = self._lanes.of(target, partition)
                if lane.wants_second(links):
                    await links.second(deadline)
                link = lane.choose(links) or await links.pick(deadline)
            except NotFoundError:
                raise
            except LaserError as error:
                if broken is None:
                    raise
                raise _indeterminate(target, records, str(error)) from error
            try:
                sent = await self._send(link, lane, target, partition, layout, rest, messages, size, deadline)
            except LinkBroken as error:
                broken, attempts = error, attempts + 1
            except CallExpired as error:
                raise _indeterminate(target, records, f"no answer within {self._links.timeout:g} s") from error
            except DRIVER_ERRORS as error:
                absent = fault_of(error) is Fault.ABSENT
                if absent and layout.read_at < started:
                    self._topics.forget(target)  # it was made anew, with other partitions: look before judging
                elif broken is None or absent:
                    raise translate(error, target, user=self._links.config.username or "") from error
                else:
                    raise _indeterminate(target, records, str(error)) from error
            else:
                return sent if found is None else found.appended(records, sent, rest)

    async def _find(self, target: Target, records: Sequence[NewRecord], key: str, deadline: float) -> _Found | None:
        """Where records are already: the partition of the key that holds the most of them."""
        info = await self._topics.find(target, deadline)
        if info is None:
            raise absent(target)
        owners = {record.id: route(record.headers, record.payload).conversation_id for record in records}
        best: _Found | None = None
        for partition in partitions_of(key, info.partitions):
            part = next(part for part in info.partitions if part.id == partition)
            offsets = await self._ranges.find(target, info, part, owners, deadline)
            if len(offsets) > (len(best.offsets) if best is not None else 0):
                best = _Found(info.stream_id, info.topic_id, partition, offsets)
            if len(offsets) == len(owners):
                break
        return best

    async def settle(self) -> None:
        """Waits for appends whose callers were cancelled."""
        for place in list(self._given_up):
            await self._settle(place, self._links.deadline())

    async def _settle(self, place: tuple[Target, int], deadline: float) -> None:
        while (answer := self._given_up.get(place)) is not None:
            if not answer.done():
                rest = deadline - self._links.loop.time()
                await asyncio.wait([answer], timeout=max(0.0, min(rest, _PATIENCE_SECONDS)))
            if self._given_up.get(place) is answer:
                del self._given_up[place]

    async def _send(
        self,
        link: Link,
        lane: Lane,
        target: Target,
        partition: int,
        layout: Layout,
        records: Sequence[NewRecord],
        messages: list[SendMessage],
        size: int,
        deadline: float,
    ) -> Appended:
        """Sends records and returns where they are.

        Raises:
            LinkBroken: no answer, none that names an offset, or the answer to another append; see ``Link.in_doubt``.
            CallExpired, DRIVER_ERRORS.
        """
        started = self._links.loop.time() if lane.measuring else 0.0
        future = asyncio.ensure_future(
            link.client.send_messages(target.stream, target.topic, _partitioning(partition), messages)
        )
        try:
            response = await self._links.wait(link, future, deadline, size=size)
        except asyncio.CancelledError:
            if not future.done():
                self._given_up[target, partition] = future
            raise
        if lane.measuring:
            lane.note(link, self._links.loop.time() - started, self._links)
        confirmations = response.confirmations
        if len(confirmations) != 1:
            self._links.discard(link)
            raise LinkBroken("the answer names no offset")
        sent = confirmations[0]
        base = sent.base_offset
        done = Appended(sent.stream_id, sent.topic_id, sent.partition_id, tuple(range(base, base + len(records))))
        if link.clustered and (
            link.in_doubt(self._links.loop.time())
            or (done.stream_id, done.topic_id, done.partition) != (layout.stream_id, layout.topic_id, partition)
        ):
            await self._check(link, target, done, records, size, deadline)
        return done

    async def _check(
        self, link: Link, target: Target, done: Appended, records: Sequence[NewRecord], size: int, deadline: float
    ) -> None:
        ids = [record.id for record in records]
        try:
            good = await self._links.on(
                link,
                lambda client: has_records(client, target, done.partition, done.offsets[0], ids),
                deadline,
                size=size,
            )
        except DRIVER_ERRORS as error:
            self._links.discard(link)
            raise LinkBroken(str(error)) from error
        if not good:
            self._links.discard(link)
            raise LinkBroken("the answer belongs to another append")


@lru_cache(maxsize=MAX_PARTITIONS)
def _partitioning(partition: int) -> Partitioning:
    return Partitioning.partition_id(partition)


def _indeterminate(target: Target, records: Sequence[NewRecord], reason: str) -> AppendIndeterminateError:
    return AppendIndeterminateError(
        f"{target}: {len(records)} record(s) may or may not have been appended ({reason}); "
        "append again with the same ids to make sure",
        record_ids=tuple(record.id for record in records),
    )


def _check_size(records: Sequence[NewRecord]) -> int:
    size = 0
    for record in records:
        size += len(record.payload)
    if size > MAX_BATCH_BYTES:
        raise LimitError(
            f"records: the batch has {size} bytes of payload, allowed are {MAX_BATCH_BYTES}",
            argument="records",
            size=size,
            limit=MAX_BATCH_BYTES,
        )
    return size


def _messages(records: Sequence[NewRecord]) -> list[SendMessage]:
    try:
        return [SendMessage(record.payload, headers_of(record.headers), record.id) for record in records]
    except InvalidError:
        raise
    except DRIVER_ERRORS as error:
        raise InvalidError(f"records: the Iggy client refused one: {error}", argument="records") from error
