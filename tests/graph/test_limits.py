"""Every limit of graphs at its edge and one beyond. One beyond is refused before anything is written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import cbor2
import pytest

import laser as ls
from laser import limits
from tests.graph.making import ALICE

pytestmark = pytest.mark.anyio


@pytest.fixture
async def laser() -> AsyncIterator[ls.Laser]:
    async with ls.Laser.connect("memory:") as client:
        await client.ensure_topic("agent.graph")
        yield client


@pytest.fixture
def graph(laser: ls.Laser) -> ls.Graph:
    return laser.graph("g")


async def written(laser: ls.Laser) -> int:
    return (await laser.topic("agent.graph")).records


async def refused(call: Callable[[], Any], argument: str, size: int, limit: int) -> None:
    with pytest.raises(ls.LimitError) as caught:
        await call()
    assert (caught.value.argument, caught.value.size, caught.value.limit) == (argument, size, limit)


async def test_names(laser: ls.Laser) -> None:
    edge = "é" * (limits.MAX_GRAPH_NAME_BYTES // 2)
    await laser.graph(edge).upsert([ALICE])
    assert len(await laser.graph(edge).find()) == 1

    async def make() -> None:
        laser.graph(edge + "x")

    await refused(make, "name", limits.MAX_GRAPH_NAME_BYTES + 1, limits.MAX_GRAPH_NAME_BYTES)


async def test_texts(laser: ls.Laser, graph: ls.Graph) -> None:
    name, value = limits.MAX_GRAPH_LABEL_BYTES, limits.MAX_GRAPH_VALUE_BYTES
    label, text = "é" * (name // 2) + "x", "é" * (value // 2)
    widest = ls.Node(label, text, {label: 1})
    await graph.link(widest, label, ALICE)
    await graph.upsert([widest])
    (hit,) = await graph.incoming(ALICE, label)
    assert (hit.node.label, hit.node.value, hit.node.attributes) == (label, text, {label: 1})
    assert len(await graph.find(label, text)) == 1
    before = await written(laser)

    async def make(label: str, value: str) -> None:
        ls.Node(label, value)

    await refused(lambda: make(label + "x", "v"), "label", name + 1, name)
    await refused(lambda: make("L", text + "x"), "value", value + 1, value)
    await refused(lambda: graph.find(label + "x"), "label", name + 1, name)
    await refused(lambda: graph.find(value=text + "x"), "value", value + 1, value)
    await refused(lambda: graph.link(ALICE, label + "x", ALICE), "relation", name + 1, name)
    await refused(lambda: graph.upsert([ls.Node("L", "v", {label + "x": 1})]), "attributes", name + 1, name)
    assert await written(laser) == before


async def test_attributes(laser: ls.Laser, graph: ls.Graph) -> None:
    edge = limits.MAX_GRAPH_ATTRIBUTES_BYTES
    text = "x" * (edge - len(cbor2.dumps({"a": "x" * edge})) + edge)
    await graph.upsert([ls.Node("Person", "Alice", {"a": text})])
    known = await graph.node(ALICE)
    assert known is not None
    assert known.attributes == {"a": text}
    await refused(lambda: graph.upsert([ls.Node("L", "v", {"a": text + "x"})]), "attributes", edge + 1, edge)
    wide = ls.Edge.between(ALICE, "t", ALICE, attributes={"a": text + "x"})
    await refused(lambda: graph.upsert([], [wide]), "attributes", edge + 1, edge)
    assert await written(laser) == 1


async def test_one_write(laser: ls.Laser, graph: ls.Graph) -> None:
    edge = limits.MAX_GRAPH_WRITE
    nodes = [f"n:{number}" for number in range(edge - 1)]
    await graph.upsert(nodes, [ls.Edge.between("n:0", "t", "n:1")])
    assert len((await graph.export()).nodes) == edge - 1
    edges = [ls.Edge.between("n:0", type_, "n:1") for type_ in ("t", "u")]
    await refused(lambda: graph.upsert(nodes, edges), "nodes", edge + 1, edge)
    assert await written(laser) == 1
    # What takes several records is cut by itself.
    await graph.upsert([], [ls.Edge.between("n:0", "at", f"n:{number}") for number in range(1, edge - 1)])
    await graph.upsert(["m:1", "m:2"], [ls.Edge.between("n:0", "at", node) for node in ("m:1", "m:2")])
    assert await graph.relink("n:0", "at", "m:3") == edge
    assert [hit.node.value for hit in await graph.neighbors("n:0", edge_type="at")] == ["3"]


async def test_depth(graph: ls.Graph) -> None:
    edge = limits.MAX_GRAPH_DEPTH
    for number in range(edge + 1):
        await graph.link(f"n:{number}", "t", f"n:{number + 1}")
    assert len(await graph.neighbors("n:0", depth=edge)) == edge
    assert [node.value for node in await graph.traverse("n:0", ["t"] * edge)] == [str(edge)]
    (path,) = await graph.traverse("n:0", ["t"] * edge, returns="paths")
    assert len(path.edges) == edge
    await refused(lambda: graph.traverse("n:0", ["t"] * (edge + 1)), "hops", edge + 1, edge)
    with pytest.raises(ls.InvalidError) as caught:
        await graph.neighbors("n:0", depth=edge + 1)
    assert caught.value.argument == "depth"


async def _star(graph: ls.Graph, rays: int, type_: str = "t") -> None:
    """One node with edges to many."""
    for first in range(0, rays, 500):
        ends = [ls.Node("n", str(number)) for number in range(first, min(first + 500, rays))]
        await graph.upsert(["hub:0", *ends][:501], [ls.Edge.between("hub:0", type_, end) for end in ends[:499]])
        await graph.upsert([], [ls.Edge.between("hub:0", type_, end) for end in ends[499:]])


async def test_results(graph: ls.Graph) -> None:
    edge = limits.MAX_GRAPH_RESULTS
    await _star(graph, edge + 1)
    assert len(await graph.find(limit=edge)) == edge
    assert len(await graph.neighbors("hub:0", limit=edge)) == edge
    for returns in ("nodes", "edges", "paths", "triplets"):
        assert len(await graph.traverse("hub:0", ["t"], limit=edge, returns=returns)) == edge  # type: ignore[call-overload]
    for call in (
        lambda: graph.find(limit=edge + 1),
        lambda: graph.neighbors("hub:0", limit=edge + 1),
        lambda: graph.traverse("hub:0", ["t"], limit=edge + 1),
    ):
        with pytest.raises(ls.InvalidError) as caught:
            await call()
        assert caught.value.argument == "limit"
    starts = [f"n:{number}" for number in range(edge + 1)]
    assert await graph.traverse(starts[:-1], ["t"]) == []
    await refused(lambda: graph.traverse(starts, ["t"]), "start", edge + 1, edge)
    # Many edges to few nodes, and few nodes wanted of many.
    assert len(await graph.neighbors("hub:0", limit=3)) == 3


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_edges_of_a_walk(graph: ls.Graph) -> None:
    edge = limits.MAX_GRAPH_EDGES
    # Every path of two hops crosses the hub, so that the second hop takes as many edges as the hub has.
    await graph.link("start:0", "t", "hub:0")
    await _star(graph, edge - 1)
    assert len(await graph.traverse("start:0", ["t", ls.Hop("t", label="n")])) == 100
    assert len(await graph.traverse("start:0", ["t", "t", "t"])) == 0
    await graph.link("hub:0", "t", "n:last")
    await refused(lambda: graph.traverse("start:0", ["t", "t", "t"]), "hops", edge + 1, edge)
    await refused(lambda: graph.traverse("start:0", ["t", ls.Hop(label="n")]), "hops", edge + 1, edge)
    # Where some of the edges are enough, the others do not count.
    assert len(await graph.traverse("start:0", ["t", "t"])) == 100
    assert len(await graph.neighbors("hub:0", limit=1_000)) == 1_000
