"""The fold: the same whatever the order, and whatever the log lost."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from uuid import uuid4

import anyio
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import laser as ls
from laser.engines.memory import MemoryLog
from laser.engines.postgres.views import open_postgres_views
from laser.engines.sqlite.views import open_sqlite_views
from laser.model.graph_change import GraphChange
from laser.model.graph_walks import Direction
from laser.ports.graph_view import GraphView
from laser.ports.view_store import Views
from laser.testing.clock import SetClock
from tests.context.logs import client_on, put_raw
from tests.graph.making import ALICE, BOB, changes, folded, names, told
from tests.properties import examples

pytestmark = pytest.mark.anyio

GRAPHS = ("g1", "g10")
TOPIC = "agent.graph"
_cuts = st.tuples(st.integers(0, 3), st.integers(0, 3))


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
@given(changes(), st.integers(0, 2**32), _cuts)
def test_order_does_not_matter_and_retention_leaves_what_a_fresh_fold_finds(
    records: list[GraphChange], seed: int, firsts: tuple[int, int]
) -> None:
    anyio.run(_fold, partial(open_sqlite_views, None), records, seed, firsts)


def test_the_same_on_postgres(postgres_url: str) -> None:
    # Without making a counterexample small: each try asks a server some hundred times.
    @settings(examples(10), phases=[Phase.explicit, Phase.reuse, Phase.generate], report_multiple_bugs=False)
    @given(changes(), st.integers(0, 2**32), _cuts)
    def run(records: list[GraphChange], seed: int, firsts: tuple[int, int]) -> None:
        anyio.run(_fold, partial(open_postgres_views, postgres_url), records, seed, firsts)

    run()


async def _fold(
    open_views: Callable[..., Awaitable[Views]],
    records: list[GraphChange],
    seed: int,
    firsts: tuple[int, int],
) -> None:
    chance = random.Random(seed)
    parts = [[one for one in records if one.partition == partition] for partition in (0, 1)]
    streams = (uuid4().hex, uuid4().hex)
    views = await open_views(timeout=10)
    try:
        for stream in streams:
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
            assert told(await _said(views.graph(streams[0], TOPIC), graph)) == folded(records, graph)
        await view.clear(expect="cut")
        assert [await _said(view, graph) for graph in GRAPHS] == [ls.GraphExport(graph, (), ()) for graph in GRAPHS]
        assert await view.position() is None
    finally:
        await views.aclose()


def test_every_question_gets_the_same_answer(postgres_url: str) -> None:
    """Of both views: the same things in the same order, whatever is asked."""

    @settings(examples(10), phases=[Phase.explicit, Phase.reuse, Phase.generate], report_multiple_bugs=False)
    @given(changes(), st.integers(0, 2**32))
    def run(records: list[GraphChange], seed: int) -> None:
        anyio.run(_compare, postgres_url, records, random.Random(seed))

    run()


async def _compare(url: str, records: list[GraphChange], chance: random.Random) -> None:
    both = await open_sqlite_views(None, timeout=10), await open_postgres_views(url, timeout=10)
    try:
        stream = uuid4().hex
        one, other = (views.graph(stream, TOPIC) for views in both)
        for view in (one, other):
            assert await view.apply(records, firsts={}, expect=None, position="1")
        for ask in [_question(chance, records) for _ in range(40)]:
            assert await ask(other) == await ask(one)
    finally:
        for views in both:
            await views.aclose()


def _question(chance: random.Random, records: Sequence[GraphChange]) -> Callable[[GraphView], Awaitable[object]]:
    nodes = sorted({node.id for one in records for node in one.write.nodes} | {"0" * 26})
    edges = sorted({edge.id for one in records for edge in one.write.edges} | {"0" * 26})
    graph, limit = chance.choice([*GRAPHS, "g"]), chance.randint(1, 4)
    as_of, now = chance.choice([None, 0, 1, 2, 3]), chance.randint(0, 4)
    some = [chance.choice(nodes) for _ in range(chance.randint(0, 3))]
    match chance.randrange(5):
        case 0:
            return lambda view: view.nodes(graph, some)
        case 1:
            label, value = chance.choice([None, "L", "Lx", "l"]), chance.choice([None, "1", "10"])
            after = chance.choice([None, *nodes])
            return lambda view: view.find(graph, label=label, value=value, after=after, limit=limit)
        case 2:
            ways: list[Direction] = ["out", "in", "both"]
            way, types = chance.choice(ways), chance.choice([None, [], ["t"], ["tt", "t"], ["t", "x", "t"]])
            return lambda view: view.edges_of(
                graph, some, direction=way, types=types, as_of=as_of, now=now, limit=limit
            )
        case 3:
            which, moment = [chance.choice(edges) for _ in range(3)], chance.choice([None, now])
            return lambda view: view.stretches(graph, which, as_of=as_of, now=moment)
        case _:
            last = chance.choice([None, *edges])
            return lambda view: view.edges(graph, after=last, limit=limit)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_apply_that_comes_late_changes_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    if kind == "sqlite":
        views: Views = await open_sqlite_views(None, timeout=10)
    else:
        views = await open_postgres_views(request.getfixturevalue("postgres_url"), timeout=10)
    view = views.graph(uuid4().hex, TOPIC)
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
