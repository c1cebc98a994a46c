"""Logs that change under a fold: retention, purges and appends between its reads."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest

import laser as ls
from laser.engines.memory import MemoryLog
from laser.model.window import Match, Page
from laser.ports.log import Log
from laser.testing.clock import SetClock
from tests.context.folding import append_raw, count, texts
from tests.context.logs import client_on
from tests.context.test_follow import CAUGHT_UP, Passing, take

pytestmark = pytest.mark.anyio

TOPIC = "events"
SESSIONS = ls.AgentTopic.Sessions


class Moving(Passing):
    """Does something before its n-th read."""

    def __init__(self, log: MemoryLog, number: int, move: Callable[[], Awaitable[object]]) -> None:
        super().__init__(log)
        self._number = number
        self._move = move

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        self._number -= 1
        if self._number == 0:
            await self._move()
        return await super().read(stream, topic, partition, start=start, limit=limit, match=match)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def client(clock: SetClock, stream_name: str) -> AsyncIterator[ls.Laser]:
    """A client whose topic keeps records for ten seconds."""
    async with await client_on(MemoryLog(clock=clock), stream_name) as laser:
        await laser.ensure_topic(TOPIC, 1, ls.TopicRetention(expire_after=timedelta(seconds=10)))
        yield laser


def _before_read(laser: ls.Laser, number: int, move: Callable[[], Awaitable[object]]) -> None:
    laser._log = Moving(laser._log, number, move)  # type: ignore[arg-type, assignment]


@pytest.fixture
async def scope(client: ls.Laser) -> ls.ContextScope:
    return client.context(ls.new_conversation_id())


@pytest.mark.parametrize("bound", ["full", "from_offsets", "at"])
async def test_retention_between_the_look_and_the_first_read_is_no_gap(
    client: ls.Laser, clock: SetClock, scope: ls.ContextScope, bound: str
) -> None:
    """A topic that always expires something must still be foldable: nobody asked for what has just gone."""
    for number in range(8):
        await scope.append(TOPIC, f"{number}")
        clock.step(1)

    async def later() -> None:
        clock.step(5)

    bounds = {
        "full": {"full": True},
        "from_offsets": {"from_offsets": {}},
        "at": {"at": await scope.checkpoint([TOPIC])},
    }
    # The end of a checkpoint is looked at before the records.
    _before_read(client, 2 if bound == "at" else 1, later)
    assert await scope.state([TOPIC], [], texts, **bounds[bound]) == ["3", "4", "5", "6", "7"]  # type: ignore[arg-type]


async def test_f7_retention_that_overtakes_a_running_fold_is_a_gap(
    client: ls.Laser, clock: SetClock, scope: ls.ContextScope
) -> None:
    """F7: what was read before and what comes after would have a hole between them."""
    for _ in range(4):
        await scope.append_many(TOPIC, ["x"] * 700)
        clock.step(2)

    async def later() -> None:
        clock.step(5)

    _before_read(client, 2, later)
    with pytest.raises(ls.RetentionGapError) as caught:
        await scope.state([TOPIC], 0, count, full=True)
    assert (caught.value.wanted, caught.value.first) == (1_000, 1_400)


async def test_f6_a_purge_during_a_fold_is_told(client: ls.Laser, scope: ls.ContextScope) -> None:
    """F6: the rest of the range is not there any more."""
    for _ in range(3):
        await scope.append_many(TOPIC, ["x"] * 700)
    _before_read(client, 2, lambda: client.purge_topic(TOPIC))
    with pytest.raises(ls.StaleCheckpointError) as caught:
        await scope.state([TOPIC], 0, count, full=True)
    assert (caught.value.expected, caught.value.actual) == (2_100, 0)


async def test_h18_appends_during_a_fold_are_not_in_it(client: ls.Laser, scope: ls.ContextScope) -> None:
    """H18: the snapshot says exactly what was folded, however the log grew meanwhile."""
    await scope.append_many(TOPIC, ["x"] * 1_500)
    _before_read(client, 2, lambda: scope.append_many(TOPIC, ["y"] * 10))
    store = ls.TopicSnapshotStore.on_topic(client, "snapshots", "count")
    await client.ensure_topic("snapshots")
    save = ls.AutoSave(every=1_500)
    assert await scope.state_with(store, [TOPIC], 0, count, save=save) == 1_500
    latest = await store.latest(scope.conversation)
    assert latest is not None
    assert (latest.as_of[0].offset, latest.state) == (1_499, b"1500")
    assert await scope.state_with(store, [TOPIC], 0, count) == 1_510


class Short(Passing):
    """Gives pages of a few records, or of none, as a server may that has more to do."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self._chance = random.Random(16)
        self.empty = 0

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        few = self._chance.randrange(4)
        page = await super().read(stream, topic, partition, start=start, limit=max(1, min(few, limit)), match=match)
        if few or start >= page.end:
            return page
        self.empty += 1
        return Page([], max(start, page.first), page.first, page.end)


async def test_f16_a_short_or_empty_page_is_not_the_end(laser: ls.Laser) -> None:
    """F16, F12: every reader goes on to the end that the log has, on every partition."""
    scopes = [laser.context(ls.new_conversation_id()) for _ in range(3)]
    start = await scopes[0].checkpoint()
    for number in range(60):
        await scopes[number % 3].append(SESSIONS, f"{number}")
    store = ls.TopicSnapshotStore(laser, "f")
    expected = [[f"{number}" for number in range(first, 60, 3)] for first in range(3)]
    kept = await scopes[0].checkpoint()
    short = Short(laser.open_log())
    whole, laser._log = laser._log, short  # type: ignore[assignment]
    for scope, said in zip(scopes, expected, strict=True):
        await store.save(await ls.snapshot_from_checkpoint(laser, scope.conversation, "f", kept, said))
        assert await scope.state([SESSIONS], [], texts, full=True) == said
        assert await scope.state([SESSIONS], [], texts, from_checkpoint=start) == said
        assert await scope.state([SESSIONS], [], texts, at=kept) == said
        assert (await scope.checkpoint()).topics() == kept.topics()
        follow = scope.follow([SESSIONS], start)
        assert await take(follow, 21) == [*said, CAUGHT_UP]
    for scope, said in zip(scopes, expected, strict=True):
        found = await ls.TopicSnapshotStore(laser, "f").latest(scope.conversation)
        assert found is not None
        assert await scope.state_with(store, [SESSIONS], [], texts) == said
    assert short.empty > 20
    laser._log = whole


async def test_f16_short_pages_weaken_no_check(laser: ls.Laser) -> None:
    """F16, F6, D6: what lies before a resume point is looked at, in however many pages it comes."""
    scope = laser.context(ls.new_conversation_id())
    await append_raw(laser, SESSIONS, scope.conversation, [(number, b"%d" % number) for number in range(1, 41)])
    start = await scope.checkpoint()
    await append_raw(laser, SESSIONS, scope.conversation, [(40, b"40"), (3, b"3"), (41, b"41")])
    whole, laser._log = laser._log, Short(laser.open_log())  # type: ignore[assignment]
    assert await scope.state([SESSIONS], [], texts, from_checkpoint=start) == ["41"]
    assert await take(scope.follow([SESSIONS], start), 2) == ["41", CAUGHT_UP]
    laser._log = whole
    await laser.purge_topic(SESSIONS)
    await append_raw(laser, SESSIONS, scope.conversation, [(number, b"new") for number in range(100, 160)])
    laser._log = Short(whole)  # type: ignore[assignment]
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: scope.state([SESSIONS], 0, count, from_checkpoint=start),
        lambda: scope.state([SESSIONS], 0, count, at=start),
        lambda: laser.assemble_context(scope.conversation, from_checkpoint=start),
        lambda: anext(scope.follow([SESSIONS], start)),
    ]
    for call in calls:
        with pytest.raises(ls.StaleCheckpointError) as caught:
            await call()
        assert (caught.value.expected, caught.value.actual) == (40, 139)
    laser._log = whole
