"""The active context under random play: every replay, from anywhere, comes to the same."""

from __future__ import annotations

import random

import msgspec
import pytest

import laser as ls
from laser.session.active.events import decode_active
from laser.session.active.fold import ActiveFold, Saved
from tests.session.active.playing import Player

pytestmark = pytest.mark.anyio

ACTIVE = "agent.active"


async def played(laser: ls.Laser, seed: int, moves: int) -> tuple[ls.Session, Player]:
    """A session with random moves made on it."""
    session = await laser.sessions().start()
    player = Player(session, random.Random(seed))
    await player.play(moves)
    return session, player


async def check(laser: ls.Laser, session: ls.Session, player: Player) -> None:
    """Whether another handle, and every replay, sees the same."""
    again = await laser.sessions().open(session.id)
    assert await again.active.read() == player.state
    assert await session.active.read() == player.state
    for revision, state in player.states.items():
        # Its last moment may be one with a compaction under way.
        found = msgspec.structs.replace(await again.active.at(revision), pending=None)
        assert found == state, revision


async def test_a_thousand_plays(anyio_backend: str) -> None:
    """500 on each event loop: after any prefix the fold is that of a fresh one, and of one that began anywhere."""
    first = 0 if anyio_backend == "asyncio" else 500
    for start in range(first, first + 500, 20):
        # A log in memory looks at every record for one conversation's: small logs are quick.
        async with ls.Laser.connect("memory:") as laser:
            await laser.ensure_topic(ls.AgentTopic.Control)
            for seed in range(start, start + 20):
                await play_and_check(laser, seed)


async def play_and_check(laser: ls.Laser, seed: int) -> None:
    session, player = await played(laser, seed, 14)
    again = await laser.sessions().open(session.id)
    assert await again.active.read() == player.state
    if seed % 10 == 0:
        await check(laser, session, player)
    messages = await session.scope().fetch(topics=[ACTIVE], n=10_000)
    events = [(decode_active(message.payload), message.timestamp_micros) for message in messages]
    whole, states, saved = ActiveFold(), [], []
    for event, at in events:
        whole.apply(event, at)
        states.append(whole.state())
        saved.append(msgspec.json.encode(whole.save()))
    if not events:
        return
    assert states[-1] == player.state
    rng = random.Random(seed)
    for place in rng.sample(range(len(events)), min(3, len(events))):
        fresh = ActiveFold()
        for event, at in events[: place + 1]:
            fresh.apply(event, at)
        assert fresh.state() == states[place]
        tail = ActiveFold(msgspec.json.decode(saved[place], type=Saved))
        for event, at in events[place + 1 :]:
            tail.apply(event, at)
        assert tail.state() == states[-1]


async def test_on_every_engine(laser: ls.Laser) -> None:
    for seed in range(3):
        await check(laser, *await played(laser, 5_000 + seed, 20))


async def test_snapshots_change_nothing(laser: ls.Laser) -> None:
    session, player = await played(laser, 1, 10)
    if player.run is not None:
        await player.run.finish()
    state = await session.active.read()
    for number in range(1_030):
        state = await session.active.add(state.revision, ls.NewEntry("summary", b"%d" % number, key="n"))
    assert (await laser.topic(ls.AgentTopic.Snapshots)).records == 1
    assert await (await laser.sessions().open(session.id)).active.read() == state
    assert await session.active.at(state.revision) == state, "that one replays from the beginning"
