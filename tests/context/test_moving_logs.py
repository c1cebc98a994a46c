"""Logs that change under a fold: retention, purges and appends between its reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest

import laser as ls
from laser.engines.memory import MemoryLog
from laser.model.window import Match, Page
from laser.testing.clock import SetClock
from tests.context.folding import count, texts
from tests.context.logs import client_on
from tests.context.test_follow import Passing

pytestmark = pytest.mark.anyio

TOPIC = "events"


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
