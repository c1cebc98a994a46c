"""The read window: the newest 10,000 raw records of each partition, whoever wrote them, and counts above a page."""

from __future__ import annotations

import pytest

import laser as ls
from tests.context.making import payloads

pytestmark = pytest.mark.anyio

A = ls.derive_conversation_id("a")
B = ls.derive_conversation_id("b")
WINDOW = ls.CONTEXT_READ_WINDOW


async def _others(laser: ls.Laser, topic: str, count: int) -> None:
    if count:
        await laser.context(B).append_many(topic, [b"b"] * count)


async def test_the_window_slides_by_raw_records(laser: ls.Laser) -> None:
    await laser.ensure_topic("one", partitions=1)
    scope = laser.context(A)
    await scope.append("one", b"first")
    await _others(laser, "one", WINDOW - 2)
    await scope.append("one", b"last")
    full = await scope.checkpoint(["one"])
    assert full.topics() == {"one": {0: WINDOW}}
    assert payloads(await scope.fetch(topics=["one"])) == [b"first", b"last"]

    await _others(laser, "one", 1)
    for messages in (
        await scope.fetch(topics=["one"]),
        await scope.fetch(topics=["one"], n=WINDOW * 2),
        await scope.fetch_with(["one"], ls.Chain([])),
        await laser.assemble_context(A, topics=["one"], from_offsets={0: 0}),
        await laser.assemble_context(A, topics=["one"], from_checkpoint=ls.Checkpoint({"one": {0: 0}})),
        await laser.assemble_context(A, topics=["one"], from_checkpoint=ls.Checkpoint({})),
        await laser.assemble_context(A, topics=["one"], across_subconversations=True),
    ):
        assert payloads(messages) == [b"last"]
    # A read that stops takes the 10,000 that end there.
    assert payloads(await laser.assemble_context(A, topics=["one"], to_checkpoint=full)) == [b"first", b"last"]
    # A read that starts begins at the later of its start and the window.
    for start, expected in [(1, [b"last"]), (WINDOW - 1, [b"last"]), (WINDOW, [])]:
        assert payloads(await laser.assemble_context(A, topics=["one"], from_offsets={0: start})) == expected

    await _others(laser, "one", WINDOW - 2)
    assert payloads(await scope.fetch(topics=["one"])) == [b"last"]
    await _others(laser, "one", 1)
    assert await scope.fetch(topics=["one"]) == []
    assert payloads(await laser.assemble_context(A, topics=["one"], to_checkpoint=full)) == [b"first", b"last"]


async def test_each_partition_has_a_window_of_its_own(laser: ls.Laser) -> None:
    await laser.ensure_topic("two", partitions=2)
    home = (await laser.context(B).append("two", b"x")).partition
    for number in range(64):
        mine = laser.context(ls.derive_conversation_id(f"{number}"))
        if (await mine.append("two", b"own")).partition != home:
            break
    await _others(laser, "two", WINDOW)
    assert payloads(await mine.fetch(topics=["two"])) == [b"own"]


async def test_a13_a_count_above_any_page_is_a_total(laser: ls.Laser) -> None:
    await laser.ensure_topic("one", partitions=1)
    scope = laser.context(A)
    texts = [b"%d" % number for number in range(WINDOW)]
    await scope.append_many("one", texts)
    for count in (101, 1_000, 1_001, 5_000, WINDOW - 1, WINDOW, WINDOW + 1, 10**9):
        messages = await scope.fetch(topics=["one"], n=count)
        assert payloads(messages) == texts[-count:]


# One event loop is enough for 64 MB.
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_g1_the_largest_payload_and_one_byte_more(laser: ls.Laser) -> None:
    scope = laser.context(A)
    largest = bytes(64_000_000)
    receipt = await scope.append("agent.audit", largest)
    for payload in (largest + b"\0", "é" * 32_000_000 + "x"):
        with pytest.raises(ls.LimitError) as caught:
            await scope.append("agent.audit", payload)
        assert (caught.value.argument, caught.value.size, caught.value.limit) == ("payload", 64_000_001, 64_000_000)
    (message,) = await scope.fetch(topics=["agent.audit"])
    assert message.payload == largest
    assert message.offset == receipt.offset
    with pytest.raises(ls.LimitError) as caught:
        await scope.append_many("agent.audit", [bytes(32_000_000)] * 2 + [b"\0"])
    assert (caught.value.argument, caught.value.size, caught.value.limit) == ("payloads", 64_000_001, 64_000_000)
    assert len(await scope.fetch(topics=["agent.audit"])) == 1
    await scope.append_many("agent.audit", [largest])
    assert len(await scope.fetch(topics=["agent.audit"])) == 2


@pytest.mark.parametrize("count", [2**31, 2**63, 10**30])
async def test_a_count_above_every_number_of_a_store(laser: ls.Laser, count: int) -> None:
    """As many as there are; no engine takes the number for its own."""
    scope = laser.context(A)
    await laser.ensure_topic("one")
    await scope.append_many("one", [b"a", b"b"])
    assert payloads(await scope.fetch(topics=["one"], n=count)) == [b"a", b"b"]
    assert payloads(await scope.fetch(topics=["one"], n=count, token_budget=count)) == [b"a", b"b"]
    assert await scope.state(["one"], 0, lambda total, _: total + 1, last_n=count) == 2
