"""J7, J8: what was forgotten is in no answer, of no reader, however it is made."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import laser as ls
from laser.engines.memory import MemoryLog
from laser.model.memory import MemoryOwner
from laser.testing.clock import SetClock
from laser.wire.memory import encode_forget, memory_headers
from tests.context.logs import client_on, put_raw
from tests.memory.making import C1, C2, TOPIC, HashEmbedder, texts

pytestmark = pytest.mark.anyio


async def ways(memory: ls.Memory, item: str, **owner: Any) -> list[str]:
    """Every answer in which an item could still be."""
    found: list[ls.MemoryItem] = []
    for query in (None, "secret"):
        for strategy in ("auto", "recent", "keyword", "semantic", "hybrid", "temporal"):
            found += await memory.recall(query, strategy=strategy, **owner)  # type: ignore[arg-type]
        found += await memory.recall(query, folded=True, **owner)
    one = await memory.get(item, **owner)
    block = await memory.block(**owner)
    return [each.text for each in [*found, *([] if one is None else [one])] if each.id == item] + (
        [block] if "secret" in block else []
    )


def with_vectors(laser: ls.Laser) -> ls.Memory:
    return laser.memory_with("n", embedder=HashEmbedder())


async def test_forgotten_is_forgotten(laser: ls.Laser) -> None:
    memory = with_vectors(laser)
    item = await memory.remember("the secret", user="u1", conversation=C1)
    assert len(await ways(memory, item)) > 10
    await memory.forget(item)
    assert await ways(memory, item) == []
    # Feedback, a rebuild, other handles and other clients do not bring it back.
    await memory.improve(item, 5.0)
    await memory.rebuild()
    assert await ways(memory, item) == []
    assert await ways(with_vectors(laser), item, user="u1") == []
    await memory.forget(item)
    await memory.forget(ls.new_conversation_id())


async def test_remembered_again_by_its_content_it_stays_forgotten(laser: ls.Laser) -> None:
    memory = with_vectors(laser)
    item = await memory.remember("the secret", dedup=True, conversation=C1)
    await memory.forget(item)
    for where in (C1, C2):
        assert await memory.remember("the secret", dedup=True, conversation=where) == item
    assert await ways(memory, item) == []
    # As something new it can be remembered.
    again = await memory.remember("the secret")
    assert [one.id for one in await memory.recall()] == [again]


async def test_in_one_conversation(laser: ls.Laser) -> None:
    memory = with_vectors(laser)
    item = await memory.remember("the secret", dedup=True, conversation=C1)
    await memory.remember("the secret", dedup=True, conversation=C2)
    await laser.context(C1).memory(memory).forget(item)
    for folded in (False, True):
        assert await memory.recall(conversation=C1, folded=folded) == []
        assert [one.conversation for one in await memory.recall(folded=folded)] == [C2]
    assert await memory.remember("the secret", dedup=True, conversation=C1) == item
    assert await memory.recall(conversation=C1) == []
    await memory.forget(item)
    assert await ways(memory, item) == []


async def test_a_forget_that_comes_first(laser: ls.Laser) -> None:
    """As from another partition, or by another client."""
    memory = with_vectors(laser)
    await memory.remember("other")
    item = await memory.remember("the secret", dedup=True, user="u")
    await laser.purge_topic(TOPIC)
    await memory.forget(item)
    assert await memory.remember("the secret", dedup=True, user="u", conversation=C2) == item
    assert await ways(memory, item) == []


async def test_a_summary_goes_with_what_it_was_made_of(laser: ls.Laser) -> None:
    memory = with_vectors(laser)
    items = [await memory.remember(text, kind="message") for text in ("hello", "the secret", "bye")]
    report = await memory.consolidate(
        10, summarizer=lambda bodies: b"summary: " + b", ".join(bodies), prune_summarized=True
    )
    assert (report.summarized, report.pruned) == (3, 3)
    assert report.summary_id is not None
    # Pruned messages are in the summary now, which stays.
    for _ in range(2):
        assert texts(await memory.recall()) == ["summary: bye, the secret, hello"]
        await memory.rebuild()
    assert await ways(memory, items[1]) != []
    await memory.forget(items[1])
    for folded in (False, True):
        assert await memory.recall(folded=folded) == []
    assert await memory.get(report.summary_id) is None
    await memory.rebuild()
    assert await ways(memory, items[1]) == await ways(memory, report.summary_id) == []


async def test_a_message_forgotten_while_it_is_summarized(laser: ls.Laser) -> None:
    """Nothing stands for the other messages then, so they stay."""
    memory = laser.memory("n")
    items = [await memory.remember(text, kind="message") for text in ("hello", "the secret")]

    async def slow(bodies: list[bytes]) -> bytes:
        await memory.forget(items[1])
        return b" ".join(bodies)

    report = await memory.consolidate(0, summarizer=slow, prune_summarized=True)
    assert (report.summarized, report.pruned, report.summary_id) == (0, 0, None)
    for folded in (False, True):
        assert texts(await memory.recall(folded=folded)) == ["hello"]


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return f"embedded:{tmp_path / 'data'}"


async def test_other_processes_and_later_ones(directory: str) -> None:
    async with ls.Laser.connect(directory) as one, ls.Laser.connect(directory) as other:
        item = await with_vectors(one).remember("the secret", dedup=True)
        assert len(await ways(with_vectors(other), item)) > 10
        await with_vectors(one).forget(item)
        assert await ways(with_vectors(other), item) == []
    async with ls.Laser.connect(directory) as later:
        assert await ways(with_vectors(later), item) == []
        await with_vectors(later).remember("the secret", dedup=True)
        assert await ways(with_vectors(later), item) == []


async def test_a_views_file_that_was_lost(directory: str, tmp_path: Path) -> None:
    async with ls.Laser.connect(directory) as laser:
        memory = with_vectors(laser)
        item = await memory.remember("the secret")
        kept = await memory.remember("kept")
        assert len(await memory.recall()) == 2
    saved = {path: path.read_bytes() for path in (tmp_path / "data").glob("views.db*")}
    async with ls.Laser.connect(directory) as laser:
        await with_vectors(laser).forget(item)
        assert await ways(with_vectors(laser), item) == []
    # A copy from before the forget, as a backup brings it back.
    for path in (tmp_path / "data").glob("views.db*"):
        path.unlink()
    for path, data in saved.items():
        path.write_bytes(data)
    async with ls.Laser.connect(directory) as laser:
        assert await ways(with_vectors(laser), item) == []
        assert [one.id for one in await with_vectors(laser).recall()] == [kept]
    for path in (tmp_path / "data").glob("views.db*"):
        path.unlink()
    async with ls.Laser.connect(directory) as laser:
        assert await ways(with_vectors(laser), item) == []
        assert [one.id for one in await with_vectors(laser).recall()] == [kept]


async def test_retention_takes_an_item_before_its_forget(stream_name: str, caplog: pytest.LogCaptureFixture) -> None:
    """The forget goes to the item's partition, or it could be gone first."""
    clock = SetClock()
    async with await client_on(MemoryLog(clock=clock), stream_name) as laser:
        await laser.ensure_topic(TOPIC, 4, ls.TopicRetention(expire_after=timedelta(seconds=10)))
        memory = laser.memory("n")
        items = [await memory.remember(f"the secret {number}") for number in range(12)]
        for item in items:
            await memory.forget(item)
        log, (info,) = laser.open_log(), await laser.topics()
        partitions: dict[str, set[int]] = {}
        for part in info.partitions:
            for record in (await log.read(stream_name, TOPIC, part.id, start=0, limit=100)).records:
                for item in items:
                    if item.encode() in record.payload:
                        partitions.setdefault(item, set()).add(part.id)
        assert {len(found) for found in partitions.values()} == {1}
        for _ in range(4):
            clock.step(4)
            for folded in (False, True):
                assert await memory.recall(folded=folded) == []
        # Nothing can come back, so the view goes on as it is.
        assert "folded anew" not in caplog.text


async def test_a_forget_of_another_client_that_is_gone(stream_name: str) -> None:
    """View, fold and rebuild agree on what the log then says."""
    clock = SetClock()
    async with await client_on(MemoryLog(clock=clock), stream_name) as laser:
        await laser.ensure_topic(TOPIC, 4, ls.TopicRetention(expire_after=timedelta(seconds=10)))
        memory = laser.memory("n")
        elsewhere = [ls.derive_conversation_id(f"c{number}") for number in range(8)]
        item = ls.new_conversation_id()
        for where in elsewhere:
            headers = memory_headers(MemoryOwner(f"stream:{stream_name}/n", where), ls.new_conversation_id())
            await put_raw(laser, TOPIC, where, (headers, encode_forget(item, None)))
        clock.step(6)
        assert await memory.recall() == []
        remembered = await memory.remember("stays", conversation=C1)
        clock.step(6)
        for folded in (False, True):
            assert [one.id for one in await memory.recall(folded=folded)] == [remembered]
        await memory.rebuild()
        assert [one.id for one in await memory.recall()] == [remembered]


async def test_j8_a_scope_can_be_cleared(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    for number in range(7):
        await memory.remember(f"{number}", conversation=(C1, C2)[number % 2], kind="message")
    assert await laser.context(C1).memory(memory).clear() == 4
    for folded in (False, True):
        assert len(await memory.recall(folded=folded)) == 3
    with pytest.raises(ls.InvalidError):
        await memory.clear()


async def test_a_fact_that_is_forgotten_by_its_id_takes_its_history_along(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    facts = memory.facts(customer="c")
    ids = [await facts.set("colour", value) for value in ("red", "green", "blue")]
    await memory.forget(ids[0])
    assert [one.value for one in await facts.history("colour")] == ["green", "blue"]
    (item,) = await memory.recall()
    assert item.id == ids[2]
    await memory.forget(item.id, user="c")
    assert await facts.get("colour") is None
    assert await facts.history("colour") == []
    for folded in (False, True):
        assert await memory.recall(folded=folded) == []
