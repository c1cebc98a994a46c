"""Offsets that are handed out again: a checkpoint from before is refused, and a history shows what was lost."""

from __future__ import annotations

import anyio
import pytest

import laser as ls
from laser.client.opening import read_target
from laser.engines.memory import MemoryLog
from laser.model.topics import TopicConfig
from laser.testing.faulty_log import FaultRates, FaultyLog
from laser.testing.history import HistoryRecorder, Seen, check_history

pytestmark = pytest.mark.anyio

TOPIC = "notes"
KEY = ls.derive_conversation_id("one")


async def opened() -> tuple[FaultyLog, ls.Laser]:
    log = FaultyLog(MemoryLog(), FaultRates(), 1)
    laser = ls.Laser(log, read_target("memory:", None, None, None, 30.0))
    await log.ensure_topic(laser.stream, TOPIC, TopicConfig(1))
    return log, laser


def collect(texts: list[str], message: ls.ContextMessage) -> list[str]:
    return [*texts, message.text]


async def say(scope: ls.ContextScope, name: str, count: int) -> list[str]:
    texts = [f"{name} {number}" for number in range(count)]
    for text in texts:
        await scope.append(TOPIC, text)
    return texts


@pytest.mark.parametrize("lost", [1, 4, 10])
@pytest.mark.parametrize("again", [1, 4, 25])
async def test_a_checkpoint_from_before_is_refused(lost: int, again: int) -> None:
    log, laser = await opened()
    async with laser:
        scope = laser.context(KEY)
        before = await say(scope, "old", 10)
        cp = await scope.checkpoint([TOPIC])
        follow = scope.follow([TOPIC], cp)
        with anyio.fail_after(60):
            assert isinstance(await anext(follow), ls.CaughtUp)
        assert await log.lose_newest(laser.stream, TOPIC, lost) == lost
        after = await say(scope, "new", again)
        kept = before[: 10 - lost] + after
        for call in (
            lambda: scope.state([TOPIC], [], collect, from_checkpoint=cp),
            lambda: scope.state([TOPIC], [], collect, at=cp),
            lambda: anext(follow),
        ):
            with pytest.raises(ls.StaleCheckpointError), anyio.fail_after(60):
                await call()
        assert await scope.state([TOPIC], [], collect, full=True) == kept
        assert [message.text for message in await scope.fetch(topics=[TOPIC], n=100)] == kept
        (part,) = (await laser.topic(TOPIC)).partitions
        assert (part.first, part.end) == (0, len(kept))
        assert [message.offset for message in await scope.fetch(topics=[TOPIC], n=100)] == list(range(len(kept)))


async def test_lost_again_and_again() -> None:
    log, laser = await opened()
    async with laser:
        scope = laser.context(KEY)
        kept: list[str] = []
        for turn in range(12):
            kept += await say(scope, f"turn {turn}", 1 + turn % 4)
            count = turn % 5
            assert await log.lose_newest(laser.stream, TOPIC, count) == min(count, len(kept))
            kept = kept[: max(0, len(kept) - count)]
            assert await scope.state([TOPIC], [], collect, full=True) == kept
            for size in (1, 3, 100):
                shown, at = list[str](), 0
                while True:
                    page = await log.read(laser.stream, TOPIC, 0, start=at, limit=size)
                    assert [record.offset for record in page.records] == list(range(at, at + len(page.records)))
                    shown += [record.payload.decode() for record in page.records]
                    at = page.next
                    if at >= page.end:
                        break
                assert shown == kept
        await laser.purge_topic(TOPIC)
        assert await scope.fetch(topics=[TOPIC]) == []
        await say(scope, "fresh", 2)
        assert [message.offset for message in await scope.fetch(topics=[TOPIC])] == [0, 1]


async def test_an_append_that_was_lost_is_written_when_it_is_tried_again() -> None:
    log, laser = await opened()
    async with laser:
        scope = laser.context(KEY)
        first = await scope.append(TOPIC, "a")
        assert (await scope.append(TOPIC, "a", id=first.id)).offset == 0, "it was there"
        await log.lose_newest(laser.stream, TOPIC, 1)
        again = await scope.append(TOPIC, "a", id=first.id)
        assert (again.id, again.offset) == (first.id, 0)
        assert [message.text for message in await scope.fetch(topics=[TOPIC])] == ["a"]


async def test_a_history_shows_what_was_lost() -> None:
    """The planted bug is the log's: it acknowledged, forgot, and gave the places to others."""
    log, laser = await opened()
    async with laser:
        scope, recorder = laser.context(KEY), HistoryRecorder("writer")
        for number in range(8):
            if number == 5:
                await log.lose_newest(laser.stream, TOPIC, 2)
            step = recorder.append(KEY, f"v{number}")
            receipt = await scope.append(TOPIC, f"v{number}")
            recorder.acknowledged(step, receipt.partition, receipt.offset)
        raw = [
            Seen(0, record.offset, record.payload.decode())
            for record in (await log.read(laser.stream, TOPIC, 0, start=0, limit=100)).records
        ]
        visible = [message.text for message in await scope.fetch(topics=[TOPIC], n=100)]
        report = check_history(recorder.operations, raw, visible)
        assert visible == ["v0", "v1", "v2", "v5", "v6", "v7"]
        assert report.counts["lost"] == 2
        assert not report.clean
