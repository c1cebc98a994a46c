"""Planted bugs: logs that lie, each in its own way. The histories of the checks must show every one of them."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import msgspec
import pytest

import laser as ls
from laser.client.opening import read_target
from laser.engines.memory import MemoryLog
from laser.model.ids import new_record_id
from laser.model.records import Appended, LogRecord, NewRecord
from laser.model.topics import TopicConfig
from laser.model.window import Match, Page
from tests.survive.histories import PARTITIONS, TOPIC, Campaign, judge, summary

pytestmark = pytest.mark.anyio


class _Lying(MemoryLog):
    """A log that does something else at every 20th call."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def _now(self) -> bool:
        self._calls += 1
        return self._calls % 20 == 0


class Forgets(_Lying):
    """Acknowledges what it has not written."""

    async def append(
        self, stream: str, topic: str, records: Sequence[NewRecord], *, key: str, find_first: bool = False
    ) -> Appended:
        if self._now():
            return Appended(1, 1, 0, tuple(range(len(records))))
        return await super().append(stream, topic, records, key=key, find_first=find_first)


class Doubles(_Lying):
    """Writes a record twice, under two ids."""

    async def append(
        self, stream: str, topic: str, records: Sequence[NewRecord], *, key: str, find_first: bool = False
    ) -> Appended:
        done = await super().append(stream, topic, records, key=key, find_first=find_first)
        if self._now():
            again = [msgspec.structs.replace(record, id=new_record_id()) for record in records]
            await super().append(stream, topic, again, key=key)
        return done


class WritesAndFails(_Lying):
    """Says that nothing was written, when it was."""

    async def append(
        self, stream: str, topic: str, records: Sequence[NewRecord], *, key: str, find_first: bool = False
    ) -> Appended:
        done = await super().append(stream, topic, records, key=key, find_first=find_first)
        if self._now():
            raise ls.DisconnectedError("not sent, says the log")
        return done


class _LyingReads(_Lying):
    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        page = await super().read(stream, topic, partition, start=start, limit=limit, match=match)
        # Polls of the campaign read 200 at once; what is read at the end is the truth.
        lie = limit == 200 and len(page.records) > 1 and self._now()
        return msgspec.structs.replace(page, records=self.lie(list(page.records))) if lie else page

    def lie(self, records: list[LogRecord]) -> list[LogRecord]:
        raise NotImplementedError

    def _now(self) -> bool:
        self._calls += 1
        return self._calls % 3 == 0


class Skips(_LyingReads):
    """Leaves a record out of a page."""

    def lie(self, records: list[LogRecord]) -> list[LogRecord]:
        return records[1:]


class Repeats(_LyingReads):
    """Gives a record twice."""

    def lie(self, records: list[LogRecord]) -> list[LogRecord]:
        return [*records, records[-1]]


class Mixes(_LyingReads):
    """Shows one record's content at another's place."""

    def lie(self, records: list[LogRecord]) -> list[LogRecord]:
        first, second = records[0], records[1]
        swapped = [
            msgspec.structs.replace(first, payload=second.payload),
            msgspec.structs.replace(second, payload=first.payload),
        ]
        return [*swapped, *records[2:]]


async def _history(log: MemoryLog) -> dict[str, int]:
    async with ls.Laser(log, read_target("memory:", None, "survive", None, 30.0)) as laser:
        await log.ensure_topic(laser.stream, TOPIC, TopicConfig(PARTITIONS))
        campaign = Campaign(laser, 1)
        async with anyio.create_task_group() as tasks:
            for task in range(3):
                tasks.start_soon(campaign.write, f"writer {task}", 0.002)
            tasks.start_soon(campaign.poll, "poller")
            with anyio.fail_after(120):
                while len(campaign.acknowledged_at) < 400:
                    await anyio.sleep(0.005)
            campaign.stopped = True
        return summary(await judge(laser, campaign.operations))


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (Forgets, "acknowledged but lost"),
        (Doubles, "visible duplicates"),
        (WritesAndFails, "other findings"),
        (Skips, "silent skips"),
        (Repeats, "other findings"),
        (Mixes, "other findings"),
    ],
)
async def test_a_lie_is_seen(log: type[MemoryLog], found: str) -> None:
    assert (await _history(log()))[found] > 0


async def test_the_truth_is_not_called_a_lie() -> None:
    figures = await _history(MemoryLog())
    assert figures["acknowledged"] >= 400
    assert not any(figures[name] for name in ("acknowledged but lost", "visible duplicates", "silent skips"))
    assert not figures["other findings"]
