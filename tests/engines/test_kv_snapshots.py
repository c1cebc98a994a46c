"""``KvSnapshotStore`` on each key-value store: races, pruning, and one fold's snapshots beside another's."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

import laser as ls
from laser.limits import MAX_KV_VALUE_BYTES, MAX_SCAN_LIMIT
from laser.ports.kv import KeyValue, KvEntry
from tests.context.folding import SESSIONS, count
from tests.context.test_stores import snapshots

pytestmark = pytest.mark.anyio

TOPIC = SESSIONS[0]
NAMESPACE = "agent.snapshots"


@pytest.fixture(params=["memory", "embedded", "redis", "postgres"])
def kv_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory:"
    if request.param == "embedded":
        return f"embedded:{tmp_path / 'kv'}"
    url: str = request.getfixturevalue(f"{request.param}_server").url
    return url


@pytest.fixture
async def client(kv_url: str) -> AsyncIterator[ls.Laser]:
    """A log in memory with a key-value store of each kind beside it."""
    async with ls.Laser.connect("memory:", kv=kv_url) as laser:
        await laser.bootstrap(partitions=2, retention=ls.TopicRetention(expire_after=timedelta(days=1)))
        yield laser


@pytest.fixture
def scope(client: ls.Laser) -> ls.ContextScope:
    return client.context(ls.new_conversation_id())


async def entries(client: ls.Laser, prefix: str, namespace: str = NAMESPACE) -> list[KvEntry]:
    """What is kept under a prefix."""
    page = await (await client.open_kv()).scan(namespace, prefix=prefix, limit=MAX_SCAN_LIMIT)
    return page.entries


async def test_save_and_latest(client: ls.Laser, scope: ls.ContextScope) -> None:
    store = ls.KvSnapshotStore(client, "f")
    assert await store.latest(scope.conversation) is None
    one, two = await snapshots(client, scope, 2)
    await store.save(one)
    assert await store.latest(scope.conversation.lower()) == one
    await store.save(two)
    await store.save(one)
    assert await store.latest(scope.conversation) == two
    mended = msgspec.structs.replace(two, state=b"7")
    await store.save(mended)
    assert await store.latest(scope.conversation) == mended
    assert [entry.value for entry in await entries(client, scope.conversation)] == [ls.encode_snapshot(mended)]
    assert await ls.KvSnapshotStore(client, "g").latest(scope.conversation) is None
    assert await store.latest(ls.new_conversation_id()) is None
    assert repr(store) == "KvSnapshotStore('agent.snapshots', fold='f', version=1)"


async def test_state_with(client: ls.Laser, scope: ls.ContextScope) -> None:
    store = ls.KvSnapshotStore(client, "f")
    for turn in range(1, 6):
        await scope.append_many(TOPIC, ["a", "b"])
        found = await scope.state_with(store, SESSIONS, 0, count, save=ls.AutoSave(every=1))
        assert found == 2 * turn
        latest = await store.latest(scope.conversation)
        assert latest is not None
        assert latest.state == b"%d" % found
    assert len(await entries(client, scope.conversation)) == 1


async def test_namespaces_and_folds_are_apart(client: ls.Laser, scope: ls.ContextScope) -> None:
    """Also where the name of one begins with that of another, or looks like a key of the store's own."""
    here = ls.KvSnapshotStore(client, "f", keep=2)
    there = ls.KvSnapshotStore.in_namespace(client, "mine", "f")
    names = ["f/x", "f/", f"f/{1:020d}", "1:f", "ff", "f.past/1:f/"]
    others = [ls.KvSnapshotStore(client, name, keep=3) for name in names]
    made = await snapshots(client, scope, 6)
    for number, snapshot in enumerate(made):
        await here.save(snapshot)
        for name, store in zip(names, others, strict=True):
            if number == 0:
                await store.save(msgspec.structs.replace(snapshot, fold=name, state=name.encode()))
    assert await there.latest(scope.conversation) is None
    await there.save(made[0])
    assert await there.latest(scope.conversation) == made[0]
    assert await here.latest(scope.conversation) == made[5]
    for name, store in zip(names, others, strict=True):
        kept = await store.latest(scope.conversation)
        assert kept is not None
        assert (kept.fold, kept.state) == (name, name.encode())


async def test_h17_the_last_m_are_kept(client: ls.Laser, scope: ls.ContextScope) -> None:
    """H17: pruning keeps what the newest needs, which is itself, and what people may want to look at."""
    store = ls.KvSnapshotStore.in_namespace(client, f"m-{scope.conversation}", "f", keep=3)
    made = await snapshots(client, scope, 7)
    for snapshot in made:
        await store.save(snapshot)
    kept = await entries(client, "", f"m-{scope.conversation}")
    past = [ls.decode_snapshot(entry.value) for entry in kept if ".past/" in entry.key]
    assert past == made[-3:]
    assert len(kept) == 4
    assert await store.latest(scope.conversation) == made[-1]


async def test_many_savers_at_once(client: ls.Laser, kv_url: str, scope: ls.ContextScope) -> None:
    """Two clients, eight tasks, every order: the one that folded most is the latest, and no saver fails."""
    made = await snapshots(client, scope, 24)
    order = random.Random(7).sample(range(24), 24)
    async with ls.Laser.connect("memory:", kv=kv_url) as second:
        stores = [ls.KvSnapshotStore(client, "f", keep=2)]
        # The second client saves what was folded from the first one's log.
        own, second._log = second._log, client._log
        if kv_url != "memory:":
            stores.append(ls.KvSnapshotStore(second, "f", keep=2))

        async def save(store: ls.KvSnapshotStore, places: list[int]) -> None:
            for place in places:
                await store.save(made[place])

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(save, stores[number % len(stores)], order[number::8])
        for store in stores:
            assert await store.latest(scope.conversation) == made[-1]
        second._log = own
    await stores[0].save(msgspec.structs.replace(made[-1], state=b"24.0"))
    assert len([entry for entry in await entries(client, scope.conversation) if ".past/" in entry.key]) == 2


class Losing:
    """A store in which another process is always faster."""

    def __init__(self, kv: KeyValue) -> None:
        self._kv = kv

    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = -1, ttl_micros: int | None = None
    ) -> int:
        raise ls.ConflictError("lost")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kv, name)


async def test_a_save_that_always_loses_ends(client: ls.Laser, scope: ls.ContextScope) -> None:
    (one,) = await snapshots(client, scope, 1)
    kv = await client.open_kv()
    client._kv = Losing(kv)  # type: ignore[assignment]
    with pytest.raises(ls.ConflictError, match="lost 64 saves"):
        await ls.KvSnapshotStore(client, "f").save(one)
    client._kv = kv


async def test_h9_an_unreadable_snapshot_is_passed_over_and_replaced(
    client: ls.Laser, scope: ls.ContextScope, caplog: pytest.LogCaptureFixture
) -> None:
    store = ls.KvSnapshotStore(client, "f")
    await scope.append(TOPIC, "a")
    await (await client.open_kv()).set(NAMESPACE, store._key(scope.conversation), b"no snapshot")
    with caplog.at_level(logging.WARNING, "laser.context"):
        assert await store.latest(scope.conversation) is None
        assert await scope.state_with(store, SESSIONS, 0, count, save=ls.AutoSave(every=1)) == 1
    assert "cannot be read and is passed over" in caplog.text
    latest = await store.latest(scope.conversation)
    assert latest is not None
    assert latest.state == b"1"


async def test_after_a_purge_the_new_snapshot_wins(client: ls.Laser, scope: ls.ContextScope) -> None:
    store = ls.KvSnapshotStore(client, "f")
    await scope.append_many(TOPIC, ["old"] * 9)
    assert await scope.state_with(store, SESSIONS, 0, count, save=ls.AutoSave(every=1)) == 9
    await client.purge_topic(TOPIC)
    await scope.append_many(TOPIC, ["new"] * 3)
    with pytest.raises(ls.StaleCheckpointError):
        await scope.state_with(store, SESSIONS, 0, count)
    cp = await scope.checkpoint()
    await store.save(await ls.snapshot_from_checkpoint(client, scope.conversation, "f", cp, 3))
    await scope.append(TOPIC, "newest")
    assert await scope.state_with(store, SESSIONS, 100, count) == 4


async def test_limits(client: ls.Laser, scope: ls.ContextScope) -> None:
    (one,) = await snapshots(client, scope, 1)
    large = msgspec.structs.replace(one, state=b'"' + b"x" * MAX_KV_VALUE_BYTES + b'"')
    with pytest.raises(ls.LimitError) as caught:
        await ls.KvSnapshotStore(client, "f").save(large)
    assert (caught.value.argument, caught.value.limit) == ("snapshot", MAX_KV_VALUE_BYTES)
    with pytest.raises(ls.LimitError) as caught:
        ls.KvSnapshotStore.in_namespace(client, "é" * 65, "f")
    assert (caught.value.argument, caught.value.size, caught.value.limit) == ("namespace", 130, 128)
    longest = ls.KvSnapshotStore.in_namespace(client, "n" * 128, "f" * 255, keep=2)
    await longest.save(msgspec.structs.replace(one, fold="f" * 255))
    assert await longest.latest(scope.conversation) is not None
    for keep in (0, -1, 1.5, True, None):
        with pytest.raises(ls.InvalidError) as refused:
            ls.KvSnapshotStore(client, "f", keep=keep)  # type: ignore[arg-type]
        assert refused.value.argument == "keep"
