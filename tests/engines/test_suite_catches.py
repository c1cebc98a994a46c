"""The conformance suite fails on logs with planted bugs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from laser.engines.memory import MemoryLog
from laser.errors import NotFoundError
from laser.model.records import Appended, NewRecord
from laser.model.topics import TopicConfig, TopicInfo
from laser.model.window import Match, Page, Window, WindowQuery
from laser.ports.log import Log
from laser.testing import LogConformance

pytestmark = pytest.mark.anyio


class _Splits(MemoryLog):
    """Other appends can come between the records of a batch."""

    async def append(self, stream: str, topic: str, records: Sequence[NewRecord], **named: Any) -> Appended:
        done = [await super(_Splits, self).append(stream, topic, [record], **named) for record in records]
        return msgspec.structs.replace(done[0], offsets=tuple(one.offsets[0] for one in done))


class _Scatters(MemoryLog):
    """One key goes to several partitions."""

    async def append(
        self, stream: str, topic: str, records: Sequence[NewRecord], *, key: str, find_first: bool = False
    ) -> Appended:
        return await super().append(stream, topic, records, key=f"{key}{records[0].id}", find_first=find_first)


class _Repeats(MemoryLog):
    """A retry writes again."""

    async def append(
        self, stream: str, topic: str, records: Sequence[NewRecord], *, key: str, find_first: bool = False
    ) -> Appended:
        return await super().append(stream, topic, records, key=key)


class _Makes(MemoryLog):
    """An append makes the topic that it does not find."""

    async def append(self, stream: str, topic: str, records: Sequence[NewRecord], **named: Any) -> Appended:
        await self.ensure_topic(stream, topic, TopicConfig(1))
        return await super().append(stream, topic, records, **named)


class _CutsHeaders(MemoryLog):
    """Headers without a conversation are not kept."""

    async def append(self, stream: str, topic: str, records: Sequence[NewRecord], **named: Any) -> Appended:
        kept = [
            record if b"gen_ai.agent.id" in record.headers else NewRecord(record.id, record.payload)
            for record in records
        ]
        return await super().append(stream, topic, kept, **named)


class _EndsShort(MemoryLog):
    """A page that is not full says that the partition ends there."""

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        page = await super().read(stream, topic, partition, start=start, limit=limit, match=match)
        return msgspec.structs.replace(page, next=page.end if len(page.records) > 1 else page.next)


class _ForgetsStrays(MemoryLog):
    """Records of no conversation are left out of windows."""

    async def window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        window = await super().window(stream, topic, query)
        if window is None:
            return None
        kept = [one for one in window.records if b"gen_ai.agent.id" in one.headers]
        return msgspec.structs.replace(window, records=kept)


class _IgnoresStops(MemoryLog):
    """Windows go on past their stops."""

    async def window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        return await super().window(stream, topic, msgspec.structs.replace(query, stops=None))


class _ReachesBack(MemoryLog):
    """A start lets the window reach behind the newest records."""

    async def window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        size = query.size if query.starts is None else 10**9
        return await super().window(stream, topic, msgspec.structs.replace(query, size=size))


class _CutsChildren(MemoryLog):
    """Children are looked for by parent only where they are asked for: not at all."""

    async def window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        own = Match(query.match.conversation_id)
        return await super().window(stream, topic, msgspec.structs.replace(query, match=own))


class _OldestFirst(MemoryLog):
    """Shows the oldest of the window where the newest were asked for."""

    async def window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        window = await super().window(stream, topic, msgspec.structs.replace(query, newest=None))
        if window is None or query.newest is None:
            return window
        return msgspec.structs.replace(window, records=window.records[: query.newest])


class _PurgesHalf(MemoryLog):
    """Purge leaves offsets as they were."""

    async def purge(self, stream: str, topic: str) -> None:
        info = await self.topic(stream, topic)
        if info is None:
            raise NotFoundError("absent", stream=stream, topic=topic)
        for part in self._streams[stream].topics[topic].partitions:
            while part.records:
                part.drop_first()


class _Rebirth(MemoryLog):
    """A topic made anew cannot be told from the one before it."""

    async def ensure_topic(self, stream: str, topic: str, config: TopicConfig) -> TopicInfo:
        info = await super().ensure_topic(stream, topic, config)
        self._streams[stream].topics[topic].created_at = 1
        return msgspec.structs.replace(info, created_at_micros=1)


class _StaysOpen(MemoryLog):
    """Can be used after it was closed."""

    async def aclose(self) -> None:
        return


@pytest.mark.parametrize(
    ("log", "case"),
    [
        (_Splits, "test_batches_of_many_tasks_are_not_mixed"),
        (_Scatters, "test_one_key_one_partition"),
        (_Repeats, "test_find_first_writes_only_what_is_missing"),
        (_Makes, "test_an_absent_topic_is_refused_and_not_made"),
        (_CutsHeaders, "test_records_come_back_as_they_were"),
        (_CutsHeaders, "test_headers_that_are_garbage_come_back_as_they_were"),
        (_EndsShort, "test_pages_together_are_the_partition"),
        (_ForgetsStrays, "test_strays_are_shown_with_any_conversation"),
        (_ForgetsStrays, "test_it_is_what_a_list_says"),
        (_IgnoresStops, "test_stops_end_it"),
        (_IgnoresStops, "test_it_is_what_a_list_says"),
        (_ReachesBack, "test_starts_begin_it"),
        (_CutsChildren, "test_children_by_parent_or_root"),
        (_OldestFirst, "test_it_is_what_a_list_says"),
        (_PurgesHalf, "test_purge_begins_anew"),
        (_Rebirth, "test_a_recreated_topic_is_another_one"),
        (_StaysOpen, "test_a_closed_log_refuses_every_call"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else value,
)
async def test_a_planted_bug_is_caught(log: type[MemoryLog], case: str) -> None:
    arguments = {"test_pages_together_are_the_partition": [7], "test_it_is_what_a_list_says": [0]}.get(case, [])
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await getattr(_suite(log), case)(*arguments)
    await getattr(_suite(MemoryLog), case)(*arguments)


def _suite(kind: type[MemoryLog]) -> LogConformance:
    class Suite(LogConformance):
        shares_data = False
        rounds = 60

        @asynccontextmanager
        async def open_log(self) -> AsyncIterator[Log]:
            log = kind()
            yield log
            await log.aclose()

    return Suite()
