"""Bad arguments, each refused with its name, and nothing written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

import laser as ls
from tests.graph.making import ACME, ALICE, BOB

pytestmark = pytest.mark.anyio

NAIVE = datetime(2020, 1, 1)  # noqa: DTZ001 - it is what must be refused

_BAD: list[tuple[str, Callable[[ls.Graph], Any]]] = [
    ("nodes", lambda graph: graph.upsert("Person:Alice")),
    ("nodes", lambda graph: graph.upsert(["Alice"])),
    ("nodes", lambda graph: graph.upsert([7])),
    ("nodes", lambda graph: graph.upsert([":Alice"])),
    ("nodes", lambda graph: graph.upsert(["Person:"])),
    ("edges", lambda graph: graph.upsert([], [("a", "b", "c")])),
    ("edges", lambda graph: graph.upsert([], ls.Edge.between(ALICE, "t", BOB))),
    ("valid_from", lambda graph: graph.upsert([ALICE], valid_from=NAIVE)),
    ("valid_to", lambda graph: graph.upsert([ALICE], valid_from=5, valid_to=5)),
    ("valid_to", lambda graph: graph.upsert([ALICE], valid_to=1.5)),
    ("source", lambda graph: graph.upsert([ALICE], source="agent.sessions")),
    ("source", lambda graph: graph.upsert([ALICE], source=ls.GraphSource("t", -1, 0))),
    ("source", lambda graph: graph.upsert([ALICE], source=ls.GraphSource("t", 0, 2**64))),
    ("source", lambda graph: graph.upsert([ALICE], source=ls.GraphSource("", 0, 0))),
    ("attributes", lambda graph: graph.upsert([ls.Node("L", "v", {"a": {"b": 1}})])),
    ("attributes", lambda graph: graph.upsert([ls.Node("L", "v", {"a": [[1]]})])),
    ("attributes", lambda graph: graph.upsert([ls.Node("L", "v", {"a": (1,)})])),
    ("attributes", lambda graph: graph.upsert([ls.Node("L", "v", {"a": float("nan")})])),
    ("attributes", lambda graph: graph.upsert([ls.Node("L", "v", {"a": 2**64})])),
    ("attributes", lambda graph: graph.upsert([ls.Node("L", "v", {"a": "\ud800"})])),
    ("attributes", lambda graph: graph.upsert([ls.Node("L", "v", {"a": b"x"})])),
    ("attributes", lambda graph: graph.upsert([ls.Node("L", "v", {"": 1})])),
    ("attributes", lambda graph: graph.upsert([ls.Node("L", "v", {7: 1})])),  # type: ignore[dict-item]
    ("attributes", lambda graph: graph.upsert([ls.Node("L", "v", [1])])),  # type: ignore[arg-type]
    ("from_", lambda graph: graph.link("Alice", "t", BOB)),
    ("from_", lambda graph: graph.link(ALICE.id, "t", BOB)),
    ("to", lambda graph: graph.link(ALICE, "t", None)),
    ("relation", lambda graph: graph.link(ALICE, "", BOB)),
    ("relation", lambda graph: graph.link(ALICE, "a\nb", BOB)),
    ("weight", lambda graph: graph.link(ALICE, "t", BOB, weight=float("inf"))),
    ("weight", lambda graph: graph.link(ALICE, "t", BOB, weight=10**400)),
    ("weight", lambda graph: graph.link(ALICE, "t", BOB, weight=True)),
    ("valid_from", lambda graph: graph.link(ALICE, "t", BOB, valid_from=NAIVE)),
    ("at", lambda graph: graph.unlink(ALICE, "t", BOB, at=NAIVE)),
    ("from_", lambda graph: graph.unlink("x" * 25, "t", BOB)),
    ("at", lambda graph: graph.relink(ALICE, "t", BOB, at="now")),
    ("relation", lambda graph: graph.relink(ALICE, None, BOB)),
    ("id", lambda graph: graph.node("nobody")),
    ("id", lambda graph: graph.node(7)),
    ("label", lambda graph: graph.find("")),
    ("value", lambda graph: graph.find(value=7)),
    ("after", lambda graph: graph.find(after="x")),
    ("limit", lambda graph: graph.find(limit=0)),
    ("limit", lambda graph: graph.find(limit=True)),
    ("node", lambda graph: graph.neighbors("x")),
    ("direction", lambda graph: graph.neighbors(ALICE, "up")),
    ("direction", lambda graph: graph.neighbors(ALICE, [])),
    ("edge_type", lambda graph: graph.neighbors(ALICE, "out", "")),
    ("depth", lambda graph: graph.neighbors(ALICE, depth=0)),
    ("as_of", lambda graph: graph.neighbors(ALICE, as_of=NAIVE)),
    ("as_of", lambda graph: graph.neighbors(ALICE, as_of=2**63)),
    ("hops", lambda graph: graph.traverse(ALICE, [])),
    ("hops", lambda graph: graph.traverse(ALICE, "knows")),
    ("type", lambda graph: graph.traverse(ALICE, [""])),
    ("start", lambda graph: graph.traverse(7, ["t"])),
    ("start", lambda graph: graph.traverse(["nobody"], ["t"])),
    ("returns", lambda graph: graph.traverse(ALICE, ["t"], returns="all")),
    ("limit", lambda graph: graph.traverse(ALICE, ["t"], limit=0)),
    ("as_of", lambda graph: graph.traverse(ALICE, ["t"], as_of=NAIVE)),
]


@pytest.mark.parametrize("number", range(len(_BAD)))
async def test_refused(memory_laser: ls.Laser, number: int) -> None:
    argument, call = _BAD[number]
    with pytest.raises(ls.InvalidError) as caught:
        await call(memory_laser.graph("g"))
    assert caught.value.argument == argument
    assert str(caught.value).startswith(f"{argument}: ")
    assert "agent.graph" not in [topic.name for topic in await memory_laser.topics()]


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("label", lambda: ls.Node("", "v")),
        ("label", lambda: ls.Node("a\0b", "v")),
        ("label", lambda: ls.Node(7, "v")),  # type: ignore[arg-type]
        ("value", lambda: ls.Node("L", "")),
        ("value", lambda: ls.Node("L", "\ud800")),
        ("source", lambda: ls.Edge("x", "t", ALICE.id)),
        ("target", lambda: ls.Edge(ALICE.id, "t", "8" + "0" * 25)),
        ("source", lambda: ls.Edge.between("Alice", "t", BOB)),
        ("type", lambda: ls.Edge(ALICE.id, "", ACME.id)),
        ("valid_from", lambda: ls.Edge(ALICE.id, "t", ACME.id, valid_from=True)),
        ("valid_to", lambda: ls.Edge.between(ALICE, "t", ACME, valid_to=NAIVE)),
        ("valid_to", lambda: ls.Edge(ALICE.id, "t", ACME.id, valid_from=3, valid_to=2)),
        ("moment", lambda: ls.Edge(ALICE.id, "t", ACME.id).holds_at(NAIVE)),
        ("direction", lambda: ls.Hop("t", "sideways")),  # type: ignore[arg-type]
        ("label", lambda: ls.Hop("t", label="")),
    ],
)
def test_values_that_cannot_be_made(argument: str, make: Callable[[], object]) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        make()
    assert caught.value.argument == argument


@pytest.mark.parametrize("name", ["", "a\nb", "\ud800", 7, None])
async def test_names(memory_laser: ls.Laser, name: Any) -> None:
    for make in (memory_laser.graph, memory_laser.context(ls.new_conversation_id()).graph):
        with pytest.raises(ls.InvalidError) as caught:
            make(name)
        assert caught.value.argument == "name"


async def test_a_closed_client() -> None:
    async with ls.Laser.connect("memory:") as laser:
        graph = laser.graph("g")
        await graph.upsert([ALICE])
        assert await graph.node(ALICE) is not None
    for call in (graph.find, graph.export, graph.rebuild, lambda: graph.upsert([ALICE])):
        with pytest.raises(ls.ClosedError):
            await call()
