"""J3, J4, J5: one owner's memory is another's business on no path, however alike their names are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import laser as ls
from tests.memory.making import C1, C2, HashEmbedder, texts

pytestmark = pytest.mark.anyio

ALIKE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"user": "u1"}, {"user": "u10"}),
    ({"user": "u10"}, {"user": "u1"}),
    ({"user": "u1"}, {"user": "U1"}),
    ({"user": "u1"}, {"user": "u1 "}),
    ({"user": "x"}, {"agent": "x"}),
    ({"agent": "x"}, {"application": "x"}),
    ({"application": "t1", "user": "u"}, {"application": "t10", "user": "u"}),
    ({"application": "a", "user": "b/c"}, {"application": "a/b", "user": "c"}),
    ({"conversation": C1}, {"conversation": C2}),
    ({"conversation": C1, "user": "u1"}, {"conversation": C1, "user": "u10"}),
    ({"user": "%"}, {"user": "x%"}),
    ({"user": "u' OR 1=1 --"}, {"user": "u"}),
    ({"user": ":1"}, {"user": "1"}),
]
NAMES = [f"{sorted(mine.items())} {sorted(theirs.items())}" for mine, theirs in ALIKE]
STRATEGIES: tuple[Any, ...] = ("auto", "recent", "keyword", "semantic", "hybrid", "graph", "temporal")


async def everything(memory: ls.Memory, **owner: Any) -> list[list[str]]:
    """What every way of reading says to an owner."""
    said: list[list[str]] = []
    for query in (None, "shared secret"):
        for strategy in STRATEGIES:
            found = await memory.recall(query, strategy=strategy, **owner)
            said.append(texts(found))
        said.append(texts(await memory.recall(query, folded=True, **owner)))
    said += [texts(await memory.search("shared", **owner)), texts(await memory.search("shared", folded=True, **owner))]
    said += [(await memory.block(**owner)).split("\n\n"), (await memory.block(query="shared", **owner)).split("\n\n")]
    return said


def made(laser: ls.Laser) -> ls.Memory:
    return laser.memory_with("n", embedder=HashEmbedder(), graph="g")


@pytest.mark.parametrize(("mine", "theirs"), ALIKE, ids=NAMES)
async def test_every_read(memory_laser: ls.Laser, mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    memory = made(memory_laser)
    for number in range(2):
        await memory.remember(f"my shared secret {number}", **mine)
        await memory.remember(f"their shared secret {number}", **theirs)
    for owner, said, other in ((mine, "my", "their"), (theirs, "their", "my")):
        for found in await everything(memory, **owner):
            assert sorted(found) == [f"{said} shared secret {number}" for number in range(2)]
        for item in await memory.recall(**owner):
            assert await memory.get(item.id, **owner) == item
            assert item.text.startswith(said)
        assert not [text for text in texts(await memory.recall(**owner)) if other in text]
    # The same words remembered by both are two items.
    if "conversation" not in mine:
        ids = [await memory.remember("same", dedup=True, **owner) for owner in (mine, theirs)]
        assert ids[0] != ids[1]
        assert await memory.get(ids[0], **theirs) is None


@pytest.mark.parametrize(("mine", "theirs"), ALIKE, ids=NAMES)
async def test_every_write(memory_laser: ls.Laser, mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    memory = made(memory_laser)
    others = [await memory.remember(f"their {number}", kind="message", **theirs) for number in range(3)]
    own = [await memory.remember(f"mine {number}", kind="message", **mine) for number in range(3)]
    before = await memory.recall(**theirs)
    # By the id of another's item.
    await memory.forget(others[0], **mine)
    names = {name: value for name, value in mine.items() if name != "conversation"}
    if names:
        with pytest.raises(ls.NotFoundError):
            await memory.improve(others[0], 9.0, **names, conversation=theirs.get("conversation"))
    else:
        await memory.improve(others[0], 9.0, **mine)
    assert await memory.recall(**theirs) == before
    # By scope.
    report = await memory.consolidate(1, summarizer=lambda bodies: b" ".join(bodies), **mine)
    assert (report.summarized, report.pruned) == (3, 2)
    summary = next(one for one in await memory.recall(**mine) if one.kind == "summary")
    assert summary.text == "mine 2 mine 1 mine 0"
    assert await memory.recall(**theirs) == before
    assert await memory.clear(**mine) == 2
    assert await memory.recall(**mine) == []
    assert await memory.recall(**theirs) == before
    for folded in (False, True):
        assert len(await memory.recall(folded=folded, **theirs)) == 3
    assert own[0] not in others


async def test_j3_arguments_are_not_changed(memory_laser: ls.Laser) -> None:
    memory = memory_laser.memory("n")
    owner = {"user": "u1", "agent": "g"}
    given = dict(owner)
    payload, producer = bytearray(b"tea"), ("a", "1")
    await memory.remember(payload, producer=producer, **given)
    payload[:] = b"xxx"
    await memory.recall("tea", **given)
    await memory.consolidate(5, **given)
    await memory.clear(**given)
    assert (given, producer) == (owner, ("a", "1"))
    bodies: list[list[bytes]] = []

    def keep(given: list[bytes]) -> bytes:
        bodies.append(list(given))
        given.clear()
        return b"sum"

    for number in range(2):
        await memory.remember(f"m{number}", kind="message")
    await memory.consolidate(0, summarizer=keep)
    assert bodies == [[b"m1", b"m0"]]
    assert texts(await memory.recall()) == ["sum"]


async def test_j4_clearing_one_user(laser: ls.Laser) -> None:
    """With copies in several conversations, facts with a history, and facts that are over."""
    memory = laser.memory("n")
    for user in ("u1", "u10"):
        for where in (C1, C2):
            await memory.remember("tea", dedup=True, user=user, conversation=where)
        await memory.remember(f"note of {user}", user=user)
        facts = memory.facts(customer=user)
        for value in ("blue", "green"):
            await facts.set("colour", value)
        await facts.set("gone", "by", expires_at=1)
    assert await memory.clear(user="u1") == 4
    for folded in (False, True):
        assert await memory.recall(user="u1", folded=folded) == []
        kept = await memory.recall(user="u10", folded=folded)
        assert sorted(texts(kept)) == ["colour: green", "note of u10", "tea"]
    cleared = memory.facts(customer="u1")
    assert [await cleared.get("colour"), await cleared.history("colour"), await cleared.history("gone")] == [
        None,
        [],
        [],
    ]
    kept_facts = memory.facts(customer="u10")
    assert [one.value for one in await kept_facts.history("colour")] == ["blue", "green"]
    assert await memory.clear(user="u1") == 0
    assert await memory.clear(user="nobody") == 0


NAMESPACES = ("ns", "ns2", "n", "ns/", "ns/sub", "NS")


async def test_namespaces(laser: ls.Laser) -> None:
    for name in NAMESPACES:
        memory = laser.memory_with(name, embedder=HashEmbedder(), graph="g")
        await memory.remember(f"shared of {name}", user="u")
        await memory.facts(customer="c").set("k", name)
        await memory.facts(customer="c").set("over", name, expires_at=1)
        await memory.remember("same", dedup=True, conversation=C1)
    for name in NAMESPACES:
        memory = laser.memory_with(name, embedder=HashEmbedder(), graph="g")
        for found in await everything(memory, user="u"):
            assert found == [f"shared of {name}"]
        fact = await memory.facts(customer="c").get("k")
        assert fact is not None
        assert fact.value == name
    same = (await laser.memory("n").search("same"))[0]
    await laser.memory("ns").forget(same.id)
    assert await laser.memory("ns").sweep() == 1
    await laser.memory("ns").clear(user="u")
    for name in NAMESPACES:
        memory = laser.memory(name)
        for folded in (False, True):
            left = texts(await memory.recall(folded=folded))
            assert len(left) == (1 if name == "ns" else 3)
        assert len(await memory.facts(customer="c").history("over")) == (0 if name == "ns" else 1)


@pytest.fixture
async def two_streams(tmp_path: Any) -> AsyncIterator[tuple[ls.Laser, ls.Laser]]:
    url = f"embedded:{tmp_path / 'data'}"
    async with ls.Laser.connect(url, stream="a") as one, ls.Laser.connect(url, stream="a/b") as other:
        yield one, other


async def test_streams_of_one_directory(two_streams: tuple[ls.Laser, ls.Laser]) -> None:
    """Stream 'a' with 'b/c' and stream 'a/b' with 'c' have one name on the wire, and one views' file."""
    memories = [two_streams[0].memory("b/c"), two_streams[1].memory("c")]
    for number, memory in enumerate(memories):
        await memory.remember(f"shared {number}", user="u")
        await memory.remember("same", dedup=True, user="u")
        await memory.facts(tenant="t", customer="c").set("k", f"{number}")
    for number, memory in enumerate(memories):
        assert texts(await memory.search("shared")) == [f"shared {number}"]
        assert sorted(texts(await memory.recall(user="u", folded=True))) == ["same", f"shared {number}"]
        fact = await memory.facts(tenant="t", customer="c").get("k")
        assert fact is not None
        assert fact.value == f"{number}"
    assert await memories[0].clear(user="u") == 2
    await memories[0].rebuild()
    assert sorted(texts(await memories[1].recall(user="u"))) == ["same", "shared 1"]
    assert len(await memories[1].facts(tenant="t", customer="c").all()) == 1


CELLS: list[dict[str, Any]] = [
    {"tenant": "t1", "customer": "c1"},
    {"tenant": "t1", "customer": "c10"},
    {"tenant": "t10", "customer": "c1"},
    {"tenant": "t1"},
    {"customer": "c1"},
    {"tenant": "c1"},
    {"tenant": "a", "customer": "b/c"},
    {"tenant": "a/b", "customer": "c"},
    {"tenant": "1:a"},
    {"session": C1},
    {"session": C2},
]


async def test_cells_of_facts(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    for number, cell in enumerate(CELLS):
        await memory.facts(**cell).set("k", f"value {number}")
    for number, cell in enumerate(CELLS):
        facts = memory.facts(**cell)
        assert [one.value for one in await facts.all()] == [f"value {number}"]
        assert [one.value for one in await facts.history("k")] == [f"value {number}"]
    await memory.facts(**CELLS[0]).forget("k")
    assert await memory.facts(**CELLS[3]).clear() == 1
    for number, cell in enumerate(CELLS):
        assert len(await memory.facts(**cell).all()) == (0 if number in (0, 3) else 1)
    # Named with a tenant or customer, the session is not what the facts are of.
    assert await memory.facts(tenant="t10", customer="c1", session=C1).get("k") == await memory.facts(**CELLS[2]).get(
        "k"
    )
    assert (await laser.context(C1).memory("n").facts().all())[0].value == "value 9"
    with pytest.raises(ls.InvalidError, match="name a tenant"):
        memory.facts()
