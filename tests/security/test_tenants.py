"""Two tenants: streams with equal ids and contents, and conversations whose ids differ in one character."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

import laser as ls
from laser.client.opening import read_target
from laser.engines.memory import MemoryKeyValue, MemoryLog
from laser.model.ids import new_record_id
from laser.wire.blocks import STRING, Header, encode_block
from laser.wire.cbor import encode_cbor
from laser.wire.provenance import CONVERSATION_KEY

pytestmark = pytest.mark.anyio

TOPIC = "events"
CONVERSATION = ls.derive_conversation_id("ticket-7341")
Pair = tuple[ls.Laser, ls.Laser]


def collect(texts: list[str], message: ls.ContextMessage) -> list[str]:
    return [*texts, message.text]


@pytest.fixture
async def tenants(engine_url: str, stream_name: str, tmp_path: Any) -> AsyncIterator[Pair]:
    """Two clients on one log and one key-value store; the name of one stream begins with the other's."""
    async with AsyncExitStack() as stack:
        clients: list[ls.Laser] = []
        log, kv = MemoryLog(), MemoryKeyValue()
        for stream in (stream_name, f"{stream_name}2"):
            if engine_url == "memory:":
                # Each connect to "memory:" is a log of its own: here both are to share one.
                client = ls.Laser(log, read_target("memory:", None, stream, None, 30.0))
                client._kv = kv
            else:
                client = ls.Laser.connect(engine_url, stream=stream, kv=f"embedded:{tmp_path / 'kv'}")
                client = await client
            stack.push_async_callback(client.aclose)
            for topic in (TOPIC, ls.AgentTopic.Snapshots, ls.AgentTopic.Control):
                await client.ensure_topic(topic, 1)
            clients.append(client)
        yield clients[0], clients[1]
        if engine_url.startswith("iggy"):
            for topic in await clients[1].topics():
                await clients[1].delete_topic(topic.name)


async def views(laser: ls.Laser, conversation: str = CONVERSATION) -> list[list[str]]:
    """What a conversation is on every path that reads."""
    scope = laser.context(conversation)
    follow = scope.follow([TOPIC], ls.Checkpoint({TOPIC: {0: 0}}))
    followed: list[str] = []
    async for item in follow:
        if isinstance(item, ls.CaughtUp):
            break
        followed.append(item.text)
    return [
        [message.text for message in await scope.fetch(topics=[TOPIC])],
        [message.text for message in await scope.fetch(topics=[TOPIC], n=10_000)],
        [
            message.text
            for message in await laser.assemble_context(
                conversation, topics=[TOPIC], last_n=10_000, across_subconversations=True
            )
        ],
        await scope.state([TOPIC], [], collect, full=True),
        await scope.state([TOPIC], [], collect, last_n=10_000),
        (await scope.block(topics=[TOPIC], n=10_000)).splitlines(),
        followed,
    ]


async def test_streams_with_equal_ids_see_nothing_of_each_other(tenants: Pair) -> None:
    one, two = tenants
    for number in range(20):
        await one.context(CONVERSATION).append(TOPIC, f"one {number}", id=1 + number)
    # The same ids and the same conversation: what the other stream holds is no earlier attempt of this.
    receipt = await two.context(CONVERSATION).append(TOPIC, "two 0", id=1)
    assert receipt.offset == 0
    for _ in range(2):
        # The second time from what is cached.
        assert await views(one) == [[f"one {number}" for number in range(20)]] * 7
        assert await views(two) == [["two 0"]] * 7
    assert [topic.records for topic in await two.topics() if topic.name == TOPIC] == [1]


async def test_snapshots_of_one_stream_are_not_the_others(tenants: Pair) -> None:
    one, two = tenants
    for store in (ls.TopicSnapshotStore, ls.KvSnapshotStore):
        stores = [store(client, f"fold of {store.__name__}") for client in tenants]
        for client, kept in zip(tenants, stores, strict=True):
            await client.context(CONVERSATION).append(TOPIC, f"{client.stream} {store.__name__}")
            state = await client.context(CONVERSATION).state_with(kept, [TOPIC], [], collect, save=ls.AutoSave(every=1))
            assert all(text.startswith(f"{client.stream} ") for text in state)
        for client, kept in zip(tenants, stores, strict=True):
            latest = await kept.latest(CONVERSATION)
            assert latest is not None
            assert latest.stream == client.stream
            again = await client.context(CONVERSATION).state_with(kept, [TOPIC], [], collect)
            assert all(text.startswith(f"{client.stream} ") for text in again)
    assert one.stream != two.stream


async def test_checkpoints_of_one_stream_are_refused_by_the_other(tenants: Pair) -> None:
    one, two = tenants
    await one.context(CONVERSATION).append(TOPIC, "one")
    await two.context(CONVERSATION).append(TOPIC, "two")
    checkpoint = await one.context(CONVERSATION).checkpoint([TOPIC])
    with pytest.raises(ls.StaleCheckpointError):
        await two.context(CONVERSATION).state([TOPIC], [], collect, from_checkpoint=checkpoint)


async def test_sessions_and_deletes_stay_in_their_stream(tenants: Pair) -> None:
    one, two = tenants
    session = await one.sessions().start(label="of one")
    assert await two.sessions().list() == []
    with pytest.raises(ls.NotFoundError):
        await two.sessions().open(session.id)
    await two.context(CONVERSATION).append(TOPIC, "two")
    await one.context(CONVERSATION).append(TOPIC, "one")
    await one.purge_topic(TOPIC)
    assert await views(one) == [[]] * 7
    assert await views(two) == [["two"]] * 7
    await one.delete_topic(TOPIC)
    assert await views(two) == [["two"]] * 7


async def test_key_value_namespaces_are_apart_whatever_their_names(tenants: Pair) -> None:
    one, _ = tenants
    names = ["a", "a/", "a/b", "a:b", "ab", "a\0b", "%61", "A"]
    for name in names:
        await one.kv(name).set("b", name)
        await one.kv(name).set("b/c", name)
    for name in names:
        assert await one.kv(name).get("b") == name.encode()
        page = await one.kv(name).page()
        assert [(entry.key, entry.value) for entry in page.entries] == [("b", name.encode()), ("b/c", name.encode())]
    for name in names[1:]:
        await one.kv(name).delete("b")
    assert await one.kv("a").get("b") == b"a"


def _alike(conversation: str) -> list[str]:
    """Ids that share everything with one but a character."""
    return [conversation[:-1] + last for last in "0123456789ABCDEF" if last != conversation[-1]]


async def test_conversations_with_almost_the_same_id_are_apart(tenants: Pair) -> None:
    laser, _ = tenants
    ids = [CONVERSATION, *_alike(CONVERSATION)[:5]]
    # One partition for all, and the same record ids in each: both paths of a read have to tell them apart.
    for number in range(30):
        for conversation in ids:
            receipt = await laser.context(conversation).append(TOPIC, f"{conversation} {number}", id=1 + number)
            assert receipt.id == 1 + number
    for conversation in ids:
        assert await views(laser, conversation) == [[f"{conversation} {number}" for number in range(30)]] * 7
    assert await views(laser, _alike(CONVERSATION)[7]) == [[]] * 7


async def test_a_payload_cannot_put_itself_into_another_conversation(tenants: Pair) -> None:
    """A header block, an envelope and an id in a payload are text: readers that search bytes must not be fooled."""
    laser, _ = tenants
    victim, other = CONVERSATION, _alike(CONVERSATION)[0]
    block = encode_block([Header(CONVERSATION_KEY, STRING, victim.encode())])
    envelope = encode_cbor(
        {"kind": "event", "record": bytes(16), "conversation": bytes(16), "source": "forged", "metadata": victim}
    )
    forged = [block, block * 40, victim.encode(), envelope, block[1:], b"\0", b"laser.frame" + block]
    await laser.context(victim).append(TOPIC, "true")
    for payload in forged * 6:
        await laser.context(other).append(TOPIC, payload)
    assert await views(laser, victim) == [["true"]] * 7
    messages = await laser.context(other).fetch(topics=[TOPIC], n=10_000)
    assert [message.payload for message in messages] == forged * 6
    assert {message.provenance.conversation_id for message in messages} == {other}
    assert all(message.envelope is None for message in messages)
    assert messages.skipped == ()


@pytest.mark.parametrize(
    "provenance",
    [
        ls.Provenance(conversation_id=_alike(CONVERSATION)[0]),
        ls.Provenance(agent="a\0gen_ai.conversation.id"),
        ls.Provenance(agent="x\nagdx.to: *"),
        ls.Provenance(idempotency_key="\x1a"),
        ls.Provenance(correlation_id="k" * 256),
    ],
)
async def test_reserved_headers_cannot_be_set_by_hand(tenants: Pair, provenance: ls.Provenance) -> None:
    """No argument takes headers, and no field can grow into one."""
    laser, _ = tenants
    with pytest.raises((ls.InvalidError, ls.ProvenanceError)):
        await laser.context(CONVERSATION).append(TOPIC, "x", provenance=provenance, id=new_record_id())
    assert await views(laser) == [[]] * 7
