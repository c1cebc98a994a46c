"""Facts: their values over time, where they end, and who says them."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import laser as ls
from laser.engines.memory import MemoryLog
from laser.memory.memory import Memory
from laser.testing.clock import SetClock
from tests.context.logs import client_on
from tests.memory.making import C1, HashEmbedder, texts

pytestmark = pytest.mark.anyio

SECOND = 1_000_000


class Timed:
    """A memory whose clock, and whose log's, the test sets."""

    def __init__(self, laser: ls.Laser, clock: SetClock) -> None:
        self.laser = laser
        self.clock = clock
        self.memory = Memory(laser, "n", embedder=HashEmbedder(), clock=clock)


@pytest.fixture
async def timed(stream_name: str) -> AsyncIterator[Timed]:
    clock = SetClock()
    async with await client_on(MemoryLog(clock=clock), stream_name) as laser:
        yield Timed(laser, clock)


async def test_a_new_value_replaces_the_old_one(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    facts = memory.facts(tenant="acme", customer="c1")
    assert (await facts.get("colour"), await facts.all(), await facts.history("colour")) == (None, [], [])
    first = await facts.set("colour", "red", origin="operator")
    second = await facts.set("colour", "blue", origin=f"distilled:{C1}")
    await facts.set("size: any", "a: b")
    fact = await facts.get("colour")
    assert fact is not None
    assert (fact.key, fact.value, fact.origin, fact.id) == ("colour", "blue", f"distilled:{C1}", second)
    assert fact.created_at_micros < fact.updated_at_micros
    history = await facts.history("colour")
    assert [(one.value, one.origin, one.id) for one in history] == [
        ("red", "operator", first),
        ("blue", f"distilled:{C1}", second),
    ]
    assert {one.created_at_micros for one in history} == {fact.created_at_micros}
    assert [(one.key, one.value) for one in await facts.all()] == [("colour", "blue"), ("size: any", "a: b")]
    # In recalls it stands once, as an item with a key.
    for folded in (False, True):
        found = {one.key: one for one in await memory.recall(user="c1", folded=folded)}
        assert found["colour"].text == "colour: blue"
        assert (found["colour"].value, found["size: any"].value) == ("blue", "a: b")
        assert (found["colour"].kind, found["colour"].user, found["colour"].app) == ("fact", "c1", "acme")
        assert found["colour"].origin == f"distilled:{C1}"
    assert texts(await memory.search("red")) == []


async def test_the_same_value_again_writes_nothing(laser: ls.Laser) -> None:
    facts = laser.memory("n").facts(tenant="acme")
    end = datetime.now(UTC) + timedelta(days=1)
    first = await facts.set("k", "v")
    assert await facts.set("k", "v") == first
    changed = [await facts.set("k", "v", origin="operator"), await facts.set("k", "v", expires_at=end)]
    assert await facts.set("k", "v", expires_at=end) == changed[1]
    assert len({first, *changed}) == 3
    assert len(await facts.history("k")) == 3


async def test_an_outlived_fact_is_never_returned(timed: Timed) -> None:
    memory, clock = timed.memory, timed.clock
    facts = memory.facts(customer="c")
    end = clock.micros + 10 * SECOND
    item = await facts.set("code", "secret 1234", expires_at=end)
    await facts.set("name", "Ann")

    async def seen() -> list[str]:
        found = [one.text for one in await memory.recall(limit=10)]
        found += [one.text for one in await memory.recall(limit=10, user="c", folded=True)]
        for strategy in ("auto", "recent", "keyword", "semantic", "hybrid", "temporal"):
            found += texts(await memory.recall("secret 1234", strategy=strategy))  # type: ignore[arg-type]
        found += [await memory.block(), await memory.block(query="secret")]
        found += [one.value for one in await facts.all()]
        found += [str(await memory.get(item)), str(await facts.get("code"))]
        return [text for text in found if "1234" in text]

    clock.step(9.999_999)
    assert len(await seen()) > 10
    clock.micros = end
    assert await seen() == []
    # It is over, and still there until the sweep.
    assert [one.value for one in await facts.history("code")] == ["secret 1234"]
    assert await memory.sweep() == 1
    assert await facts.history("code") == []
    assert await memory.sweep() == 0
    clock.step(-5)
    assert await seen() == []
    assert [one.value for one in await facts.all()] == ["Ann"]


async def test_what_an_outlived_value_replaced_does_not_hold_again(timed: Timed) -> None:
    memory, clock = timed.memory, timed.clock
    facts = memory.facts(customer="c")
    await facts.set("k", "old")
    await facts.set("k", "short", expires_at=clock.micros + SECOND)
    await facts.set("other", "one", expires_at=clock.micros + SECOND)
    await facts.set("other", "two")
    clock.step(2)
    assert await facts.get("k") is None
    for _ in range(2):
        assert [one.value for one in await facts.all()] == ["two"]
        for folded in (False, True):
            assert texts(await memory.recall(folded=folded)) == ["other: two"]
        await memory.sweep()
    assert await facts.history("k") == []
    assert [one.value for one in await facts.history("other")] == ["two"]
    # Set again, it is new.
    await facts.set("k", "old")
    fact = await facts.get("k")
    assert fact is not None
    assert (fact.value, fact.created_at_micros) == ("old", fact.updated_at_micros)


async def test_the_same_value_after_its_end(timed: Timed) -> None:
    facts = timed.memory.facts(customer="c")
    await facts.set("k", "v", expires_at=timed.clock.micros + SECOND)
    timed.clock.step(2)
    with pytest.raises(ls.NotFoundError):
        await facts.forget("nothing")
    await facts.set("k", "v", expires_at=timed.clock.micros + SECOND)
    assert await facts.get("k") is not None
    await facts.forget("k")
    assert await facts.history("k") == []


@pytest.fixture(params=["UTC", "Asia/Singapore", "America/Los_Angeles", "UTC-8", "UTC+8"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    assert os.environ.get("TZ") != request.param or request.param == "UTC"
    time.tzset()


async def test_j1_ends_are_instants(timed: Timed, zone: str) -> None:
    """Whatever the machine's time zone: the same instant, and nothing that could be one of many."""
    memory, clock = timed.memory, timed.clock
    facts = memory.facts(customer="c")
    instant = datetime.fromtimestamp(clock.micros / 1e6, UTC) + timedelta(hours=1)
    for number, given in enumerate(
        (
            instant,
            instant.astimezone(timezone(timedelta(hours=8))),
            instant.astimezone(timezone(timedelta(hours=-8))),
            clock.micros + 3_600 * SECOND,
        )
    ):
        await facts.set(f"k{number}", zone, expires_at=given)
        fact = await facts.get(f"k{number}")
        assert fact is not None
        assert fact.expires_at_micros == clock.micros + 3_600 * SECOND
    for naive in (datetime(2030, 1, 1), datetime.now(), instant.replace(tzinfo=None)):  # noqa: DTZ001, DTZ005
        with pytest.raises(ls.InvalidError, match="has no time zone") as caught:
            await facts.set("k", "v", expires_at=naive)
        assert caught.value.argument == "expires_at"
    clock.step(3_599)
    assert len(await facts.all()) == 4
    clock.step(1)
    assert await facts.all() == []


@pytest.mark.parametrize(
    ("named", "argument"),
    [
        ({"origin": "me"}, "origin"),
        ({"origin": "distilled:"}, "origin"),
        ({"origin": "distilled:" + "s" * 200}, "origin"),
        ({"origin": "distilled:a\nb"}, "origin"),
        ({"origin": None}, "origin"),
        ({"key": ""}, "key"),
        ({"key": "a\0"}, "key"),
        ({"value": ""}, "value"),
        ({"value": 7}, "value"),
        ({"value": "\udc88"}, "value"),
        ({"expires_at": -1}, "expires_at"),
        ({"expires_at": 10**18}, "expires_at"),
        ({"expires_at": 1.5}, "expires_at"),
        ({"expires_at": True}, "expires_at"),
        ({"expires_at": datetime(1969, 12, 31, tzinfo=UTC)}, "expires_at"),
    ],
)
async def test_refusals(memory_laser: ls.Laser, named: dict[str, Any], argument: str) -> None:
    facts = memory_laser.memory("n").facts(tenant="t")
    with pytest.raises(ls.InvalidError) as caught:
        await facts.set(**{"key": "k", "value": "v", **named})
    assert caught.value.argument == argument
    assert await facts.all() == []


async def test_ends_at_the_edges(memory_laser: ls.Laser) -> None:
    facts = memory_laser.memory("n").facts(tenant="t")
    for end in (datetime.max.replace(tzinfo=UTC), 10**18 - 1):
        await facts.set("k", f"{end}", expires_at=end)
        fact = await facts.get("k")
        assert fact is not None
        assert fact.value == f"{end}"
    await facts.set("k", "over", expires_at=0)
    assert await facts.get("k") is None
