"""The fold: the same whatever the order, and whatever the log lost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.engines.memory import MemoryLog
from laser.engines.sqlite.views import open_sqlite_views
from laser.model.graph_change import GraphChange
from laser.ports.graph_view import GraphView
from laser.testing.clock import SetClock
from tests.context.logs import client_on, put_raw
from tests.graph.making import ALICE, BOB, changes, folded, names, told
from tests.properties import examples

pytestmark = pytest.mark.anyio

GRAPHS = ("g1", "g10")
TOPIC = "agent.graph"


async def _said(view: GraphView, graph: str) -> ls.GraphExport:
    nodes = await view.find(graph, label=None, value=None, after=None, limit=1_000)
    return ls.GraphExport(graph, tuple(nodes), tuple(await view.edges(graph, after=None, limit=1_000)))


async def _fill(view: GraphView, parts: Sequence[Sequence[GraphChange]], chance: random.Random) -> str | None:
    """Applies the records of partitions a few at a time, in any interleaving."""
    waiting = [list(part) for part in parts]
    position: str | None = None
    while any(waiting):
        part = chance.choice([part for part in waiting if part])
        count = chance.randint(1, 3)
        position, before = f"{position}.", position
        assert await view.apply(part[:count], firsts={}, expect=before, position=position)
        del part[:count]
    return position


@examples(100)
@given(changes(), st.integers(0, 2**32), st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_order_does_not_matter_and_retention_leaves_what_a_fresh_fold_finds(
    records: list[GraphChange], seed: int, firsts: tuple[int, int]
) -> None:
    async def run() -> None:
        chance = random.Random(seed)
        parts = [[one for one in records if one.partition == partition] for partition in (0, 1)]
        views = await open_sqlite_views(None, timeout=10)
        try:
            for stream in ("s", "s0"):
                view = views.graph(stream, TOPIC)
                position = await _fill(view, parts, chance)
                for graph in GRAPHS:
                    assert told(await _said(view, graph)) == folded(records, graph)
            cut = {partition: min(first, len(parts[partition])) for partition, first in enumerate(firsts)}
            assert await view.apply([], firsts=cut, expect=position, position="cut")
            left = [one for one in records if one.offset >= cut[one.partition]]
            for graph in GRAPHS:
                assert told(await _said(view, graph)) == folded(left, graph)
                # The other stream's view is not touched.
                assert told(await _said(views.graph("s", TOPIC), graph)) == folded(records, graph)
            await view.clear(expect="cut")
            assert [await _said(view, graph) for graph in GRAPHS] == [ls.GraphExport(graph, (), ()) for graph in GRAPHS]
            assert await view.position() is None
        finally:
            await views.aclose()

    anyio.run(run)


async def test_an_apply_that_comes_late_changes_nothing() -> None:
    views = await open_sqlite_views(None, timeout=10)
    view = views.graph("s", TOPIC)
    assert await view.apply([], firsts={}, expect=None, position="1")
    assert not await view.apply([], firsts={}, expect=None, position="2")
    await view.clear(expect="2")
    assert await view.position() == "1"
    await views.aclose()


async def _rebuilt_is_the_same(graph: ls.Graph) -> ls.GraphExport:
    before = await graph.export()
    await graph.rebuild()
    assert await graph.export() == before
    return before


async def test_retention(stream_name: str) -> None:
    clock = SetClock()
    async with await client_on(MemoryLog(clock=clock), stream_name) as laser:
        await laser.ensure_topic(TOPIC, 1, ls.TopicRetention(expire_after=timedelta(seconds=10)))
        graph = laser.graph("g")
        await graph.upsert([ls.Node("Person", "Alice", {"old": 1})])
        await graph.link(ALICE, "knows", BOB)
        clock.step(6)
        await graph.upsert([ls.Node("Person", "Alice", {"new": 2})])
        assert names(await graph.neighbors(ALICE)) == ["Bob"]
        clock.step(6)
        assert await graph.node(BOB) is None
        (left,) = (await _rebuilt_is_the_same(graph)).nodes
        assert left.attributes == {"new": 2}
        clock.step(6)
        assert await graph.export() == ls.GraphExport("g", (), ())


async def test_purge_and_make_anew(laser: ls.Laser) -> None:
    graph = laser.graph("g")
    await graph.link(ALICE, "knows", BOB)
    assert len(await graph.find()) == 2
    await laser.purge_topic(TOPIC)
    assert await graph.find() == []
    await graph.upsert([BOB])
    assert names((await _rebuilt_is_the_same(graph)).nodes) == ["Bob"]
    await laser.delete_topic(TOPIC)
    assert await graph.find() == []
    await graph.upsert([ALICE])
    assert names((await _rebuilt_is_the_same(graph)).nodes) == ["Alice"]


async def test_new_partitions(laser: ls.Laser) -> None:
    """Records of one graph then stand on two partitions."""
    graphs = [laser.graph(f"g{number}") for number in range(8)]
    for graph in graphs:
        await graph.link(ALICE, "knows", BOB)
    await laser.add_partitions(TOPIC, 3)
    for graph in graphs:
        assert await graph.unlink(ALICE, "knows", BOB) is True
        await graph.upsert([ls.Node("Person", "Alice", {"seen": True})])
        assert await graph.neighbors(ALICE) == []
        known = await graph.node(ALICE)
        assert known is not None
        assert known.attributes == {"seen": True}
    for graph in graphs:
        await _rebuilt_is_the_same(graph)


async def test_foreign_records_are_skipped_and_counted(laser: ls.Laser) -> None:
    graph = laser.graph("g")
    await graph.upsert([ALICE])
    await put_raw(laser, TOPIC, "g", (b"", b"\xa1av\x01"), (b"", b"noise"))
    await laser.context(ls.new_conversation_id()).append(TOPIC, b"a message")
    await graph.upsert([BOB])
    assert sorted(names(await graph.find())) == ["Alice", "Bob"]
    assert [one.reason for one in graph.skipped] == ["graph: no header laser.graph with a name"] * 3
    assert {one.topic for one in laser.graph("other").skipped} == {TOPIC}


@pytest.mark.parametrize("writers", [2, 5])
async def test_relinks_at_the_same_time_leave_one(laser: ls.Laser, writers: int) -> None:
    graph = laser.graph("g")
    await graph.link(ALICE, "at", "Company:first")

    async def relink(number: int) -> None:
        await laser.graph("g").relink(ALICE, "at", f"Company:{number}")

    async with anyio.create_task_group() as tasks:
        for number in range(writers):
            tasks.start_soon(relink, number)
    assert len(await graph.neighbors(ALICE)) == 1


async def test_a_clock_that_is_behind_sees_its_own_writes(stream_name: str) -> None:
    """What a record closed is closed, even where the broker's clock is an hour ahead of the reader's."""
    clock = SetClock()
    async with await client_on(MemoryLog(clock=clock), stream_name) as laser:
        reader = SetClock(clock.micros)
        reader.step(-3600)
        graph = ls.Graph(laser, "g", clock=reader)
        await graph.link(ALICE, "knows", BOB)
        assert await graph.unlink(ALICE, "knows", BOB) is True
        assert await graph.neighbors(ALICE) == []
        assert await graph.unlink(ALICE, "knows", BOB) is False
        clock.step(1)
        await graph.link(ALICE, "knows", BOB)
        assert names(await graph.neighbors(ALICE)) == ["Bob"]
        assert await graph.relink(ALICE, "knows", "Person:Carol") == 1
        assert names(await graph.neighbors(ALICE)) == ["Carol"]


async def test_cancelled_calls_leave_the_graph_usable(laser: ls.Laser) -> None:
    graph = laser.graph("g")
    await graph.upsert([ALICE])
    chance = random.Random(7)
    for number in range(40):
        with anyio.move_on_after(chance.random() * 0.004):
            await graph.upsert([f"n:{number}"])
            await graph.link(f"n:{number}", "t", ALICE)
            await graph.incoming(ALICE)
    await graph.upsert(["n:last"])
    assert await graph.node("n:last") is not None
    exported = await _rebuilt_is_the_same(graph)
    there = {node.id for node in exported.nodes}
    assert all(edge.source in there and edge.target in there for edge in exported.edges)
