"""Tail folds: every message once, whatever happens to a look, to the log and to what it still holds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import laser as ls
from laser.context.connection import Connection
from laser.context.tail_fold import TailFold
from laser.engines.memory import MemoryLog
from laser.model.window import Page
from tests.context.logs import client_on, port

pytestmark = pytest.mark.anyio

TOPIC = "topic"


class Texts(TailFold):
    """The texts of a conversation. Each is taken in two steps, so that a look can be cut short between them."""

    def __init__(self, laser: Connection, conversation: str) -> None:
        super().__init__(laser, conversation, TOPIC, "texts", chunk=2)
        self.texts: list[str] = []
        self.ends = 0
        self.kept: ls.Snapshot | None = None
        self.kept_texts: list[str] = []

    def begin(self) -> None:
        self.texts = []

    async def saved(self) -> ls.Snapshot | None:
        self.texts = list(self.kept_texts) if self.kept is not None else []
        return self.kept

    async def take(self, messages: Sequence[ls.ContextMessage], topic: object) -> None:
        for message in messages:
            self.texts.append(message.text)
            await anyio.lowlevel.checkpoint()

    async def end(self, topic: object) -> None:
        self.ends += 1


class Strict(Texts):
    """One that does not begin anew where retention took something."""

    anew_after = (ls.StaleCheckpointError,)


class FailingReads(MemoryLog):
    """A log whose topics can be looked up, and that cannot be read for a while."""

    fails = False

    async def read(self, *args: Any, **more: Any) -> Page:
        if self.fails:
            raise ls.DisconnectedError("gone for a while")
        return await super().read(*args, **more)


async def test_only_what_is_new(laser: ls.Laser) -> None:
    scope = laser.context(ls.new_conversation_id())
    fold = Texts(laser, scope.conversation)
    assert await fold.catch_up() == 0, "an absent topic has nothing"
    assert (fold.place, fold.is_whole) == (None, True)
    await laser.ensure_topic(TOPIC, partitions=4)
    said: list[str] = []
    for number in range(7):
        for other in range(3):
            await laser.context(ls.new_conversation_id()).append(TOPIC, f"other {other}")
        await scope.append_many(TOPIC, [f"{number} a", f"{number} b", f"{number} c"])
        said += [f"{number} a", f"{number} b", f"{number} c"]
        assert await fold.catch_up() == 3
        assert await fold.catch_up() == 0
        assert fold.texts == said
    assert fold.began == 1


async def test_another_log_is_folded_anew(laser: ls.Laser) -> None:
    log, stream = port(laser), laser.stream
    await laser.ensure_topic(TOPIC, partitions=2)
    scope = laser.context(ls.new_conversation_id())
    fold = Texts(laser, scope.conversation)
    await scope.append_many(TOPIC, ["a", "b", "c"])
    await fold.catch_up()
    await log.purge(stream, TOPIC)
    # As many as there were: only the record before the place tells.
    await scope.append_many(TOPIC, ["d", "e", "f"])
    await fold.catch_up()
    assert fold.texts == ["d", "e", "f"]
    assert (await fold.catch_up(), fold.began) == (0, 2), "it knows the record that it ended with"
    await log.delete_topic(stream, TOPIC)
    await fold.catch_up()
    assert fold.texts == []
    await laser.ensure_topic(TOPIC, partitions=2)
    await scope.append_many(TOPIC, ["g", "h", "i", "j"])
    await fold.catch_up()
    assert fold.texts == ["g", "h", "i", "j"]


async def test_a_look_cancelled_at_every_await(memory_laser: ls.Laser) -> None:
    await memory_laser.ensure_topic(TOPIC, partitions=2)
    scope = memory_laser.context(ls.new_conversation_id())
    fold = Texts(memory_laser, scope.conversation)
    said: list[str] = []
    done: list[int] = []

    async def look() -> None:
        done.append(await fold.catch_up())

    for steps in range(1_000):
        said += [f"{steps} a", f"{steps} b", f"{steps} c"]
        await scope.append_many(TOPIC, said[-3:])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        began = fold.began
        await fold.catch_up()
        assert fold.texts == said
        if done:
            assert fold.began == began, "what was whole is gone on from"
            break
    assert steps > 3
    assert fold.began > 1, "what was taken in part is not gone on from"


async def test_a_look_that_took_nothing_keeps_what_there_is() -> None:
    log = FailingReads()
    async with await client_on(log, "main") as laser:
        await laser.ensure_topic(TOPIC, partitions=1)
        scope = laser.context(ls.new_conversation_id())
        fold = Texts(laser, scope.conversation)
        await scope.append(TOPIC, "a")
        await fold.catch_up()
        await scope.append(TOPIC, "b")
        log.fails = True
        with pytest.raises(ls.DisconnectedError):
            await fold.catch_up()
        log.fails = False
        assert await fold.catch_up() == 1
        assert (fold.texts, fold.began) == (["a", "b"], 1)


async def test_what_was_saved_is_gone_on_from_where_it_fits(laser: ls.Laser) -> None:
    await laser.ensure_topic(TOPIC, partitions=2)
    scope = laser.context(ls.new_conversation_id())
    first = Texts(laser, scope.conversation)
    await scope.append_many(TOPIC, ["a", "b"])
    await first.catch_up()
    kept = first.place
    assert kept is not None
    await scope.append(TOPIC, "c")
    second = Texts(laser, scope.conversation)
    second.kept, second.kept_texts = kept, ["saved"]
    assert await second.catch_up() == 1
    assert second.texts == ["saved", "c"]
    await port(laser).purge(laser.stream, TOPIC)
    await scope.append_many(TOPIC, ["d", "e", "f", "g"])
    for fold in (second, Texts(laser, scope.conversation)):
        fold.kept, fold.kept_texts = kept, ["saved"]
        assert await fold.catch_up() == 4
        assert fold.texts == ["d", "e", "f", "g"], "the saved one is of the log before"


async def test_gaps(tmp_path: Path) -> None:
    async with ls.Laser.connect(f"embedded:{tmp_path / 'data'}") as laser:
        await laser.ensure_topic(TOPIC, partitions=1, retention=ls.TopicRetention(timedelta(days=1), max_size=100_000))
        scope = laser.context(ls.new_conversation_id())
        loose, strict = Texts(laser, scope.conversation), Strict(laser, scope.conversation)
        await scope.append(TOPIC, "first")
        await loose.catch_up()
        await strict.catch_up()
        for number in range(40):
            await scope.append(TOPIC, f"{number:04d}" * 1_000)
        (part,) = (await laser.topic(TOPIC)).partitions
        assert part.first > 1
        await loose.catch_up()
        # Retention may take one more while this reads.
        left = [int(text[:4]) for text in loose.texts]
        assert part.first - 1 <= left[0] < 39
        assert left == list(range(left[0], 40))
        for _ in range(2):
            with pytest.raises(ls.RetentionGapError):
                await strict.catch_up()
            assert (strict.texts, strict.began) == (["first"], 1)
