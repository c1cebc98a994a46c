"""State folds, checkpoints and snapshots of laser-sdk and ours: one result, and each uses what the other wrote."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

import laser as ls
from tests.peer.conftest import Both

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.iggy,
    pytest.mark.peer,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
]

SESSIONS, TOOLS = ls.AgentTopic.Sessions, ls.AgentTopic.ToolCalls
TOPICS = [SESSIONS, TOOLS]
CONVERSATION = ls.derive_conversation_id("shared")


def chain(state: str, message: Any) -> str:
    """A hash over every message and its place, in order; the messages of both clients have these names."""
    place = f"{state}|{message.topic}|{message.id}|"
    return hashlib.sha256(place.encode() + bytes(message.payload)).hexdigest()


def count(state: int, message: Any) -> int:
    return state + 1


async def _grow(both: Both, start: int, number: int) -> None:
    """Messages of both clients in turn, on two topics, between those of other conversations."""
    for at in range(start, start + number):
        topic = TOPICS[at * 5 % 7 % 2]
        if at % 2:
            await both.theirs.context(CONVERSATION).append(topic, b"%d" % at)
        else:
            await both.ours.context(CONVERSATION).append(topic, b"%d" % at)
        await both.ours.context(ls.derive_conversation_id(f"other {at % 5}")).append(topic, "other")


async def test_every_bound_gives_the_same_state(both: Both) -> None:
    import laser_sdk as sdk

    ours, theirs = both.ours.context(CONVERSATION), both.theirs.context(CONVERSATION)
    begin = await ours.checkpoint(TOPICS)
    await _grow(both, 0, 20)
    middle = await ours.checkpoint(TOPICS)
    await _grow(both, 20, 20)
    end = await ours.checkpoint(TOPICS)
    partition = (await ours.fetch(topics=[SESSIONS]))[0].partition
    bounds: list[dict[str, Any]] = [
        {"full": True},
        *({"last_n": n} for n in (0, 1, 7, 40, 10_000)),
        *({"from_checkpoint": checkpoint} for checkpoint in (begin, middle, end)),
        *({"at": checkpoint} for checkpoint in (begin, middle, end)),
        {"from_offsets": {SESSIONS: {partition: 5}}},
        {"from_offsets": {SESSIONS: {partition: 5}, TOOLS: {partition: 3}}},
        {"from_offsets": {}},
    ]
    seen = set()
    for bound in bounds:
        peers = {
            name: sdk.Checkpoint.from_json(value.to_json()) if isinstance(value, ls.Checkpoint) else value
            for name, value in bound.items()
        }
        for topics in (TOPICS, TOPICS[::-1], [SESSIONS], [*TOPICS, "no.such"]):
            mine = await ours.state(topics, "", chain, **bound)
            assert mine == await theirs.state(topics, "", chain, **peers), bound
            seen.add(mine)
    assert len(seen) > 10


async def test_checkpoints_both_ways(both: Both) -> None:
    import laser_sdk as sdk

    ours, theirs = both.ours.context(CONVERSATION), both.theirs.context(CONVERSATION)
    await _grow(both, 0, 12)
    mine, other = await ours.checkpoint(TOPICS), await theirs.checkpoint(TOPICS)
    assert mine.topics() == other.topics()
    assert json.loads(mine.to_json())["per_topic"] == json.loads(other.to_json())["per_topic"]
    await _grow(both, 12, 5)
    for json_text in (mine.to_json(), other.to_json()):
        after = await ours.state(TOPICS, "", chain, from_checkpoint=ls.Checkpoint.from_json(json_text))
        assert after == await theirs.state(TOPICS, "", chain, from_checkpoint=sdk.Checkpoint.from_json(json_text))
        before = await ours.state(TOPICS, "", chain, at=ls.Checkpoint.from_json(json_text))
        assert before == await theirs.state(TOPICS, "", chain, at=sdk.Checkpoint.from_json(json_text))
        assert await ours.state(TOPICS, before, chain, full=True) != after
    assert await ours.state(TOPICS, 0, count, from_checkpoint=ls.Checkpoint.from_json(other.to_json())) == 5


async def test_snapshots_of_the_peers_store(both: Both) -> None:
    """Its snapshot is found, checked and folded on; the bytes are the ones that we would have written."""
    import laser_sdk as sdk

    ours, theirs = both.ours.context(CONVERSATION), both.theirs.context(CONVERSATION)
    store = sdk.TopicSnapshotStore(both.theirs, "chain")
    for turn in range(4):
        await _grow(both, 10 * turn, 10)
        cp = await theirs.checkpoint(TOPICS)
        state = await theirs.state(TOPICS, "", chain, at=cp)
        kept = json.dumps(state).encode()
        snapshot = await sdk.snapshot_from_checkpoint(both.theirs, CONVERSATION, "chain", cp, kept)
        await store.save(snapshot)
        found = await ls.TopicSnapshotStore(both.ours, "chain").latest(CONVERSATION)
        assert found is not None
        assert ls.encode_snapshot(found) == bytes(sdk.encode_snapshot(snapshot))
        assert (found.version, found.state) == (1, kept)
    await _grow(both, 40, 3)
    full = await ours.state(TOPICS, "", chain, full=True)
    seen = 0

    def counting(state: str, message: ls.ContextMessage) -> str:
        nonlocal seen
        seen += 1
        return chain(state, message)

    assert await ours.state_with(ls.TopicSnapshotStore(both.ours, "chain"), TOPICS, "", counting) == full
    assert seen == 3, "the rest was in the snapshot"
    resumed = await ls.checkpoint_from_snapshot(both.ours, found, TOPICS)
    peers = await sdk.checkpoint_from_snapshot(both.theirs, snapshot, TOPICS)
    # It also names partitions of which nothing was folded; so does ours, by leaving them out: both begin at 0.
    assert {topic: {part: at for part, at in parts.items() if at} for topic, parts in peers.topics().items()} == {
        topic: {part: at for part, at in parts.items() if at} for topic, parts in resumed.topics().items()
    }


async def test_our_snapshots_in_the_peers_store(both: Both) -> None:
    import laser_sdk as sdk

    ours, theirs = both.ours.context(CONVERSATION), both.theirs.context(CONVERSATION)
    mine, other = ls.TopicSnapshotStore(both.ours, "chain"), sdk.TopicSnapshotStore(both.theirs, "chain")
    for turn in range(4):
        await _grow(both, 10 * turn, 10)
        full = await ours.state_with(mine, TOPICS, "", chain, save=ls.AutoSave(every=1))
        assert full == await theirs.state(TOPICS, "", chain, full=True)
        found = await other.latest(CONVERSATION)
        latest = await mine.latest(CONVERSATION)
        assert latest is not None
        assert bytes(found["state"]) == latest.state == json.dumps(full).encode()
        assert [tuple(part) for part in found["as_of"]] == [
            (part.topic_id, part.topic_created_at_micros, part.partition, part.offset) for part in latest.as_of
        ]
        assert all(part.last_id is not None for part in latest.as_of)
        # Its own fields of our bytes, encoded by it, are the beginning of ours.
        again = bytes(sdk.encode_snapshot(sdk.decode_snapshot(ls.encode_snapshot(latest))))
        assert ls.encode_snapshot(latest)[1 : len(again)] == again[1:]
    await _grow(both, 40, 3)
    seen = 0

    def counting(state: str, message: Any) -> str:
        nonlocal seen
        seen += 1
        return chain(state, message)

    assert await theirs.state_with(other, TOPICS, "", counting) == await ours.state(TOPICS, "", chain, full=True)
    assert seen == 3, "the rest was in our snapshot"


async def test_two_clients_in_turn(both: Both, caplog: pytest.LogCaptureFixture) -> None:
    """One fold, kept by whichever client is at it."""
    import laser_sdk as sdk

    ours, theirs = both.ours.context(CONVERSATION), both.theirs.context(CONVERSATION)
    mine, other = ls.TopicSnapshotStore(both.ours, "chain"), sdk.TopicSnapshotStore(both.theirs, "chain")
    for turn in range(6):
        await _grow(both, 5 * turn, 5)
        if turn % 2:
            state = await ours.state_with(mine, TOPICS, "", chain, save=ls.AutoSave(every=2))
        else:
            cp = await theirs.checkpoint(TOPICS)
            state = await theirs.state_with(other, TOPICS, "", chain)
            kept = json.dumps(state).encode()
            await other.save(await sdk.snapshot_from_checkpoint(both.theirs, CONVERSATION, "chain", cp, kept))
        assert state == await ours.state(TOPICS, "", chain, full=True)
    assert "folding from the start" not in caplog.text


async def test_both_refuse_a_recreated_topic(both: Both) -> None:
    import laser_sdk as sdk

    ours, theirs = both.ours.context(CONVERSATION), both.theirs.context(CONVERSATION)
    await _grow(both, 0, 10)
    mine, other = ls.TopicSnapshotStore(both.ours, "count"), sdk.TopicSnapshotStore(both.theirs, "count")
    assert await ours.state_with(mine, TOPICS, 0, count, save=ls.AutoSave(every=1)) == 10
    await both.ours.delete_topic(TOOLS)
    await both.ours.ensure_topic(TOOLS, 4)
    await _grow(both, 10, 4)
    with pytest.raises(sdk.InvalidError):
        await theirs.state_with(other, TOPICS, 0, count)
    with pytest.raises(ls.StaleCheckpointError):
        await ours.state_with(mine, TOPICS, 0, count)
    # After the fold from the start both go on from the new snapshot.
    cp = await ours.checkpoint(TOPICS)
    state = await ours.state(TOPICS, 0, count, at=cp)
    await mine.save(await ls.snapshot_from_checkpoint(both.ours, CONVERSATION, "count", cp, state))
    await _grow(both, 14, 1)
    assert await ours.state_with(mine, TOPICS, 0, count) == state + 1
    assert await theirs.state_with(other, TOPICS, 0, count) == state + 1
