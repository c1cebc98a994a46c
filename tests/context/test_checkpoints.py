"""Resuming from a checkpoint: nothing skipped, nothing repeated, and a loud error when the log cannot give it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import anyio
import msgspec
import pytest

import laser as ls
from tests.context.folding import SESSIONS, ListStore, append_raw, chain, count, texts

pytestmark = pytest.mark.anyio

TOPIC = SESSIONS[0]


@pytest.fixture
def scope(laser: ls.Laser) -> ls.ContextScope:
    return laser.context(ls.new_conversation_id())


def without_marks(checkpoint: ls.Checkpoint) -> ls.Checkpoint:
    """The checkpoint as laser-sdk would have written it."""
    return ls.Checkpoint(checkpoint.topics())


async def _damaged(laser: ls.Laser, scope: ls.ContextScope, damage: str) -> None:
    what, _, after = damage.partition(", then ")
    if what == "recreated":
        await laser.delete_topic(TOPIC)
        await laser.ensure_topic(TOPIC, 4, ls.TopicRetention(expire_after=timedelta(days=30)))
    elif what == "purged":
        await laser.purge_topic(TOPIC)
    else:
        await laser.delete_topic(TOPIC)
    for number in range(int(after or 0)):
        await scope.append(TOPIC, f"new {number}")


async def _readers(
    laser: ls.Laser, scope: ls.ContextScope, cp: ls.Checkpoint
) -> dict[str, Callable[[], Awaitable[object]]]:
    """Every way to read from, or up to, a checkpoint."""
    snapshot = await ls.snapshot_from_checkpoint(laser, scope.conversation, "f", cp, 5)

    async def follow() -> None:
        async with scope.follow(SESSIONS, cp) as messages:
            await anext(messages)

    async def drop() -> object:
        return await ls.checkpoint_from_snapshot(laser, snapshot, SESSIONS)

    assemble = laser.assemble_context
    return {
        "state from": lambda: scope.state(SESSIONS, 0, count, from_checkpoint=cp),
        "state at": lambda: scope.state(SESSIONS, 0, count, at=cp),
        "assemble from": lambda: assemble(scope.conversation, from_checkpoint=cp),
        "assemble to": lambda: assemble(scope.conversation, to_checkpoint=cp),
        "follow": follow,
        "state with": lambda: scope.state_with(ListStore(snapshot), SESSIONS, 0, count),
        "checkpoint from snapshot": drop,
    }


@pytest.mark.parametrize(
    "damage",
    [
        "recreated",
        "recreated, then 3",
        "recreated, then 10",
        "purged",
        "purged, then 3",
        "purged, then 10",
        "deleted",
    ],
)
async def test_f6_f15_a_log_that_is_not_the_same_is_refused(
    laser: ls.Laser, scope: ls.ContextScope, damage: str
) -> None:
    """F6, F15: 5 messages, a checkpoint, then another log under the same name, shorter or longer than it was."""
    ids = [(await scope.append(TOPIC, f"old {number}")).id for number in range(5)]
    partition = (await scope.fetch())[0].partition
    old = await laser.topic(TOPIC)
    readers = await _readers(laser, scope, await scope.checkpoint())
    await _damaged(laser, scope, damage)

    errors: dict[str, ls.StaleCheckpointError] = {}
    for name, read in readers.items():
        if name == "checkpoint from snapshot" and damage.startswith("purged"):
            # It compares creation times; what is on the log is looked at by whoever reads from there.
            assert await read() is not None
            continue
        with pytest.raises(ls.StaleCheckpointError) as caught:
            await read()
        errors[name] = caught.value
        assert caught.value.topic == TOPIC
        assert isinstance(caught.value, ls.InvalidError)
        assert not caught.value.retryable

    if damage.startswith("recreated"):
        new = await laser.topic(TOPIC)
        for name, error in errors.items():
            assert (error.partition, error.expected) in (
                (None, old.created_at_micros),
                (partition, old.created_at_micros),
            )
            assert error.actual == new.created_at_micros or (error.actual == 0 and "snapshot" in str(error)), name
    elif damage.endswith("then 10"):
        now = await scope.fetch()
        assert {(error.partition, error.expected, error.actual) for error in errors.values()} == {
            (partition, ids[4], now[4].record_id)
        }
    elif damage.startswith("purged"):
        end = int(damage.partition(", then ")[2] or 0)
        assert {(error.partition, error.expected, error.actual) for error in errors.values()} == {(partition, 5, end)}
    else:
        assert all(error.actual == 0 for error in errors.values())

    # What the error says to do works.
    expected = int(damage.partition(", then ")[2] or 0)
    assert await scope.state(SESSIONS, 0, count, full=True) == expected


async def test_another_stream_is_refused(laser: ls.Laser, engine_url: str, stream_name: str) -> None:
    """Each stream has an agent.sessions; a checkpoint of one must not move a reader of another."""
    if engine_url == "memory:":
        pytest.skip("a log in memory belongs to one client")
    cp = await laser.context(ls.new_conversation_id()).checkpoint()
    old = await laser.topic(TOPIC)
    async with ls.Laser.connect(engine_url, stream=f"{stream_name}-2") as other:
        await other.ensure_topic(TOPIC, 4)
        new = await other.topic(TOPIC)
        with pytest.raises(ls.StaleCheckpointError) as caught:
            await other.context(ls.new_conversation_id()).state(SESSIONS, 0, count, from_checkpoint=cp)
    assert (caught.value.expected, caught.value.actual) == (
        old.stream_created_at_micros,
        new.stream_created_at_micros,
    )


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "the peer's"])
async def test_past_the_end(laser: ls.Laser, scope: ls.ContextScope, ours: bool) -> None:
    """D13, F6: a checkpoint ahead of the log's end, whoever wrote it."""
    receipt = await scope.append(TOPIC, "a")
    cp = await scope.checkpoint()
    value = json.loads(cp.to_json())
    value["per_topic"][TOPIC][str(receipt.partition)] = 7
    ahead = ls.Checkpoint.from_json(json.dumps(value))
    if not ours:
        ahead = without_marks(ahead)
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: scope.state(SESSIONS, 0, count, from_checkpoint=ahead),
        lambda: scope.state(SESSIONS, 0, count, at=ahead),
        lambda: scope.state(SESSIONS, 0, count, from_offsets={TOPIC: {receipt.partition: 7}}),
        lambda: laser.assemble_context(scope.conversation, from_checkpoint=ahead),
        lambda: laser.assemble_context(scope.conversation, to_checkpoint=ahead),
        lambda: anext(scope.follow(SESSIONS, ahead)),
    ]
    for call in calls:
        with pytest.raises(ls.StaleCheckpointError) as caught:
            await call()
        error = caught.value
        assert (error.topic, error.partition, error.expected, error.actual) == (TOPIC, receipt.partition, 7, 1)


async def test_f15_a_partition_that_is_gone_or_made_anew(laser: ls.Laser, scope: ls.ContextScope) -> None:
    receipt = await scope.append(TOPIC, "a")
    cp = await scope.checkpoint()
    gone = ls.Checkpoint({TOPIC: {**cp.topics()[TOPIC], 9: 3}})
    for call in (
        lambda: scope.state(SESSIONS, 0, count, from_checkpoint=gone),
        lambda: scope.state(SESSIONS, 0, count, at=gone),
        lambda: scope.state(SESSIONS, 0, count, from_offsets={TOPIC: {9: 3}}),
        lambda: laser.assemble_context(scope.conversation, from_checkpoint=gone),
        lambda: anext(scope.follow(SESSIONS, gone)),
    ):
        with pytest.raises(ls.StaleCheckpointError) as caught:
            await call()
        assert (caught.value.partition, caught.value.expected, caught.value.actual) == (9, 3, 0)
    # Nothing was read of it, so nothing is lost with it.
    never = ls.Checkpoint({TOPIC: {**cp.topics()[TOPIC], 9: 0}})
    assert await scope.state(SESSIONS, 0, count, from_checkpoint=never) == 0

    value = json.loads(cp.to_json())
    value["laser"]["topics"][TOPIC]["partitions"][str(receipt.partition)]["created_at_micros"] -= 5
    anew = ls.Checkpoint.from_json(json.dumps(value))
    part = (await laser.topic(TOPIC)).partitions[receipt.partition]
    with pytest.raises(ls.StaleCheckpointError) as caught:
        await scope.state(SESSIONS, 0, count, from_checkpoint=anew)
    assert (caught.value.partition, caught.value.expected) == (part.id, part.created_at_micros - 5)
    assert caught.value.actual == part.created_at_micros


async def test_added_partitions_are_read_from_their_beginning(laser: ls.Laser, scope: ls.ContextScope) -> None:
    scopes = [scope, *(laser.context(ls.new_conversation_id()) for _ in range(7))]
    for place, one in enumerate(scopes):
        await one.append_many(TOPIC, [f"{place} old {number}" for number in range(3)])
    cp = await scope.checkpoint()
    for checkpoint in (cp, without_marks(cp)):
        assert all([await one.state(SESSIONS, 0, count, from_checkpoint=checkpoint) == 0 for one in scopes])
    await laser.add_partitions(TOPIC, 3)
    for place, one in enumerate(scopes):
        for number in range(3):
            await one.append(TOPIC, f"{place} new {number}")
    moved = 0
    for place, one in enumerate(scopes):
        fresh = [f"{place} new {number}" for number in range(3)]
        stale = [f"{place} old {number}" for number in range(3)]
        for checkpoint in (cp, without_marks(cp)):
            assert await one.state(SESSIONS, [], texts, from_checkpoint=checkpoint) == fresh
            assert await one.state(SESSIONS, [], texts, at=checkpoint) == stale
        assert await one.state(SESSIONS, [], texts, full=True) == stale + fresh
        moved += len({message.partition for message in await one.fetch()}) - 1
    assert moved, "no conversation went to another partition, so nothing was shown"


async def test_topics_that_a_checkpoint_does_not_cover_are_read_whole(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await scope.append(TOPIC, "a")
    cp = await scope.checkpoint()
    await scope.append(ls.AgentTopic.ToolCalls, "b")
    await laser.ensure_topic("later")
    await scope.append("later", "c")
    topics = [TOPIC, ls.AgentTopic.ToolCalls, "later"]
    assert await scope.state(topics, [], texts, from_checkpoint=cp) == ["b", "c"]
    assert await scope.state(topics, [], texts, at=cp) == ["a"]


async def test_checkpoints_of_the_peer_are_checked_as_far_as_they_can_be(
    laser: ls.Laser, scope: ls.ContextScope
) -> None:
    """Without ids and creation times a log that grew past the checkpoint again looks like the same one."""
    await scope.append_many(TOPIC, [f"old {number}" for number in range(5)])
    cp = without_marks(await scope.checkpoint())
    assert "laser" not in json.loads(cp.to_json())
    assert await scope.state(SESSIONS, [], texts, at=cp) == [f"old {number}" for number in range(5)]
    await scope.append(TOPIC, "new")
    assert await scope.state(SESSIONS, [], texts, from_checkpoint=cp) == ["new"]
    await laser.purge_topic(TOPIC)
    with pytest.raises(ls.StaleCheckpointError):
        await scope.state(SESSIONS, 0, count, from_checkpoint=cp)
    for number in range(7):
        await scope.append(TOPIC, f"again {number}")
    assert await scope.state(SESSIONS, [], texts, from_checkpoint=cp) == ["again 5", "again 6"]


async def test_f3_a_checkpoint_is_a_value_of_the_clients(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """F3, F13, F14: taking, keeping and using one writes nothing, and what was read in between does not matter."""
    await scope.append_many(TOPIC, ["a", "b"])
    kept = (await scope.checkpoint()).to_json()
    before = [info.records for info in await laser.topics()]
    await scope.append(TOPIC, "c")
    for _ in range(3):
        assert await scope.state(SESSIONS, [], texts, from_checkpoint=ls.Checkpoint.from_json(kept)) == ["c"]
        await scope.fetch()
    assert sum(info.records for info in await laser.topics()) == sum(before) + 1
    assert await ls.context_checkpoint(laser, SESSIONS) == await scope.checkpoint(SESSIONS)


def _named(name: str) -> bytes:
    return bytes([2, len(name.encode())]) + name.encode()


async def _outgrow(laser: ls.Laser, engine_url: str, topic: str, scope: ls.ContextScope) -> None:
    """Has retention take the first records of a topic with one partition that is bounded to 4 MiB."""
    for number in range(8):
        await scope.append(topic, f"{number}".ljust(1 << 20))
    if engine_url.startswith("iggy"):
        from apache_iggy import IggyClient

        client = IggyClient.from_connection_string(engine_url)
        await client.connect()
        body = _named(laser.stream) + _named(topic) + (0).to_bytes(4, "little") + (3).to_bytes(4, "little")
        await client.send_binary_request(503, body)  # removes the oldest segments, as retention does
    held = 6 if engine_url.startswith("iggy") else 3
    with anyio.fail_after(120):
        while (part := (await laser.topic(topic)).partitions[0]).end - part.first > held:
            await anyio.sleep(0.01)


async def test_f7_what_retention_took_is_a_gap_with_both_numbers(
    laser: ls.Laser, engine_url: str, scope: ls.ContextScope
) -> None:
    """F7, F9: a checkpoint whose next records are gone; nothing is skipped without a word."""
    topic = "bounded"
    await laser.ensure_topic(topic, 1, ls.TopicRetention(max_size=4 << 20))
    await scope.append(topic, "first")
    cp = await scope.checkpoint([topic])
    snapshot = await ls.snapshot_from_checkpoint(laser, scope.conversation, "f", cp, 1)
    await _outgrow(laser, engine_url, topic, scope)
    (part,) = (await laser.topic(topic)).partitions
    assert part.first > 1

    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: scope.state([topic], 0, count, from_checkpoint=cp),
        lambda: scope.state([topic], 0, count, from_checkpoint=without_marks(cp)),
        lambda: scope.state([topic], 0, count, from_offsets={topic: {0: 1}}),
        lambda: scope.state_with(ListStore(snapshot), [topic], 0, count),
        lambda: laser.assemble_context(scope.conversation, topics=[topic], from_checkpoint=cp),
        lambda: anext(scope.follow([topic], cp)),
    ]
    for call in calls:
        with pytest.raises(ls.RetentionGapError) as caught:
            await call()
        error = caught.value
        assert (error.topic, error.partition, error.wanted, error.first) == (topic, 0, 1, part.first)
        assert not error.retryable
    held = part.end - part.first
    assert await scope.state([topic], 0, count, full=True) == held
    assert await scope.state([topic], 0, count, from_offsets={}) == held
    assert await scope.state([topic], 0, count, at=await scope.checkpoint([topic])) == held
    # Everything before this checkpoint is gone: what is left of it is nothing.
    assert await scope.state([topic], 0, count, at=cp) == 0
    now = await scope.checkpoint([topic])
    assert await scope.state([topic], 0, count, from_checkpoint=now) == 0


async def test_copies_around_a_checkpoint_count_once(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """D6: an append whose answer was lost is written twice; the second copy may lie after the checkpoint."""
    other = ls.new_conversation_id()
    await append_raw(laser, TOPIC, scope.conversation, [(1, b"a"), (2, b"b"), (3, b"c")])
    cp = await scope.checkpoint()
    snapshot = await ls.snapshot_from_checkpoint(
        laser, scope.conversation, "f", cp, await scope.state(SESSIONS, "", chain, at=cp)
    )
    # Another conversation may have the same ids: they are its own.
    await append_raw(laser, TOPIC, scope.conversation, [(2, b"b")], conversation=other)
    await append_raw(laser, TOPIC, scope.conversation, [(3, b"c"), (4, b"d"), (2, b"b")])
    await append_raw(laser, TOPIC, scope.conversation, [(4, b"d"), (5, b"e")])
    assert await scope.state(SESSIONS, [], texts, full=True) == ["a", "b", "c", "d", "e"]
    assert await scope.state(SESSIONS, [], texts, from_checkpoint=cp) == ["d", "e"]
    full = await scope.state(SESSIONS, "", chain, full=True)
    assert await scope.state_with(ListStore(snapshot), SESSIONS, "", chain) == full
    follow = scope.follow(SESSIONS, cp)
    assert [
        entry.text for entry in (await anext(follow), await anext(follow)) if isinstance(entry, ls.ContextMessage)
    ] == [
        "d",
        "e",
    ]
    assert await anext(follow) == ls.CaughtUp()


async def test_a_snapshot_without_ids_is_used_too(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """One of laser-sdk has none."""
    await scope.append_many(TOPIC, ["a", "b"])
    cp = without_marks(await scope.checkpoint())
    snapshot = await ls.snapshot_from_checkpoint(laser, scope.conversation, "f", cp, ["a", "b"])
    assert all(part.last_id is None for part in snapshot.as_of)
    await scope.append(TOPIC, "c")
    assert await scope.state_with(ListStore(snapshot), SESSIONS, [], texts) == ["a", "b", "c"]
    back = await ls.checkpoint_from_snapshot(laser, snapshot, SESSIONS)
    assert await scope.state(SESSIONS, [], texts, from_checkpoint=back) == ["c"]


async def test_snapshots_are_made_of_good_arguments_only(laser: ls.Laser, scope: ls.ContextScope) -> None:
    cp = await scope.checkpoint()

    async def make(
        *, checkpoint: Any = cp, fold: Any = "f", version: Any = 1, state: Any = 1, conversation: Any = None
    ) -> Any:
        return await ls.snapshot_from_checkpoint(
            laser, conversation or scope.conversation, fold, checkpoint, state, version=version
        )

    for argument, arguments in (
        ("checkpoint", {"checkpoint": ls.Checkpoint({})}),
        ("checkpoint", {"checkpoint": cp.to_json()}),
        ("fold", {"fold": ""}),
        ("fold", {"fold": None}),
        ("version", {"version": 0}),
        ("version", {"version": True}),
        ("version", {"version": 2**32}),
        ("state", {"state": {1: 2}}),
        ("state", {"state": b"{"}),
        ("conversation_id", {"conversation": "no id"}),
    ):
        with pytest.raises(ls.InvalidError) as caught:
            await make(**arguments)
        assert caught.value.argument == argument
    with pytest.raises(ls.NotFoundError, match="covers"):
        await make(checkpoint=ls.Checkpoint({"no.such": {0: 1}}))
    made = await make(state={"a": [1]}, version=3)
    assert (made.stream, made.state, made.version, made.fold) == (laser.stream, b'{"a":[1]}', 3, "f")
    assert ls.decode_snapshot(ls.encode_snapshot(made)) == made


async def test_h15_a_snapshot_is_where_its_checkpoint_was(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """H15, H18: exact offsets of each partition, and the resume begins right after them."""
    for number in range(9):
        await laser.context(ls.derive_conversation_id(f"{number}")).append(TOPIC, "x")
    cp = await scope.checkpoint()
    made = await ls.snapshot_from_checkpoint(laser, scope.conversation, "f", cp, None)
    back = await ls.checkpoint_from_snapshot(laser, made, SESSIONS)
    assert {part: at for part, at in cp.topics()[TOPIC].items() if at} == back.topics()[TOPIC]
    info = await laser.topic(TOPIC)
    assert ls.resume_offsets(made) == [
        (info.topic_id, info.created_at_micros, part, at) for part, at in sorted(cp.topics()[TOPIC].items()) if at
    ]
    other = msgspec.structs.replace(made, as_of=(*made.as_of, ls.Folded(info.topic_id + 1, 1, 0, 0)))
    with pytest.raises(ls.StaleCheckpointError, match="topics of the fold changed"):
        await ls.checkpoint_from_snapshot(laser, other, SESSIONS)
