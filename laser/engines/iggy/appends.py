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
from laser.engines.iggy.link import CallExpired, Link, LinkBroken
from laser.engines.iggy.links import Links
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


class _Attempt(msgspec.Struct, frozen=True, gc=False):
    """What is sent where.

    Attributes:
        records: those that are not on the log yet. found: the others, ``None`` when there are none.
    """

    link: Link
    lane: Lane
    layout: Layout
    partition: int
    records: Sequence[NewRecord]
    messages: list[SendMessage]
    found: _Found | None = None

    def receipt(self, response: SendMessagesResponse) -> Appended:
        """Where the server says that the records went. LinkBroken: it names no offset."""
        confirmations = response.confirmations
        if len(confirmations) != 1:
            raise LinkBroken("the answer names no offset")
        sent = confirmations[0]
        base = sent.base_offset
        offsets = (base,) if len(self.records) == 1 else tuple(range(base, base + len(self.records)))
        return Appended(sent.stream_id, sent.topic_id, sent.partition_id, offsets)

    def in_doubt(self, receipt: Appended, now: float) -> bool:
        """Whether the receipt may be another append's; see ``Link.in_doubt``."""
        expected = (self.layout.stream_id, self.layout.topic_id, self.partition)
        return self.link.in_doubt(now) or (receipt.stream_id, receipt.topic_id, receipt.partition) != expected


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
        broken: LinkBroken | None = None
        attempts = 0
        attempt = None if find_first else self._at_once(target, records, messages, key, started)
        while True:
            if attempt is None:
                ready = await self._prepare(
                    target, records, messages, key, find_first, started, deadline, broken, attempts
                )
                if isinstance(ready, Appended):
                    return ready
                attempt = ready
            link, partition = attempt.link, attempt.partition
            future = asyncio.ensure_future(
                link.client.send_messages(target.stream, target.topic, _partitioning(partition), attempt.messages)
            )
            sent = links.loop.time()
            try:
                response = await links.wait(link, future, deadline, size=size)
                if attempt.lane.measuring:
                    attempt.lane.note(link, links.loop.time() - sent, links)
                receipt = attempt.receipt(response)
                if link.clustered and attempt.in_doubt(receipt, links.loop.time()):
                    await self._check(attempt, target, receipt, size, deadline)
                found = attempt.found
                return receipt if found is None else found.appended(records, receipt, attempt.records)
            except asyncio.CancelledError:
                if not future.done():
                    self._given_up[target, partition] = future
                raise
            except LinkBroken as error:
                links.discard(link)
                broken, attempts = error, attempts + 1
            except CallExpired as error:
                raise _indeterminate(target, records, f"no answer within {links.timeout:g} s") from error
            except DRIVER_ERRORS as error:
                gone = fault_of(error) is Fault.ABSENT
                if gone and attempt.layout.read_at < started:
                    self._topics.forget(target)  # it was made anew, with other partitions: look before judging
                elif broken is None or gone:
                    raise translate(error, target, user=links.config.username or "") from error
                else:
                    raise _indeterminate(target, records, str(error)) from error
            attempt = None

    def _at_once(
        self, target: Target, records: Sequence[NewRecord], messages: list[SendMessage], key: str, now: float
    ) -> _Attempt | None:
        """The first attempt, where everything for it is at hand."""
        layout = self._topics.known_layout(target, now)
        if layout is None or self._given_up:
            return None
        partition = partition_of(key, layout.partition_ids)
        lane = self._lanes.of(target, partition)
        link = None if lane.wants_another(self._links) else lane.choose(self._links)
        return None if link is None else _Attempt(link, lane, layout, partition, records, messages)

    async def _prepare(
        self,
        target: Target,
        records: Sequence[NewRecord],
        messages: list[SendMessage],
        key: str,
        find_first: bool,
        started: float,
        deadline: float,
        broken: LinkBroken | None,
        attempts: int,
    ) -> _Attempt | Appended:
        """The next attempt, or where the records are already.

        Raises:
            NotFoundError: the topic is absent. AppendIndeterminateError: there can be no further attempt after one
                that was left without an answer.
        """
        links, found = self._links, None
        try:
            if broken is not None:
                await links.pause(attempts, deadline, broken)
            if broken is not None or find_first:
                found = await self._find(target, records, key, deadline)
            rest = records if found is None else found.missing(records)
            if found is not None and not rest:
                return found.appended(records)
            layout = self._topics.known_layout(target, started) or await self._topics.layout(target, deadline)
            partition = partition_of(key, layout.partition_ids) if found is None else found.partition
            if self._given_up:
                await self._settle((target, partition), deadline)
            lane = self._lanes.of(target, partition)
            if lane.wants_another(links):
                await links.another(deadline)
            link = lane.choose(links) or await links.pick(deadline)
        except NotFoundError:
            raise
        except LaserError as error:
            if broken is None:
                raise
            raise _indeterminate(target, records, str(error)) from error
        return _Attempt(link, lane, layout, partition, rest, messages if rest is records else _messages(rest), found)

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

    async def _check(self, attempt: _Attempt, target: Target, receipt: Appended, size: int, deadline: float) -> None:
        """Reads back what a receipt names. LinkBroken: it is something else."""
        ids = [record.id for record in attempt.records]
        try:
            good = await self._links.on(
                attempt.link,
                lambda client: has_records(client, target, receipt.partition, receipt.offsets[0], ids),
                deadline,
                size=size,
            )
        except DRIVER_ERRORS as error:
            raise LinkBroken(str(error)) from error
        if not good:
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
        # Most batches are of one writer, and share their headers.
        known = {block: headers_of(block) for block in {record.headers for record in records}}
        if len(known) == 1:
            (headers,) = known.values()
            return [SendMessage(record.payload, headers, record.id) for record in records]
        return [SendMessage(record.payload, known[record.headers], record.id) for record in records]
    except InvalidError:
        raise
    except DRIVER_ERRORS as error:
        raise InvalidError(f"records: the Iggy client refused one: {error}", argument="records") from error
