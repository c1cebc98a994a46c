"""Ids of nodes and edges: those of laser-sdk, and different for different things."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from tests.properties import examples
from tests.shared import golden

_texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
_labels = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)


@pytest.mark.parametrize(("label", "value", "expected"), golden()["node_id"])
def test_nodes_of_the_peer(label: str, value: str, expected: str) -> None:
    assert ls.Node(label, value).id == expected


@pytest.mark.parametrize(("source", "type_", "target", "expected"), golden()["edge_id"])
def test_edges_of_the_peer(source: str, type_: str, target: str, expected: str) -> None:
    assert ls.Edge(source, type_, target).id == expected


@pytest.mark.peer
@examples(300)
@given(_labels, _texts, _labels, _labels, _texts)
def test_the_peer_makes_the_same_ids(label: str, value: str, type_: str, other: str, name: str) -> None:
    sdk = pytest.importorskip("laser_sdk", reason="laser-sdk has wheels for Linux on x86-64 only")
    source, target = ls.Node(label, value), ls.Node(other, name)
    theirs = sdk.graph_node_entity(label, value), sdk.graph_node_entity(other, name)
    assert (source.id, target.id) == (theirs[0]["id"], theirs[1]["id"])
    edge = ls.Edge.between(source, type_, target, weight=0.5, valid_from=7)
    assert edge.id == sdk.graph_edge_relate(theirs[0], type_, theirs[1])["id"]


@pytest.mark.peer
@pytest.mark.parametrize(("start", "end"), [(None, None), (5, None), (None, 5), (5, 7)])
def test_the_peer_means_the_same_by_valid(start: int | None, end: int | None) -> None:
    sdk = pytest.importorskip("laser_sdk", reason="laser-sdk has wheels for Linux on x86-64 only")
    nodes = sdk.graph_node_entity("Person", "Alice"), sdk.graph_node_entity("Company", "Acme")
    theirs = sdk.graph_edge_valid(sdk.graph_edge_relate(nodes[0], "works_at", nodes[1]), start, end)
    ours = ls.Edge.between("Person:Alice", "works_at", "Company:Acme", valid_from=start, valid_to=end)
    for moment in range(4, 9):
        assert ours.holds_at(moment) == sdk.graph_edge_valid_at(theirs, moment)


def test_different_things_have_different_ids() -> None:
    assert ls.Node("a", "bc").id != ls.Node("ab", "c").id
    assert ls.Node("g", "1").id != ls.Node("g", "10").id
    ids = [ls.Node("n", str(number)).id for number in range(3)]
    edges = {ls.Edge(source, type_, target).id for source in ids for target in ids for type_ in ("t", "tt")}
    assert len(edges) == 18
    assert ls.Edge(ids[0].lower(), "t", ids[1]).source == ids[0]
