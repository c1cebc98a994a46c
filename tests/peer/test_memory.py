"""laser-sdk and laser recall each other's memory, folded, on one Iggy server."""

from __future__ import annotations

import random
from typing import Any

import pytest

import laser as ls
from laser.memory.blocks import memory_block
from laser.wire.blocks import decode_block
from laser.wire.memory import content_id
from tests.peer.conftest import Both

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.iggy,
    pytest.mark.peer,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
]

A, B = ls.derive_conversation_id("a"), ls.derive_conversation_id("b")
KINDS = ("fact", "message", "summary", "entity", "feedback", "procedure")

Said = list[tuple[str, bytes, str, float | None]]


async def ours(both: Both, query: str | None = None, **named: Any) -> Said:
    """What we recall, folded: id, body, kind and score."""
    found = await both.ours.memory("notes").recall(query, folded=True, **named)
    return [(item.id, item.body, item.kind, item.score) for item in found]


async def theirs(both: Both, query: str | None = None, **named: Any) -> Said:
    """What the peer recalls."""
    found = await both.theirs.memory("notes").recall(folded=True, semantic=query, **named)
    return [(item.id, bytes(item.payload), str(item.kind), item.score) for item in found]


async def same(both: Both, query: str | None = None, **named: Any) -> Said:
    """One conversation's memory: what both recall, in one order."""
    read = await ours(both, query, **named)
    assert read == await theirs(both, query, **named)
    return read


async def alike(both: Both, query: str | None = None, **named: Any) -> Said:
    """Memory across conversations: the same items and scores. Those of one score the peer orders by partition."""
    read, other = await ours(both, query, **named), await theirs(both, query, **named)
    assert sorted(read) == sorted(other)  # type: ignore[type-var]
    assert [one[3] or 0.0 for one in read] == [one[3] or 0.0 for one in other]
    return read


async def test_each_recalls_what_the_other_remembered(both: Both) -> None:
    mine, other = both.ours.memory("notes"), both.theirs.memory("notes")
    ids = []
    for number, kind in enumerate(KINDS):
        ids.append(await mine.remember(f"ours {number}", kind=kind, conversation=A, user="u1"))  # type: ignore[arg-type]
        ids.append(await other.remember(f"theirs {number}", kind=kind, conversation=A, user="u1"))
    assert [one[0] for one in await same(both, conversation=A)] == ids[::-1]
    assert len(await same(both, conversation=A, user="u1", limit=5)) == 5
    for user in ("u", "u10"):
        assert await same(both, conversation=A, user=user) == []
    assert await same(both, conversation=B) == []
    assert [one[1] for one in await same(both, "OURS, 3", conversation=A, limit=9)][:3] == [
        b"ours 5",
        b"ours 4",
        b"theirs 3",
    ]
    # The view finds the peer's items too.
    assert [item.id for item in await mine.recall(conversation=A)] == ids[::-1]
    found = await mine.search("theirs", conversation=A)
    assert {item.text for item in found[:6]} == {f"theirs {n}" for n in range(6)}


async def test_feedback_and_forgets_of_either(both: Both) -> None:
    mine, other = both.ours.memory("notes"), both.theirs.memory("notes")
    ids = [await (mine, other)[number % 2].remember(f"note {number}", conversation=A) for number in range(8)]
    await mine.improve(ids[1], 1.5, note="ours")
    await other.improve(ids[0], 2.0)
    await other.improve(ids[1], 1.0, conversation=A)
    await mine.improve(ids[2], -0.5, conversation=A)
    await other.improve(ids[3], 3.0, conversation=B)
    await mine.improve(ids[4], 1.0)
    await other.improve(ids[4], -1.0)
    read = await same(both, conversation=A)
    assert [one[0] for one in read] == [ids[at] for at in (1, 0, 7, 6, 5, 4, 3, 2)]
    assert [one[3] for one in read] == [2.5, 2.0, None, None, None, 0.0, None, -0.5]
    assert [one[0] for one in await same(both, conversation=A, strategy="recent")] == ids[::-1]
    await mine.forget(ids[1])
    await other.forget(ids[0])
    await other.forget(ids[6], conversation=A)
    await mine.forget(ids[7], conversation=A)
    await mine.forget(ids[5], conversation=B)
    assert {one[0] for one in await same(both, conversation=A)} == {ids[at] for at in (2, 3, 4, 5)}
    assert {item.id for item in await mine.recall()} == {ids[at] for at in (2, 3, 4, 5)}


async def test_ids_by_content(both: Both) -> None:
    import laser_sdk as sdk

    mine, other = both.ours.memory("notes"), both.theirs.memory("notes")
    for kind in KINDS:
        for named in (
            {},
            {"agent": "g"},
            {"user": "ü"},
            {"application": "p"},
            {"agent": "g", "user": "u", "application": "p"},
        ):
            item = await mine.remember("tea", kind=kind, dedup=True, conversation=A, **named)  # type: ignore[arg-type]
            assert await other.remember("tea", kind=kind, dedup=True, conversation=A, **named) == item
            assert item == sdk.memory_id_content(kind, b"tea", **named)
            short = {{"application": "app"}.get(name, name): value for name, value in named.items()}
            assert item == content_id(kind, b"tea", **short)  # type: ignore[arg-type]
    assert len(await same(both, conversation=A)) == 30
    forgotten = (await mine.recall(conversation=A))[0]
    await other.forget(forgotten.id)
    await mine.remember(forgotten.body, kind=forgotten.kind, dedup=True, conversation=A)  # type: ignore[arg-type]
    assert len(await same(both, conversation=A)) == 29


async def test_records_are_the_same_bytes(both: Both) -> None:
    for memory in (both.ours.memory("notes"), both.theirs.memory("notes")):
        named: dict[str, Any] = {"conversation": A, "agent": "g", "user": "u", "application": "p"}
        item = await memory.remember(b"\x00x\xff", dedup=True, **named)
        await memory.improve(item, 0.1, **named)
        await memory.forget(item, **named)
    log, info = both.ours.open_log(), await both.ours.topic("agent.memory")
    records = [
        record
        for part in info.partitions
        for record in (await log.read(both.ours.stream, info.name, part.id, start=0, limit=100)).records
    ]
    assert len(records) == 6
    for mine, other in zip(records[:3], records[3:], strict=True):
        assert (mine.payload, mine.partition) == (other.payload, other.partition)
        own, others = decode_block(mine.headers), decode_block(other.headers)
        # The key of a forget or of feedback is new each time.
        assert [one for one in own if one.key != b"agdx.idem"] == [one for one in others if one.key != b"agdx.idem"]
        assert [one.key for one in own] == [one.key for one in others]


async def test_facts_are_items_to_the_peer(both: Both) -> None:
    mine = both.ours.memory("notes")
    facts = mine.facts(tenant="acme", customer="c")
    await facts.set("colour", "red")
    await facts.set("colour", "blue")
    read = await theirs(both, user="c", application="acme")
    # It knows nothing of keys: a value that was replaced is an item like others.
    assert [one[1] for one in read] == [b"colour: blue", b"colour: red"]
    assert [one[1] for one in await ours(both, user="c")] == [b"colour: blue"]
    await facts.forget("colour")
    assert await theirs(both, user="c") == await ours(both, user="c") == []


async def test_known_differences(both: Both) -> None:
    mine = both.ours.memory("notes")
    item = await mine.remember("tea", dedup=True, conversation=A)
    await both.theirs.memory("notes").remember("tea", dedup=True, conversation=B)
    # The peer keeps one item an id, in the conversation where it was first.
    assert await theirs(both, conversation=B) == []
    assert [one[0] for one in await ours(both, conversation=B)] == [item]
    assert await alike(both) == [(item, b"tea", "fact", None)]


async def test_blocks(both: Both) -> None:
    mine, other = both.ours.memory("notes"), both.theirs.memory("notes")
    for text in ("a" * 9, "é" * 8, "", "c" * 40, "d"):
        await mine.remember(text, conversation=A)
    await other.remember(b"\xff raw", conversation=A)
    items = await mine.recall(conversation=A, folded=True)
    for budget in (None, 0, 1, 2, 3, 5, 14, 100):
        block = await other.recall(folded=True, block=True, token_budget=budget, conversation=A)
        assert memory_block(items, budget) == block


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_random_memories(both: Both, seed: int) -> None:
    chance = random.Random(seed)
    words = ["Alpha", "beta", "gamma", "x1", "Ünï", "don't", "a_b", "हिन्दी", "東京都", "ẞ"]
    ids: list[str] = []
    for step in range(90):
        memory: Any = chance.choice([both.ours.memory("notes"), both.theirs.memory("notes")])
        where, what = chance.choice([A, B, None]), chance.random()
        owner: dict[str, Any] = {"conversation": where, "user": chance.choice([None, "u1", "u10"])}
        if what < 0.6 or not ids:
            # A text of its own for each conversation: see the known differences.
            text = " ".join([str(where)[:8], *chance.choices(words, k=chance.randrange(4))])
            ids.append(
                await memory.remember(text, dedup=chance.random() < 0.3, agent=chance.choice([None, "g"]), **owner)
            )
        elif what < 0.85:
            weight = chance.choice([0.5, 1.0, -1.5, 0.25, 4.0])
            await memory.improve(chance.choice(ids), weight, conversation=where)
        else:
            await memory.forget(chance.choice(ids), conversation=chance.choice([where, None]))
        if step % 6 == 5:
            asked: dict[str, Any] = {
                "limit": chance.choice([0, 1, 3, 50]),
                "strategy": chance.choice(["auto", "recent", "keyword", "hybrid"]),
                "user": chance.choice([None, None, "u1", "u"]),
                "agent": chance.choice([None, None, "g"]),
            }
            query = chance.choice(
                [None, "alpha", "BETA gamma", "zz", "x1 a", "", "ünï", "t", " , ", "हिन्दी", "東京都", "ß"]
            )
            for conversation in (A, B):
                await same(both, query, conversation=conversation, **asked)
            if asked["strategy"] != "recent":
                await alike(both, query, **{**asked, "limit": 1_000})
