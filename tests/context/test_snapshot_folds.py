"""Folding from a snapshot: at whatever message it was taken, the result is that of the whole fold."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

import laser as ls
from laser.engines.memory import MemoryLog
from laser.engines.sqlite import open_sqlite_log
from laser.ports.log import Log
from laser.testing.clock import SetClock
from tests.context.folding import SESSIONS, ListStore, chain, count, texts
from tests.context.logs import client_on

pytestmark = pytest.mark.anyio

TOPICS = [ls.AgentTopic.Sessions, ls.AgentTopic.ToolCalls, ls.AgentTopic.ToolResults]
MESSAGES = 300


@pytest.fixture
def scope(laser: ls.Laser) -> ls.ContextScope:
    return laser.context(ls.new_conversation_id())


async def _grow(laser: ls.Laser, scope: ls.ContextScope, messages: int) -> list[ls.Snapshot]:
    """Appends over three topics between other conversations' messages; returns a snapshot before and after each."""
    others = [laser.context(ls.derive_conversation_id(f"{scope.conversation} {name}")) for name in "abc"]
    snapshots: list[ls.Snapshot] = []
    state = ""
    for number in range(messages + 1):
        cp = await scope.checkpoint(TOPICS)
        if snapshots:
            before = await ls.checkpoint_from_snapshot(laser, snapshots[-1], TOPICS)
            state = await scope.state(TOPICS, state, chain, from_checkpoint=before)
        snapshots.append(await ls.snapshot_from_checkpoint(laser, scope.conversation, "chain", cp, state))
        if number < messages:
            await others[number % 3].append(TOPICS[number * 5 % 7 % 3], f"other {number}")
            await scope.append(TOPICS[number * 7 % 11 % 3], f"{number}")
    return snapshots


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_f17_h10_from_every_message_on(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """F17, H10, H15, H18: fold(snapshot at k) + tail = full fold, for every k; the fold tells order and repeats."""
    snapshots = await _grow(laser, scope, MESSAGES)
    full = await scope.state(TOPICS, "", chain, full=True)
    assert full == functools.reduce(chain, await scope.fetch(topics=TOPICS, n=MESSAGES), "")
    assert len({snapshot.state for snapshot in snapshots}) == MESSAGES + 1
    for k, snapshot in enumerate(snapshots):
        assert await scope.state_with(ListStore(snapshot), TOPICS, "", chain) == full, k
        decoded = ls.decode_snapshot(ls.encode_snapshot(snapshot))
        if k % 50 == 0:
            assert await scope.state_with(ListStore(decoded), TOPICS, "", chain) == full, k


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_checkpoints_at_every_message_split_the_fold(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """What comes before a checkpoint and what comes after it are the whole, each message once."""
    marks = []
    for number in range(60):
        marks.append(await scope.checkpoint(TOPICS))
        await scope.append(TOPICS[number * 7 % 11 % 3], f"{number}")
    for k, mark in enumerate(marks):
        mark = ls.Checkpoint.from_json(mark.to_json())
        before = await scope.state(TOPICS, "", chain, at=mark)
        assert await scope.state(TOPICS, before, chain, from_checkpoint=mark) == await scope.state(
            TOPICS, "", chain, full=True
        )
        assert await scope.state(TOPICS, [], texts, at=mark) == [f"{number}" for number in range(k)]


async def _open(engine: str, path: Path, clock: SetClock) -> Log:
    if engine == "memory":
        return MemoryLog(clock=clock)
    return await open_sqlite_log(path, clock=clock)


@pytest.mark.parametrize("engine", ["memory", "embedded"])
@pytest.mark.parametrize("move", ["stands still", "steps back", "jumps"])
async def test_c6_whatever_the_clock_does(engine: str, move: str, tmp_path: Path, stream_name: str) -> None:
    """C6, H18: a message that was folded is never overtaken by a later one, whichever topic it lies on."""
    clock = SetClock(1_700_000_000_000_000)
    async with await client_on(await _open(engine, tmp_path / "data", clock), stream_name) as laser:
        for topic in TOPICS:
            await laser.ensure_topic(topic, 4)
        scope = laser.context(ls.new_conversation_id())
        snapshots = [
            await ls.snapshot_from_checkpoint(laser, scope.conversation, "f", await scope.checkpoint(TOPICS), "")
        ]
        for number in range(40):
            if move == "steps back":
                clock.micros -= 3_600_000_000
            elif move == "jumps":
                clock.micros += (-1) ** number * number * 1_000_000
            await scope.append(TOPICS[2 - number % 3], f"{number}")
            cp = await scope.checkpoint(TOPICS)
            state = await scope.state(TOPICS, "", chain, at=cp)
            snapshots.append(await ls.snapshot_from_checkpoint(laser, scope.conversation, "f", cp, state))
        assert await scope.state(TOPICS, [], texts, full=True) == [f"{number}" for number in range(40)]
        full = await scope.state(TOPICS, "", chain, full=True)
        for snapshot in snapshots:
            assert await scope.state_with(ListStore(snapshot), TOPICS, "", chain) == full


async def test_h9_a_changed_fold_starts_anew(
    laser: ls.Laser, scope: ls.ContextScope, caplog: pytest.LogCaptureFixture
) -> None:
    """H9: state of another version is never mixed with the new code's; the log says so."""
    for number in range(3):
        await scope.append(SESSIONS[0], f"{number}")
    old = ls.TopicSnapshotStore(laser, "f")
    assert await scope.state_with(old, SESSIONS, 100, count, save=ls.AutoSave(every=1)) == 103

    def doubled(state: int, message: ls.ContextMessage) -> int:
        return state + 2

    new = ls.TopicSnapshotStore(laser, "f", version=2)
    with caplog.at_level(logging.WARNING, "laser.context"):
        assert await scope.state_with(new, SESSIONS, 0, doubled, save=ls.AutoSave(every=1)) == 6
    (said,) = [record.getMessage() for record in caplog.records if record.name == "laser.context"]
    assert said == (
        f"snapshot of {scope.conversation} is of fold 'f' version 1, wanted is 'f' version 2: folding from the start"
    )
    caplog.clear()
    await scope.append(SESSIONS[0], "3")
    with caplog.at_level(logging.WARNING, "laser.context"):
        assert await scope.state_with(new, SESSIONS, 0, doubled) == 8
        # The old code goes on with its own: an agent that was not updated yet loses nothing either.
        assert await scope.state_with(old, SESSIONS, 100, count) == 104
    assert not [record for record in caplog.records if record.name == "laser.context"]


@pytest.mark.parametrize("state", [b"", b"{", b"\xff", b"nan", b"[1] 2"])
async def test_h9_an_unreadable_snapshot_is_passed_over_with_a_warning(
    memory_laser: ls.Laser, caplog: pytest.LogCaptureFixture, state: bytes
) -> None:
    """H9: it must never keep a conversation from loading."""
    scope = memory_laser.context(ls.new_conversation_id())
    await scope.append(SESSIONS[0], "a")
    cp = await scope.checkpoint()
    good = await ls.snapshot_from_checkpoint(memory_laser, scope.conversation, "f", cp, 1)
    store = ListStore(msgspec.structs.replace(good, state=state))
    with caplog.at_level(logging.WARNING, "laser.context"):
        assert await scope.state_with(store, SESSIONS, 0, count) == 1
    assert "unreadable state, folding from the start" in caplog.text


async def test_snapshots_of_others_are_refused(memory_laser: ls.Laser, caplog: pytest.LogCaptureFixture) -> None:
    """A store that mixes up conversations or folds must not pass unseen."""
    one, other = (memory_laser.context(ls.new_conversation_id()) for _ in range(2))
    await one.append(SESSIONS[0], "a")
    made = await ls.snapshot_from_checkpoint(memory_laser, one.conversation, "f", await one.checkpoint(), 7)

    class Mixed:
        fold = "g"

        def latest(self, conversation: str) -> ls.Snapshot:
            return made

        def save(self, snapshot: ls.Snapshot) -> None: ...

    with pytest.raises(ls.InvalidError) as caught:
        await other.state_with(Mixed(), SESSIONS, 0, count)
    assert caught.value.argument == "store"
    with caplog.at_level(logging.WARNING, "laser.context"):
        assert await one.state_with(Mixed(), SESSIONS, 0, count) == 1
    assert "is of fold 'f' version 1, wanted is 'g' version 1" in caplog.text
    assert await one.state_with(ListStore(made), SESSIONS, 0, count, save=ls.AutoSave(every=9, fold="h")) == 1
    assert await one.state_with(ListStore(made), SESSIONS, 0, count, save=ls.AutoSave(every=9, fold="f")) == 7
    assert (
        await one.state_with(ListStore(made), SESSIONS, 0, count, save=ls.AutoSave(every=9, fold="f", version=2)) == 1
    )


async def test_h11_h12_state_is_what_was_folded(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """H11, H12: the initial value is given again, never made null; nested values keep their types."""

    def fold(state: Any, message: ls.ContextMessage) -> Any:
        return {**state, "seen": [*state["seen"], {"text": message.text, "score": 1.0, "last": None}]}

    init = {"a": 1, "seen": []}
    store = ls.TopicSnapshotStore(laser, "f")
    for number in range(3):
        await scope.append(SESSIONS[0], f"{number}")
        found = await scope.state_with(store, SESSIONS, init, fold, save=ls.AutoSave(every=1))
        assert found == await scope.state(SESSIONS, init, fold, full=True)
        assert found["a"] == 1
        assert type(found["seen"][0]["score"]) is float
    assert init == {"a": 1, "seen": []}
    # A rewind is a fold up to an earlier checkpoint, from the same initial value.
    assert (await scope.state(SESSIONS, init, fold, at=ls.Checkpoint({SESSIONS[0]: {}}))) == init
