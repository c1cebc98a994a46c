"""Following: every message once, in order, whenever the reader stops and wherever it goes on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import laser as ls
from laser.model.window import Match, Page
from laser.ports.log import Log
from tests.context.folding import SESSIONS, append_garbage

pytestmark = pytest.mark.anyio

TOPIC = SESSIONS[0]
TOOLS = ls.AgentTopic.ToolCalls
CAUGHT_UP = "caught up"


@pytest.fixture
def scope(laser: ls.Laser) -> ls.ContextScope:
    return laser.context(ls.new_conversation_id())


async def take(follow: ls.Follow, number: int) -> list[str]:
    """The next so many entries, as their texts."""
    with anyio.fail_after(120):
        return [_text(await anext(follow)) for _ in range(number)]


def _text(entry: ls.ContextMessage | ls.CaughtUp) -> str:
    return CAUGHT_UP if isinstance(entry, ls.CaughtUp) else entry.text


async def test_a_live_tail(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await scope.append(TOPIC, "before")
    follow = scope.follow()
    assert follow.checkpoint().is_empty()
    assert await take(follow, 1) == [CAUGHT_UP]
    await laser.context(ls.new_conversation_id()).append(TOPIC, "of another")
    for number in range(3):
        await scope.append(TOPIC, f"{number}")
    assert await take(follow, 3) == ["0", "1", "2"]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scope.append_many, TOPIC, ["3", "4"])
        assert await take(follow, 2) == ["3", "4"]
    assert follow.checkpoint() == await scope.checkpoint()


async def test_from_a_checkpoint(scope: ls.ContextScope) -> None:
    await scope.append_many(TOPIC, ["a", "b"])
    start = await scope.checkpoint()
    await scope.append_many(TOPIC, ["c", "d"])
    follow = scope.follow(SESSIONS, start)
    assert follow.checkpoint() == start, "before the first step it goes on where it began"
    assert await take(follow, 1) == ["c"]
    await scope.append(TOPIC, "e")
    # What came after the follow began is live: it stands after the marker.
    assert await take(follow, 3) == ["d", CAUGHT_UP, "e"]
    await scope.append(TOPIC, "f")
    assert await take(follow, 1) == ["f"]


async def test_caught_up_comes_once_and_also_where_nothing_is(laser: ls.Laser) -> None:
    scope = laser.context(ls.new_conversation_id())
    follow = scope.follow(["no.such"])
    assert await take(follow, 1) == [CAUGHT_UP]
    await laser.ensure_topic("no.such", 2)
    for number in range(4):
        await scope.append("no.such", f"{number}")
    assert await take(follow, 4) == ["0", "1", "2", "3"], "a topic that appears later is new as a whole"
    with anyio.move_on_after(0.05) as limit:
        await anext(follow)
    assert limit.cancelled_caught


@pytest.mark.parametrize("own", [False, True])
async def test_caught_up_comes_on_a_log_that_never_rests(laser: ls.Laser, scope: ls.ContextScope, own: bool) -> None:
    start = await scope.checkpoint()
    await scope.append_many(TOPIC, ["a", "b"])
    busy = scope if own else laser.context(ls.new_conversation_id())

    class Busy(Passing):
        async def read(self, *args: Any, **options: Any) -> Page:
            await busy.append(TOPIC, "more")
            return await super().read(*args, **options)

    inner = laser.open_log()
    laser._log = Busy(inner)  # type: ignore[assignment]
    follow = scope.follow(SESSIONS, start)
    laser._log = inner
    seen: list[str] = []
    while CAUGHT_UP not in seen:
        seen += await take(follow, 1)
        assert len(seen) < 50
    assert seen[:2] == ["a", "b"]


class Passing:
    """A log that another one stands in front of."""

    def __init__(self, log: Log) -> None:
        self.log = log

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        return await self.log.read(stream, topic, partition, start=start, limit=limit, match=match)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)


class Failing(Passing):
    """Reads that fail, or that are stopped, at the second partition with something new."""

    def __init__(self, log: Log, error: ls.LaserError | None) -> None:
        super().__init__(log)
        self.error = error
        self.reads = 0
        self.reached = anyio.Event()

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        self.reads += 1
        if self.reads == 2:
            self.reached.set()
            if self.error is not None:
                raise self.error
            await anyio.sleep_forever()
        return await super().read(stream, topic, partition, start=start, limit=limit, match=match)


async def _two_partitions(laser: ls.Laser, scope: ls.ContextScope) -> tuple[ls.Checkpoint, list[str]]:
    start = await scope.checkpoint([TOPIC, TOOLS])
    for number in range(6):
        await scope.append([TOPIC, TOOLS][number % 2], f"{number}")
    return start, [f"{number}" for number in range(6)]


async def test_a_step_that_is_cancelled_loses_nothing(laser: ls.Laser, scope: ls.ContextScope) -> None:
    start, expected = await _two_partitions(laser, scope)
    failing = Failing(laser.open_log(), None)
    inner, laser._log = laser._log, failing  # type: ignore[assignment]
    follow = scope.follow([TOPIC, TOOLS], start)
    laser._log = inner
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anext, follow)
        await failing.reached.wait()
        tasks.cancel_scope.cancel()
    assert follow.checkpoint() == start
    assert await take(follow, 7) == [*expected, CAUGHT_UP]


@pytest.mark.parametrize(
    "error",
    [ls.DisconnectedError("gone"), ls.DeadlineError("late", seconds=1.0)],
    ids=lambda error: type(error).__name__,
)
async def test_f18_a_read_that_fails_is_done_again(
    laser: ls.Laser, scope: ls.ContextScope, error: ls.LaserError, caplog: pytest.LogCaptureFixture
) -> None:
    """F18: a connection that was lost between two partitions neither skips nor repeats, and who waits is told."""
    start, expected = await _two_partitions(laser, scope)
    failing = Failing(laser.open_log(), error)
    inner, laser._log = laser._log, failing  # type: ignore[assignment]
    follow = scope.follow([TOPIC, TOOLS], start)
    laser._log = inner
    assert await take(follow, 7) == [*expected, CAUGHT_UP]
    assert failing.reads > 2
    told = [one.getMessage() for one in caplog.records if one.name == "laser.context"]
    assert [text.split(scope.conversation)[1] for text in told] == [f" waits for the log: {error}", " goes on"]


@pytest.mark.parametrize(
    "error", [ls.AuthenticationError("wrong password"), ls.StorageError("damaged"), ls.ClosedError("closed")]
)
async def test_what_another_try_does_not_heal_is_raised(
    laser: ls.Laser, scope: ls.ContextScope, error: ls.LaserError
) -> None:
    start, expected = await _two_partitions(laser, scope)
    failing = Failing(laser.open_log(), error)
    inner, laser._log = laser._log, failing  # type: ignore[assignment]
    follow = scope.follow([TOPIC, TOOLS], start)
    laser._log = inner
    with pytest.raises(type(error)):
        await anext(follow)
    # A caller that knows better can go on: nothing was lost.
    assert await take(follow, 7) == [*expected, CAUGHT_UP]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_h15_f3_random_stops(laser: ls.Laser, scope: ls.ContextScope, seed: int) -> None:
    """H15, F3: stopped anywhere, by break or by cancelling, and followed on from the checkpoint as JSON."""
    chance = random.Random(seed)
    other = laser.context(ls.new_conversation_id())
    at = await scope.checkpoint([TOPIC, TOOLS])
    seen: list[str] = []
    total = 400
    appended = anyio.Event()

    async def append() -> None:
        for number in range(total):
            await scope.append(chance.choice([TOPIC, TOOLS]), f"{number}")
            if chance.random() < 0.5:
                await other.append(chance.choice([TOPIC, TOOLS]), "other")
            if chance.random() < 0.1:
                await anyio.sleep(0.001)
        appended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(append)
        with anyio.fail_after(200):
            while len(seen) < total:
                async with scope.follow([TOPIC, TOOLS], at) as follow:
                    if chance.random() < 0.5:
                        for _ in range(chance.randrange(60)):
                            if len(seen) < total:
                                seen += _messages(await anext(follow))
                    else:
                        with anyio.move_on_after(chance.random() * 0.02):
                            while True:
                                seen += _messages(await anext(follow))
                    at = ls.Checkpoint.from_json(follow.checkpoint().to_json())
    assert sorted(seen, key=int) == [f"{number}" for number in range(total)]
    async with scope.follow([TOPIC, TOOLS], at) as follow:
        assert await take(follow, 1) == [CAUGHT_UP]
    for topic in (TOPIC, TOOLS):
        order = [message.text for message in await scope.fetch(topics=[topic], n=total)]
        places = {text: place for place, text in enumerate(seen)}
        assert [places[text] for text in order] == sorted(places[text] for text in order)


def _messages(entry: ls.ContextMessage | ls.CaughtUp) -> list[str]:
    return [] if isinstance(entry, ls.CaughtUp) else [entry.text]


async def test_a_slow_consumer_costs_no_memory(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """Load: it reads a page ahead, however much there is."""
    start = await scope.checkpoint()
    for _ in range(3):
        await scope.append_many(TOPIC, ["x"] * 5_000)
    asked: list[int] = []

    class Counting(Passing):
        async def read(self, *args: Any, **options: Any) -> Page:
            page = await super().read(*args, **options)
            asked.append(len(page.records))
            return page

    inner = laser.open_log()
    laser._log = Counting(inner)  # type: ignore[assignment]
    follow = scope.follow(SESSIONS, start)
    laser._log = inner
    assert await take(follow, 1) == ["x"]
    assert sum(asked) == 500
    assert len(follow._ready) < 500
    assert len(await take(follow, 999)) == 999
    assert sum(asked) <= 1_001
    assert await take(follow, 14_001) == [*["x"] * 14_000, CAUGHT_UP]


async def test_the_iteration_gives_other_tasks_their_turn(memory_laser: ls.Laser) -> None:
    scope = memory_laser.context(ls.new_conversation_id())
    start = await scope.checkpoint()
    await scope.append_many(TOPIC, ["x"] * 400)
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        follow = scope.follow(SESSIONS, start)
        await take(follow, 1)
        tasks.start_soon(tick)
        for _ in range(399):
            await anext(follow)
        tasks.cancel_scope.cancel()
    assert turns >= 3


async def test_added_partitions(laser: ls.Laser) -> None:
    scopes = [laser.context(ls.new_conversation_id()) for _ in range(6)]
    follows = [scope.follow() for scope in scopes]
    for follow in follows:
        assert await take(follow, 1) == [CAUGHT_UP]
    for scope in scopes:
        await scope.append(TOPIC, "old")
    await laser.add_partitions(TOPIC, 4)
    moved = 0
    for scope, follow in zip(scopes, follows, strict=True):
        receipt = await scope.append(TOPIC, "new")
        moved += receipt.partition > 3
        assert sorted(await take(follow, 2)) == ["new", "old"]
        assert follow.checkpoint().topics()[TOPIC].keys() == set(range(8))
    assert moved, "no conversation went to an added partition, so nothing was shown"
    resumed = scopes[0].follow(SESSIONS, follows[0].checkpoint())
    assert await take(resumed, 1) == [CAUGHT_UP]


@pytest.mark.parametrize("after", [0, 3, 10])
async def test_f6_a_purge_is_told(laser: ls.Laser, scope: ls.ContextScope, after: int) -> None:
    """F6: also when the log has grown past the place again before it was looked at."""
    follow = scope.follow()
    assert await take(follow, 1) == [CAUGHT_UP]
    for number in range(5):
        await scope.append(TOPIC, f"old {number}")
    assert len(await take(follow, 5)) == 5
    await laser.purge_topic(TOPIC)
    for number in range(after):
        await scope.append(TOPIC, f"new {number}")
    with pytest.raises(ls.StaleCheckpointError) as caught:
        await take(follow, 1)
    if after < 5:
        assert (caught.value.expected, caught.value.actual) == (5, after)


async def test_f6_a_purge_before_anything_was_read_is_told(laser: ls.Laser, scope: ls.ContextScope) -> None:
    for number in range(5):
        await scope.append(TOPIC, f"old {number}")
    follow = scope.follow()
    assert await take(follow, 1) == [CAUGHT_UP]
    await laser.purge_topic(TOPIC)
    for number in range(10):
        await scope.append(TOPIC, f"new {number}")
    with pytest.raises(ls.StaleCheckpointError, match="another record at 4"):
        await take(follow, 1)


async def test_a_topic_that_is_deleted_is_told(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await scope.append(TOPIC, "a")
    start = await scope.checkpoint()
    follow = scope.follow()
    assert await take(follow, 1) == [CAUGHT_UP]
    await laser.delete_topic(TOPIC)
    for one in (follow, scope.follow(SESSIONS, start)):
        with pytest.raises(ls.StaleCheckpointError) as caught:
            await take(one, 1)
        assert caught.value.topic == TOPIC


async def test_f5_records_that_cannot_be_decoded_are_counted(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """F5, E4: they are passed, reported, and not met again after a resume."""
    start = await scope.checkpoint()
    await scope.append(TOPIC, "a")
    for _ in range(3):
        await append_garbage(laser, TOPIC, scope.conversation)
    await scope.append(TOPIC, "b")
    follow = scope.follow(SESSIONS, start)
    assert await take(follow, 3) == ["a", "b", CAUGHT_UP]
    assert follow.skipped_count == 3
    assert [record.offset for record in follow.skipped] == [1, 2, 3]
    again = scope.follow(SESSIONS, follow.checkpoint())
    assert await take(again, 1) == [CAUGHT_UP]
    assert again.skipped_count == 0


async def test_the_end(laser: ls.Laser, engine_url: str, stream_name: str) -> None:
    async with ls.Laser.connect(engine_url, stream=f"{stream_name}-2") as client:
        await client.ensure_topic(TOPIC)
        scope = client.context(ls.new_conversation_id())
        seen = []
        async with scope.follow() as follow:
            async for entry in follow:
                seen.append(entry)
                break
        assert seen == [ls.CaughtUp()]
        assert [entry async for entry in follow] == []
        await follow.aclose()
        with pytest.raises(ls.ClosedError, match="checkpoint"):
            async with follow:
                pass
        left = scope.follow()
        assert await take(left, 1) == [CAUGHT_UP]
    with pytest.raises(ls.ClosedError):
        await take(left, 1)
    with pytest.raises(ls.ClosedError):
        scope.follow()


@pytest.mark.parametrize(
    ("topics", "start", "argument"),
    [
        ("agent.sessions", None, "topics"),
        ([""], None, "topics"),
        (SESSIONS, "{}", "from_checkpoint"),
        (SESSIONS, 5, "from_checkpoint"),
    ],
)
async def test_bad_arguments(memory_laser: ls.Laser, topics: Sequence[str], start: Any, argument: str) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        memory_laser.context(ls.new_conversation_id()).follow(topics, start)
    assert caught.value.argument == argument
