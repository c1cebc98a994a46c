"""Resuming at a checkpoint that this client has looked at before asks for less, and notices no less."""

from __future__ import annotations

import pytest

import laser as ls
from laser.model.topics import TopicConfig
from laser.model.window import Match, Page

pytestmark = pytest.mark.anyio

TOPIC = "notes"


class Counting:
    """The log of a client, with its reads counted."""

    def __init__(self, laser: ls.Laser) -> None:
        self.reads = 0
        self._inner = laser.open_log()._log  # type: ignore[attr-defined]
        self._read = self._inner.read
        self._inner.read = self.read

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        self.reads += 1
        page: Page = await self._read(stream, topic, partition, start=start, limit=limit, match=match)
        return page


async def fill(laser: ls.Laser, count: int) -> None:
    for number in range(count):
        await laser.context(ls.derive_conversation_id(f"{number % 7}")).append(TOPIC, f"{number}")


def count(state: int, message: ls.ContextMessage) -> int:
    return state + 1


async def test_a_second_look_reads_one_partition() -> None:
    async with ls.Laser.connect("memory:", cache=1_000_000) as laser:
        await laser.open_log().ensure_topic(laser.stream, TOPIC, TopicConfig(4))
        await fill(laser, 40)
        scope = laser.context(ls.derive_conversation_id("0"))
        checkpoint = await scope.checkpoint([TOPIC])
        counting = Counting(laser)
        assert await scope.state([TOPIC], 0, count, from_checkpoint=checkpoint) == 0
        first = counting.reads
        assert first > 1
        counting.reads = 0
        assert await scope.state([TOPIC], 0, count, from_checkpoint=checkpoint) == 0
        assert counting.reads == 1
        await scope.append(TOPIC, "new")
        counting.reads = 0
        assert await scope.state([TOPIC], 0, count, from_checkpoint=checkpoint) == 1
        assert counting.reads == 1


async def test_a_purge_that_grew_again_is_noticed() -> None:
    async with ls.Laser.connect("memory:", cache=1_000_000) as laser:
        await laser.open_log().ensure_topic(laser.stream, TOPIC, TopicConfig(4))
        await fill(laser, 40)
        scope = laser.context(ls.derive_conversation_id("0"))
        checkpoint = await scope.checkpoint([TOPIC])
        assert await scope.state([TOPIC], 0, count, from_checkpoint=checkpoint) == 0
        await laser.purge_topic(TOPIC)
        await fill(laser, 40)
        after = await scope.checkpoint([TOPIC])
        assert after.topics() == checkpoint.topics()
        with pytest.raises(ls.StaleCheckpointError, match="another record"):
            await scope.state([TOPIC], 0, count, from_checkpoint=checkpoint)
