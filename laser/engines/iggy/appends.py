"""Appends: sent once; after a lost answer looked for first, and sent again only where they are not found."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec
from apache_iggy import Partitioning, SendMessage, SendMessagesResponse

from laser.engines.iggy.errors import DRIVER_ERRORS, Fault, Target, fault_of, translate
from laser.engines.iggy.headers import headers_of
from laser.engines.iggy.keys import partition_of, partitions_of
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


class _Batch(msgspec.Struct, frozen=True, gc=False):
    """Records on their way to one partition."""

    target: Target
    partition: int
    records: Sequence[NewRecord]
    messages: list[SendMessage]
    size: int


class _Found(msgspec.Struct, frozen=True, gc=False):
    """Records that are on the log: their partition, and their offsets by id."""

    stream_id: int
    topic_id: int
    partition: int
    offsets: dict[int, int]


class Appends:
    """The appends of one log."""

    def __init__(self, links: Links, topics: Topics, ranges: Ranges) -> None:
        self._links = links
        self._topics = topics
        self._ranges = ranges
        # Appends on their way whose callers were cancelled, by where they go. Later ones must not overtake them.
        self._given_up: dict[tuple[Target, int], asyncio.Future[SendMessagesResponse]] = {}

    async def append(
        self, target: Target, records: Sequence[NewRecord], key: str, find_first: bool, deadline: float
    ) -> Appended:
        """Appends records to the partition of a key; see ``laser.ports.log``."""
        started = self._links.loop.time()
        size = _check_size(records)
        messages = _messages(records)
        found: _Found | None = None
        broken: LinkBroken | None = None
        attempts = 0
        while True:
            try:
                if broken is not None:
                    await self._links.pause(attempts, deadline, broken)
                if broken is not None or find_first:
                    found = await self._find(target, records, key, deadline)
                    if found is not None and len(found.offsets) == len(records):
                        return _appended(found, records)
                layout = await self._topics.layout(target, deadline)
                batch = _batch(target, layout, key, records, messages, size, found)
                if self._given_up:
                    await self._settle((target, batch.partition), deadline)
                link = await self._links.pick(deadline)
            except NotFoundError:
                raise
            except LaserError as error:
                if broken is None:
                    raise
                raise _indeterminate(target, records, str(error)) from error
            try:
                sent = await self._send(link, batch, layout, deadline)
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
                if found is not None:
                    sent.offsets.update(found.offsets)
                return _appended(sent, records)

    async def _find(self, target: Target, records: Sequence[NewRecord], key: str, deadline: float) -> _Found | None:
        """Where records are already: the partition of the key that holds the most of them."""
        info = await self._topics.find(target, deadline)
        if info is None:
            raise NotFoundError(f"{target} does not exist", stream=target.stream, topic=target.topic)
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

    async def _send(self, link: Link, batch: _Batch, layout: Layout, deadline: float) -> _Found:
        """Sends a batch and returns where it is.

        Raises:
            LinkBroken: no answer, none that names an offset, or the answer to another append; see ``Link.in_doubt``.
            CallExpired, DRIVER_ERRORS.
        """
        target = batch.target
        answer = asyncio.ensure_future(
            link.client.send_messages(target.stream, target.topic, _partitioning(batch.partition), batch.messages)
        )
        try:
            response = await self._links.wait(link, answer, deadline, size=batch.size)
        except asyncio.CancelledError:
            if not answer.done():
                self._given_up[target, batch.partition] = answer
            raise
        confirmations = response.confirmations
        if len(confirmations) != 1:
            self._links.discard(link)
            raise LinkBroken("the answer names no offset")
        sent = confirmations[0]
        base, partition = sent.base_offset, sent.partition_id
        if link.clustered and (
            link.in_doubt(self._links.loop.time())
            or (sent.stream_id, sent.topic_id, partition) != (layout.stream_id, layout.topic_id, batch.partition)
        ):
            await self._check(link, batch, partition, base, deadline)
        offsets = {record.id: offset for offset, record in enumerate(batch.records, base)}
        return _Found(sent.stream_id, sent.topic_id, partition, offsets)

    async def _check(self, link: Link, batch: _Batch, partition: int, base: int, deadline: float) -> None:
        ids = [record.id for record in batch.records]
        try:
            good = await self._links.on(
                link, lambda client: has_records(client, batch.target, partition, base, ids), deadline, size=batch.size
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


def _batch(
    target: Target,
    layout: Layout,
    key: str,
    records: Sequence[NewRecord],
    messages: list[SendMessage],
    size: int,
    found: _Found | None,
) -> _Batch:
    if found is None:
        return _Batch(target, partition_of(key, layout.partition_ids), records, messages, size)
    rest = [record for record in records if record.id not in found.offsets]
    return _Batch(target, found.partition, rest, _messages(rest), size)


def _appended(found: _Found, records: Sequence[NewRecord]) -> Appended:
    offsets = tuple([found.offsets[record.id] for record in records])
    return Appended(found.stream_id, found.topic_id, found.partition, offsets)


def _indeterminate(target: Target, records: Sequence[NewRecord], reason: str) -> AppendIndeterminateError:
    return AppendIndeterminateError(
        f"{target}: {len(records)} record(s) may or may not have been appended ({reason}); "
        "append again with the same ids to make sure",
        record_ids=tuple(record.id for record in records),
    )


def _check_size(records: Sequence[NewRecord]) -> int:
    size = 0
    for record in records:
        size += len(record.payload) + len(record.headers)
    if size > MAX_BATCH_BYTES and len(records) > 1:
        raise LimitError(
            f"records: the batch has {size} bytes, allowed are {MAX_BATCH_BYTES}",
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
