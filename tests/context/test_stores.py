"""Stores of snapshots: on a topic, and of one's own. See ``tests/engines/test_kv_snapshots.py`` for the others."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec
import pytest

import laser as ls
from laser.limits import CONTEXT_READ_WINDOW
from laser.model.ids import new_record_id, ulid_bytes
from laser.model.records import NewRecord
from laser.model.window import Match, Page
from laser.ports.log import Log
from tests.context.folding import SESSIONS, ListStore, count, texts

pytestmark = pytest.mark.anyio

TOPIC = SESSIONS[0]
SNAPSHOTS = ls.AgentTopic.Snapshots


@pytest.fixture
def scope(laser: ls.Laser) -> ls.ContextScope:
    return laser.context(ls.new_conversation_id())


async def snapshots(laser: ls.Laser, scope: ls.ContextScope, number: int, fold: str = "f") -> list[ls.Snapshot]:
    """Snapshots of a growing conversation, each of one message more than the one before."""
    made = []
    for at in range(1, number + 1):
        await scope.append(TOPIC, f"{at}")
        cp = await scope.checkpoint()
        made.append(await ls.snapshot_from_checkpoint(laser, scope.conversation, fold, cp, at))
    return made


async def put(laser: ls.Laser, scope: ls.ContextScope, *payloads: bytes, topic: str = SNAPSHOTS) -> None:
    """Appends raw records where the conversation's snapshots are."""
    records = [NewRecord(new_record_id(), payload) for payload in payloads]
    await laser.open_log().append(laser.stream, topic, records, key=scope.conversation)


async def test_save_and_latest(laser: ls.Laser, scope: ls.ContextScope) -> None:
    store = ls.TopicSnapshotStore(laser, "f")
    assert await store.latest(scope.conversation) is None
    one, two = await snapshots(laser, scope, 2)
    await store.save(one)
    assert await store.latest(scope.conversation) == one
    assert await store.latest(scope.conversation.lower()) == one
    await store.save(two)
    assert await store.latest(scope.conversation) == two
    assert await ls.TopicSnapshotStore(laser, "g").latest(scope.conversation) is None
    assert await store.latest(ls.new_conversation_id()) is None
    with pytest.raises(ls.IdError):
        await store.latest("no id")


async def test_what_lies_between_changes_nothing(
    laser: ls.Laser, scope: ls.ContextScope, caplog: pytest.LogCaptureFixture
) -> None:
    """Snapshots of other conversations and folds, and records of anybody's, on the same partition."""
    store = ls.TopicSnapshotStore(laser, "f")
    (mine,) = await snapshots(laser, scope, 1)
    await store.save(mine)
    other = msgspec.structs.replace(mine, conversation=ls.new_conversation_id())
    inside = msgspec.structs.replace(other, state=b'"' + mine.conversation.encode() + b'"')
    noise = [ls.encode_snapshot(one) for one in (other, inside, msgspec.structs.replace(mine, fold="g"))]
    await put(laser, scope, *noise * 40, b"\0", b"{}", b"\xff" * 30)
    damaged = ls.encode_snapshot(mine)[:-1]
    assert ulid_bytes(scope.conversation) in damaged
    await put(laser, scope, damaged)
    with caplog.at_level(logging.WARNING, "laser.context"):
        assert await store.latest(scope.conversation) == mine
    assert len(caplog.records) == 1
    assert "is no snapshot and is passed over" in caplog.text


async def test_on_another_topic(laser: ls.Laser, scope: ls.ContextScope) -> None:
    store = ls.TopicSnapshotStore.on_topic(laser, "mine", "f")
    (one,) = await snapshots(laser, scope, 1)
    assert await store.latest(scope.conversation) is None
    with pytest.raises(ls.NotFoundError) as caught:
        await store.save(one)
    assert caught.value.topic == "mine"
    await laser.ensure_topic("mine", 2)
    await store.save(one)
    assert await store.latest(scope.conversation) == one
    assert await ls.TopicSnapshotStore(laser, "f").latest(scope.conversation) is None
    assert repr(store) == "TopicSnapshotStore('mine', fold='f', version=1)"


async def test_added_partitions(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """The conversation's next snapshots may go to another partition; the newest is the newest by time."""
    await laser.ensure_topic("small", 1)
    store = ls.TopicSnapshotStore.on_topic(laser, "small", "f")
    made = await snapshots(laser, scope, 12)
    for number, snapshot in enumerate(made):
        if number % 2:
            await laser.add_partitions("small", 1)
        await store.save(snapshot)
        assert await store.latest(scope.conversation) == snapshot
    filled = [part for part in (await laser.topic("small")).partitions if part.end]
    assert len(filled) > 1, "every snapshot went to one partition, so nothing was shown"


class Watched:
    """A log that notes what is read of it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.reads: list[tuple[int, int, int]] = []

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        self.reads.append((partition, start, limit))
        return await self._log.read(stream, topic, partition, start=start, limit=limit, match=match)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


async def test_the_backward_scan_is_bounded(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await laser.ensure_topic("one", 1)
    store = ls.TopicSnapshotStore.on_topic(laser, "one", "f")
    (mine,) = await snapshots(laser, scope, 1)
    await store.save(mine)
    watched = Watched(laser.open_log())
    laser._log = watched  # type: ignore[assignment]
    assert await store.latest(scope.conversation) == mine
    assert watched.reads == [(0, 0, 1)]

    other = ls.encode_snapshot(msgspec.structs.replace(mine, conversation=ls.new_conversation_id()))
    await put(laser, scope, *[other] * 100, topic="one")
    watched.reads.clear()
    fresh = ls.TopicSnapshotStore.on_topic(laser, "one", "f")
    assert await fresh.latest(scope.conversation) == mine
    assert [read[1:] for read in watched.reads] == [(85, 16), (21, 64), (0, 21)]
    # A store that has found it before reads what is new, and looks whether it is still there.
    watched.reads.clear()
    assert await store.latest(scope.conversation) == mine
    assert [read[1:] for read in watched.reads] == [(0, 1), (85, 16), (21, 64), (1, 20)]
    watched.reads.clear()
    assert await store.latest(scope.conversation) == mine
    assert [read[1:] for read in watched.reads] == [(0, 1)]

    await put(laser, scope, *[b"x"] * (CONTEXT_READ_WINDOW - 100), topic="one")
    watched.reads.clear()
    fresh = ls.TopicSnapshotStore.on_topic(laser, "one", "f")
    assert await fresh.latest(scope.conversation) is None
    assert min(start for _, start, _ in watched.reads) == 1
    assert sum(limit for _, _, limit in watched.reads) == CONTEXT_READ_WINDOW


async def test_the_scan_does_not_walk_below_the_first_record_held(memory_laser: ls.Laser) -> None:
    laser, scope = memory_laser, memory_laser.context(ls.new_conversation_id())
    await laser.ensure_topic("bounded", 1, ls.TopicRetention(max_size=3_000))
    store = ls.TopicSnapshotStore.on_topic(laser, "bounded", "f")
    (mine,) = await snapshots(laser, scope, 1)
    await store.save(mine)
    for _ in range(30):
        await put(laser, scope, b"x" * 200, topic="bounded")
    (part,) = (await laser.topic("bounded")).partitions
    assert part.first > 1
    watched = Watched(laser.open_log())
    laser._log = watched  # type: ignore[assignment]
    assert await store.latest(scope.conversation) is None
    assert watched.reads
    assert min(start for _, start, _ in watched.reads) == part.first


@pytest.mark.parametrize("seed", range(4))
async def test_an_older_snapshot_never_becomes_the_latest(laser: ls.Laser, scope: ls.ContextScope, seed: int) -> None:
    """Savers that were held up come late, in any order, and more than one at once."""
    store = ls.TopicSnapshotStore(laser, "f")
    made = await snapshots(laser, scope, 20)
    order = random.Random(seed).sample(range(20), 20)
    best = -1
    for at in order:
        if at % 3:
            await store.save(made[at])
        else:
            # As one that looked before the others saved, and saved after them.
            await put(laser, scope, ls.encode_snapshot(made[at]))
        best = max(best, at)
        assert await store.latest(scope.conversation) == made[best]


async def test_a_save_that_comes_late_writes_nothing(laser: ls.Laser, scope: ls.ContextScope) -> None:
    store = ls.TopicSnapshotStore(laser, "f")
    one, two = await snapshots(laser, scope, 2)
    await store.save(two)
    before = (await laser.topic(SNAPSHOTS)).records
    await store.save(one)
    assert (await laser.topic(SNAPSHOTS)).records == before
    # What folded as much may have another state: the fold was mended.
    mended = msgspec.structs.replace(two, state=b"7")
    await store.save(mended)
    assert await store.latest(scope.conversation) == mended


async def test_h9_versions_stand_beside_each_other(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """H9: old and new code save in turn; each finds its own, however far the other has come."""
    old, new = (ls.TopicSnapshotStore(laser, "f", version=version) for version in (1, 2))
    made = await snapshots(laser, scope, 6)
    for number, snapshot in enumerate(made):
        await (new if number % 2 else old).save(msgspec.structs.replace(snapshot, version=number % 2 + 1))
    assert await old.latest(scope.conversation) == made[4]
    assert await new.latest(scope.conversation) == msgspec.structs.replace(made[5], version=2)


async def test_after_a_purge_the_new_snapshot_wins(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """F6: the old one has the larger offsets, and must not keep the conversation from ever being saved again."""
    store = ls.TopicSnapshotStore(laser, "f")
    for number in range(9):
        await scope.append(TOPIC, f"old {number}")
    assert await scope.state_with(store, SESSIONS, 0, count, save=ls.AutoSave(every=1)) == 9
    await laser.purge_topic(TOPIC)
    for number in range(3):
        await scope.append(TOPIC, f"new {number}")
    with pytest.raises(ls.StaleCheckpointError):
        await scope.state_with(store, SESSIONS, 0, count, save=ls.AutoSave(every=1))
    cp = await scope.checkpoint()
    state = await scope.state(SESSIONS, 0, count, at=cp)
    await store.save(await ls.snapshot_from_checkpoint(laser, scope.conversation, "f", cp, state))
    await scope.append(TOPIC, "newest")
    assert await scope.state_with(store, SESSIONS, 0, count, save=ls.AutoSave(every=1)) == 4
    assert await scope.state_with(store, SESSIONS, 100, count) == 4


# ------------------------------------------------------------------------------------------------ saving by itself


async def _say(scope: ls.ContextScope, number: int) -> None:
    await scope.append_many(TOPIC, [f"{at}" for at in range(number)])


async def test_every_so_many_messages(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await _say(scope, 95)
    store = ListStore()
    found = await scope.state_with(store, SESSIONS, [], texts, save=ls.AutoSave(every=10, fold="texts", version=3))
    assert len(found) == 95
    assert [len(msgspec.json.decode(snapshot.state)) for snapshot in store.kept] == list(range(10, 91, 10))
    assert [snapshot.as_of[-1].offset for snapshot in store.kept] == list(range(9, 90, 10))
    assert all((one.fold, one.version, one.stream) == ("texts", 3, laser.stream) for one in store.kept)
    assert all(one.saved_at_micros and one.as_of[-1].last_id for one in store.kept)
    # From the last one on there are five, too few for another save.
    again = ls.AutoSave(every=10, fold="texts", version=3)
    assert await scope.state_with(store, SESSIONS, [], texts, save=again) == found
    assert len(store.kept) == 9
    # Nothing new is no reason to save.
    assert (
        await scope.state_with(store, SESSIONS, [], texts, save=ls.AutoSave(every=1, fold="texts", version=3)) == found
    )
    assert len(store.kept) == 14
    assert (
        await scope.state_with(store, SESSIONS, [], texts, save=ls.AutoSave(every=1, fold="texts", version=3)) == found
    )
    assert len(store.kept) == 14


async def test_every_so_many_seconds(memory_laser: ls.Laser) -> None:
    scope = memory_laser.context(ls.new_conversation_id())
    await _say(scope, 200)
    store = ListStore()
    assert await scope.state_with(store, SESSIONS, 0, count, save=ls.AutoSave(seconds=3_600, fold="f")) == 200
    assert store.kept == []
    assert await scope.state_with(store, SESSIONS, 0, count, save=ls.AutoSave(seconds=1e-9, fold="f")) == 200
    assert [snapshot.state for snapshot in store.kept] == [b"64", b"128", b"192", b"200"]
    store.kept.clear()
    both = ls.AutoSave(every=100, seconds=3_600, fold="f")
    assert await scope.state_with(store, SESSIONS, 0, count, save=both) == 200
    assert [int(snapshot.state) >= 100 for snapshot in store.kept] == [True]


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({}, "every"),
        ({"every": 0}, "every"),
        ({"every": -1}, "every"),
        ({"every": 1.5}, "every"),
        ({"every": True}, "every"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": -1.0}, "seconds"),
        ({"seconds": float("nan")}, "seconds"),
        ({"seconds": "5"}, "seconds"),
        ({"every": 1, "version": 0}, "version"),
        ({"every": 1, "version": "1"}, "version"),
    ],
)
def test_when_to_save_must_make_sense(arguments: dict[str, Any], argument: str) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        ls.AutoSave(**arguments)
    assert caught.value.argument == argument


async def test_f10_f11_a_save_that_fails_is_told_and_leaves_no_mark(memory_laser: ls.Laser) -> None:
    """F10, F11: what was not kept is folded, and saved, again."""
    scope = memory_laser.context(ls.new_conversation_id())
    await _say(scope, 25)

    class Flaky(ListStore):
        fails = 2

        def save(self, snapshot: ls.Snapshot) -> None:
            if len(self.kept) == 1 and self.fails:
                self.fails -= 1
                raise OSError("the disk is full")
            super().save(snapshot)

    store = Flaky()
    for _ in range(2):
        with pytest.raises(OSError, match="the disk is full"):
            await scope.state_with(store, SESSIONS, 0, count, save=ls.AutoSave(every=10, fold="f"))
        assert [snapshot.state for snapshot in store.kept] == [b"10"]
    assert await scope.state_with(store, SESSIONS, 0, count, save=ls.AutoSave(every=10, fold="f")) == 25
    assert [snapshot.state for snapshot in store.kept] == [b"10", b"20"]


async def test_h5_a_state_that_json_would_change_is_refused_at_the_save(
    laser: ls.Laser, scope: ls.ContextScope
) -> None:
    """H5, H8: the place in the state is named, and nothing was written."""
    await _say(scope, 2)
    store = ls.TopicSnapshotStore(laser, "f")

    def fold(state: dict[str, Any], message: ls.ContextMessage) -> dict[str, Any]:
        return {"a": [{"b": {message.offset}}]}

    assert (await scope.state_with(store, SESSIONS, {}, fold))["a"][0]["b"]
    with pytest.raises(ls.InvalidError, match=r"\$\.a\[0\]\.b is builtins\.set"):
        await scope.state_with(store, SESSIONS, {}, fold, save=ls.AutoSave(every=1))
    assert await store.latest(scope.conversation) is None


async def test_h17_what_snapshots_cost(memory_laser: ls.Laser) -> None:
    """H17: with a save every k messages the snapshots of 200 turns are 200 / k states, not 200."""
    scope = memory_laser.context(ls.new_conversation_id())
    store = ls.TopicSnapshotStore(memory_laser, "f")
    for turn in range(200):
        await scope.append(TOPIC, f"turn {turn:03d}")
        await scope.state_with(store, SESSIONS, [], texts, save=ls.AutoSave(every=50))
    info = await memory_laser.topic(SNAPSHOTS)
    assert info.records == 4
    whole = len(msgspec.json.encode([f"turn {turn:03d}" for turn in range(200)]))
    assert info.size_bytes < 4 * (whole + 300)


# ---------------------------------------------------------------------------------------------- stores of one's own


class AsyncStore:
    fold = "f"
    version = 2

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def latest(self, conversation: str) -> ls.Snapshot | None:
        data = self.kept.get(conversation)
        return None if data is None else ls.decode_snapshot(data)

    async def save(self, snapshot: ls.Snapshot) -> None:
        self.kept[snapshot.conversation] = ls.encode_snapshot(snapshot)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("kind", [ListStore, AsyncStore])
async def test_stores_with_plain_and_async_methods(
    laser: ls.Laser, scope: ls.ContextScope, kind: Any, wrapped: bool
) -> None:
    backend = kind()
    store = ls.SnapshotStore(backend) if wrapped else backend
    named: dict[str, Any] = {"fold": "f"} if kind is ListStore else {}
    save = ls.AutoSave(every=2, **named)
    for turn in range(1, 4):
        await _say(scope, 3)
        assert await scope.state_with(store, SESSIONS, 0, count, save=save) == 3 * turn
        assert len(backend.kept) > 0
    latest = await ls.SnapshotStore(backend).latest(scope.conversation)
    assert latest is not None
    assert (latest.fold, latest.version) == ("f", 1 if kind is ListStore else 2)
    assert await ls.ConversationState.load_with(laser, store, scope.conversation, SESSIONS, 0, count) == 9


async def test_a_store_must_say_its_fold_to_be_saved_to(memory_laser: ls.Laser) -> None:
    scope = memory_laser.context(ls.new_conversation_id())
    with pytest.raises(ls.InvalidError, match="AutoSave\\(fold=…\\)") as caught:
        await scope.state_with(ListStore(), SESSIONS, 0, count, save=ls.AutoSave(every=1))
    assert caught.value.argument == "save"
    with pytest.raises(ls.InvalidError) as caught:
        await scope.state_with(ListStore(), SESSIONS, 0, count, save=10)  # type: ignore[arg-type]
    assert caught.value.argument == "save"


class NoSave:
    def latest(self, conversation: str) -> None: ...


@pytest.mark.parametrize("store", [None, 5, {}, object(), NoSave(), AsyncStore, ls.TopicSnapshotStore])
async def test_what_is_no_store_is_refused(memory_laser: ls.Laser, store: Any) -> None:
    scope = memory_laser.context(ls.new_conversation_id())
    with pytest.raises(ls.InvalidError) as caught:
        await scope.state_with(store, SESSIONS, 0, count)
    assert caught.value.argument == "store"
    with pytest.raises(ls.InvalidError) as caught:
        ls.SnapshotStore(store)
    assert caught.value.argument == "backend"


async def test_a_store_that_returns_something_else_is_named(memory_laser: ls.Laser) -> None:
    class Wrong(ListStore):
        def latest(self, conversation: str) -> Any:
            return b"bytes"

    scope = memory_laser.context(ls.new_conversation_id())
    with pytest.raises(ls.InvalidError, match="latest returned bytes") as caught:
        await scope.state_with(Wrong(), SESSIONS, 0, count)
    assert caught.value.argument == "backend"


async def test_a_snapshot_newer_than_the_look_at_the_log(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """Another process appends and saves while this one asks its store."""
    await _say(scope, 3)

    class Busy(ListStore):
        async def latest(self, conversation: str) -> ls.Snapshot:  # type: ignore[override]
            await anyio.sleep(0.02)
            await _say(scope, 4)
            cp = await scope.checkpoint()
            return await ls.snapshot_from_checkpoint(laser, conversation, "f", cp, 7)

    assert await scope.state_with(Busy(), SESSIONS, 0, count) == 7
    await laser.purge_topic(TOPIC)

    class Purged(Busy):
        async def latest(self, conversation: str) -> ls.Snapshot:  # type: ignore[override]
            made = await super().latest(conversation)
            await laser.purge_topic(TOPIC)
            return made

    with pytest.raises(ls.StaleCheckpointError):
        await scope.state_with(Purged(), SESSIONS, 0, count)


@pytest.mark.parametrize("version", [0, -1, 1.0, "1", True, 2**32])
@pytest.mark.parametrize("kind", [ls.TopicSnapshotStore, ls.KvSnapshotStore])
async def test_versions_are_whole_numbers_from_1(memory_laser: ls.Laser, kind: Any, version: Any) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        kind(memory_laser, "f", version=version)
    assert caught.value.argument == "version"


@pytest.mark.parametrize("fold", ["", " ", None, "a\nb", "5", "x" * 256])
async def test_folds_have_names(memory_laser: ls.Laser, fold: Any) -> None:
    kinds: Sequence[Any] = (ls.TopicSnapshotStore, ls.KvSnapshotStore)
    for kind in kinds:
        with pytest.raises(ls.InvalidError) as caught:
            kind(memory_laser, fold)
        assert caught.value.argument == "fold"
