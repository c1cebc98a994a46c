"""Memory's limits at their edge and one beyond. One beyond is refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import laser as ls
from laser import limits

pytestmark = pytest.mark.anyio


async def refused(call: Callable[[], Any], argument: str, size: int, limit: int) -> None:
    with pytest.raises(ls.LimitError) as caught:
        await call()
    assert (caught.value.argument, caught.value.size, caught.value.limit) == (argument, size, limit)


async def test_bodies(laser: ls.Laser) -> None:
    memory, edge = laser.memory("n"), limits.MAX_MEMORY_BODY_BYTES
    item = await memory.remember(b"\xff" * edge)
    await refused(lambda: memory.remember(b"x" * (edge + 1)), "payload", edge + 1, edge)
    await refused(lambda: memory.remember("é" * (edge // 2) + "x"), "payload", edge + 1, edge)
    for folded in (False, True):
        (found,) = await memory.recall(folded=folded)
        assert (found.id, len(found.body)) == (item, edge)
    facts = memory.facts(tenant="t")
    await facts.set("k", "v" * (edge - 3))
    await refused(lambda: facts.set("k", "v" * (edge - 2)), "value", edge + 1, edge)


async def test_results(memory_laser: ls.Laser) -> None:
    memory, edge = memory_laser.memory("n"), limits.MAX_MEMORY_RESULTS
    await memory.remember("x")
    assert len(await memory.recall(limit=edge)) == 1
    await refused(lambda: memory.recall(limit=edge + 1), "limit", edge + 1, edge)
    await refused(lambda: memory.search("x", limit=edge + 1), "limit", edge + 1, edge)
    await refused(lambda: memory.consolidate(edge + 1), "max_items", edge + 1, edge)


async def test_results_by_default(memory_laser: ls.Laser) -> None:
    memory, edge = memory_laser.memory("n"), limits.DEFAULT_MEMORY_RESULTS
    for number in range(edge + 1):
        await memory.remember(f"note {number}")
    for folded in (False, True):
        assert len(await memory.recall(folded=folded)) == len(await memory.search("note", folded=folded)) == edge


async def test_keys_of_facts(memory_laser: ls.Laser) -> None:
    facts, edge = memory_laser.memory("n").facts(tenant="t"), limits.MAX_FACT_KEY_BYTES
    key = "é" * (edge // 2)
    await facts.set(key, "v")
    assert [fact.key for fact in await facts.all()] == [key]
    await refused(lambda: facts.set(key + "x", "v"), "key", edge + 1, edge)
    await refused(lambda: facts.get(key + "x"), "key", edge + 1, edge)
