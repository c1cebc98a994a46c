"""Folds, checkpoints and follows over the death of an Iggy server."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

import laser as ls
from laser.testing.server import IggyServer, find_server_binary, run_iggy_server
from tests.context.folding import ListStore, chain, count, texts
from tests.context.test_follow import CAUGHT_UP, take

pytestmark = [pytest.mark.anyio, pytest.mark.iggy, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

TOPIC = "events"


@pytest.fixture(scope="module")
def server() -> Iterator[IggyServer]:
    """A server of this module's own: its tests stop and kill it."""
    if find_server_binary() is None:
        pytest.skip("no iggy-server program to stop and kill: put it on the PATH or into LASER_TEST_IGGY_SERVER")
    with run_iggy_server() as running:
        yield running


async def _grow(scope: ls.ContextScope, name: str, number: int) -> list[str]:
    said = [f"{name} {at}" for at in range(number)]
    for text in said:
        await scope.append(TOPIC, text)
    return said


@pytest.mark.parametrize("again", [3, 10, 25])
@pytest.mark.parametrize("same_client", [True, False])
async def test_f6_d13_offsets_that_are_handed_out_again(
    server: IggyServer, stream_name: str, again: int, same_client: bool
) -> None:
    """D13, F6: an acknowledgement is a commit in memory; what a kill took away gets its offsets used a second time."""
    client = await ls.Laser.connect(server.url, stream=stream_name)
    try:
        await client.ensure_topic(TOPIC, 1, durability="memory")
        scope = client.context(ls.new_conversation_id())
        await _grow(scope, "lost", 10)
        cp = await scope.checkpoint([TOPIC])
        state = await scope.state([TOPIC], "", chain, at=cp)
        snapshot = await ls.snapshot_from_checkpoint(client, scope.conversation, "f", cp, state)
        follow = scope.follow([TOPIC])
        assert await take(follow, 1) == [CAUGHT_UP]
        assert len(await scope.fetch(topics=[TOPIC])) == 10
        await server.restart(kill=True)
        if not same_client:
            await client.aclose()
            client = await ls.Laser.connect(server.url, stream=stream_name)
            scope = client.context(scope.conversation)
        said = await _grow(scope, "new", again)
        assert [message.text for message in await scope.fetch(topics=[TOPIC])] == said, "nothing of the old is left"
        expected = (
            (10, again) if again < 10 else (snapshot.as_of[0].last_id, (await scope.fetch(topics=[TOPIC]))[9].record_id)
        )

        calls = [
            lambda: scope.state([TOPIC], 0, count, from_checkpoint=cp),
            lambda: scope.state([TOPIC], 0, count, at=cp),
            lambda: scope.state_with(ListStore(snapshot), [TOPIC], "", chain),
            lambda: client.assemble_context(scope.conversation, topics=[TOPIC], from_checkpoint=cp),
            lambda: anext(scope.follow([TOPIC], cp)),
        ]
        if same_client:
            calls.append(lambda: anext(follow))
        for call in calls:
            with pytest.raises(ls.StaleCheckpointError) as caught:
                await call()
            assert (caught.value.topic, caught.value.partition) == (TOPIC, 0)
            assert (caught.value.expected, caught.value.actual) == expected
        assert await scope.state([TOPIC], [], texts, full=True) == said
    finally:
        await client.aclose()


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
async def test_f18_a_follow_goes_on_after_a_restart(server: IggyServer, stream_name: str, kill: bool) -> None:
    """F18: at durability ``process`` nothing is lost, and the follow neither skips nor repeats."""
    async with ls.Laser.connect(server.url, stream=stream_name) as client:
        await client.ensure_topic(TOPIC, 4)
        scope = client.context(ls.new_conversation_id())
        start = await scope.checkpoint([TOPIC])
        said = await _grow(scope, "before", 20)
        follow = scope.follow([TOPIC], start)
        seen = await take(follow, 7)

        async def follow_on() -> None:
            while len(seen) < 41:
                seen.extend(await take(follow, 1))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow_on)
            await server.restart(kill=kill)
            said += await _grow(scope, "after", 20)
        assert [text for text in seen if text != CAUGHT_UP] == said
        assert seen.count(CAUGHT_UP) == 1
        assert follow.checkpoint() == await scope.checkpoint([TOPIC])


async def test_h18_a_long_fold_goes_on_after_a_restart(server: IggyServer, stream_name: str) -> None:
    """H18, RELIABILITY: a restart in the middle of a fold changes nothing about its result."""
    async with ls.Laser.connect(server.url, stream=stream_name) as client:
        await client.ensure_topic(TOPIC, 4)
        scope = client.context(ls.new_conversation_id())
        for _ in range(10):
            await scope.append_many(TOPIC, [f"{at}" for at in range(2_000)])
        undisturbed = await scope.state([TOPIC], "", chain, full=True)
        seen = 0

        async def disturbed(state: str, message: ls.ContextMessage) -> str:
            nonlocal seen
            seen += 1
            if seen == 9_000:
                await server.restart(kill=True)
            return chain(state, message)

        async with ls.Laser.connect(server.url, stream=stream_name, cache=0) as fresh:
            again = fresh.context(scope.conversation)
            assert await again.state([TOPIC], "", disturbed, full=True) == undisturbed
        assert seen == 20_000
