"""Graphs as users work with them, on every engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

import laser as ls
from tests.graph.making import ACME, ALICE, BOB, CAROL, GLOBEX, OSLO, names
from tests.views import Places

pytestmark = pytest.mark.anyio

DAY = 86_400_000_000


@pytest.fixture
def graph(laser: ls.Laser) -> ls.Graph:
    return laser.graph("people")


async def test_an_absent_topic_reads_as_empty(laser: ls.Laser, graph: ls.Graph) -> None:
    assert await graph.node("Person:Alice") is None
    assert await graph.find() == []
    assert await graph.neighbors(ALICE) == []
    assert await graph.traverse(ALICE, ["knows"], returns="paths") == []
    assert await graph.unlink(ALICE, "knows", BOB) is False
    await graph.upsert()
    assert "agent.graph" not in [topic.name for topic in await laser.topics()]
    assert await graph.export() == ls.GraphExport("people", (), ())
    await graph.upsert([ALICE])
    assert len((await laser.topic("agent.graph")).partitions) == 4


async def test_nodes_converge_and_attributes_merge(graph: ls.Graph) -> None:
    await graph.upsert(["Person:Alice", ls.Node("Person", "Alice", {"age": 30, "tags": ["a", 1.5, None]})])
    await graph.upsert([ls.Node("Person", "Alice", {"age": 31, "née": "Smith", "big": 2**64 - 1}), ALICE])
    (found,) = await graph.find()
    assert found.attributes == {"age": 31, "tags": ["a", 1.5, None], "née": "Smith", "big": 2**64 - 1}
    await graph.upsert([ls.Node("Person", "Alice", {"age": None, "ok": False})])
    known = await graph.node(ALICE.id)
    assert known is not None
    assert known.attributes == {"tags": ["a", 1.5, None], "née": "Smith", "big": 2**64 - 1, "ok": False}
    assert (known.label, known.value, known.id) == ("Person", "Alice", ALICE.id)


async def test_edges_converge(graph: ls.Graph) -> None:
    edge = ls.Edge.between(ALICE, "knows", BOB, attributes={"since": "school"})
    await graph.upsert([ALICE, BOB], [edge])
    await graph.upsert([], [edge, ls.Edge.between(ALICE, "knows", BOB, weight=2, attributes={"close": True})])
    (found,) = (await graph.export()).edges
    assert (found.id, found.weight, found.attributes) == (edge.id, 2.0, {"since": "school", "close": True})
    assert (found.valid_from, found.valid_to) == (None, None)


async def test_an_edge_waits_for_its_nodes(graph: ls.Graph) -> None:
    await graph.upsert([ALICE], [ls.Edge.between(ALICE, "knows", BOB)])
    assert await graph.neighbors(ALICE) == []
    assert (await graph.export()).edges == ()
    await graph.upsert([BOB])
    assert names(await graph.neighbors(ALICE)) == ["Bob"]


async def test_find(graph: ls.Graph) -> None:
    everything = [ls.Node("Person", "A"), ls.Node("Person", "B"), ls.Node("Per", "A"), ls.Node("City", "A")]
    await graph.upsert(everything)
    by_id = sorted(node.id for node in everything)
    assert [node.id for node in await graph.find()] == by_id
    assert sorted(names(await graph.find("Person"))) == ["A", "B"]
    assert sorted(node.label for node in await graph.find(value="A")) == ["City", "Per", "Person"]
    assert [(node.label, node.value) for node in await graph.find("Per", "A")] == [("Per", "A")]
    assert await graph.find("Pers") == []
    assert [node.id for node in await graph.find(limit=2)] == by_id[:2]
    assert [node.id for node in await graph.find(after=by_id[1])] == by_id[2:]


async def test_link_unlink_and_link_again(graph: ls.Graph) -> None:
    assert await graph.link("Person:Alice", "works_at", "Company:Acme") == ls.Edge(ALICE.id, "works_at", ACME.id).id
    await graph.link(ALICE, "works_at", ACME)
    assert len((await graph.export()).edges) == 1
    before = await _newest(graph)
    assert await graph.unlink(ALICE.id, "works_at", "Company:Acme") is True
    assert await graph.unlink(ALICE, "works_at", ACME) is False
    ended = await _newest(graph)
    assert await graph.neighbors(ALICE) == []
    assert names(await graph.neighbors(ALICE, as_of=before)) == ["Acme"]
    assert await graph.neighbors(ALICE, as_of=ended) == []
    assert names(await graph.find()) == names((await graph.export()).nodes)
    assert len(await graph.find()) == 2

    await graph.link(ALICE, "works_at", ACME)
    again = await _newest(graph)
    edges = (await graph.export()).edges
    assert [(edge.valid_from, edge.valid_to) for edge in edges] == [(None, ended), (again, None)]
    assert names(await graph.neighbors(ALICE)) == ["Acme"]
    assert names(await graph.neighbors(ALICE, as_of=ended - 1)) == ["Acme"]
    # On a server the clock may stand still between two records.
    if ended < again:
        assert await graph.neighbors(ALICE, as_of=again - 1) == []


async def _newest(graph: ls.Graph) -> int:
    """The time of the newest record that says something."""
    exported = await graph.export()
    return max(one.asserted.timestamp_micros for one in (*exported.nodes, *exported.edges) if one.asserted)


async def test_relink_ends_the_others(graph: ls.Graph) -> None:
    await graph.link(ALICE, "works_at", ACME)
    await graph.link(ALICE, "works_at", "Company:Initech")
    await graph.link(ALICE, "lives_in", OSLO)
    await graph.link(BOB, "works_at", ACME)
    assert await graph.relink(ALICE, "works_at", GLOBEX) == 2
    assert await graph.relink(ALICE, "works_at", GLOBEX) == 0
    assert names(await graph.neighbors(ALICE, edge_type="works_at")) == ["Globex"]
    assert names(await graph.neighbors(ALICE, edge_type="lives_in")) == ["Oslo"]
    assert names(await graph.incoming(ACME)) == ["Bob"]
    assert await graph.relink(ALICE, "works_at", ACME) == 1
    assert names(await graph.neighbors(ALICE, edge_type="works_at")) == ["Acme"]
    stretches = [edge for edge in (await graph.export()).edges if edge.target == ACME.id and edge.source == ALICE.id]
    assert [edge.valid_to is None for edge in stretches] == [False, True]


async def test_relink_at_given_moments(graph: ls.Graph) -> None:
    for day, company in enumerate([ACME, GLOBEX, ACME], 1):
        await graph.relink(ALICE, "works_at", company, at=day * DAY)
    for moment, expected in [(DAY - 1, []), (DAY, ["Acme"]), (2 * DAY - 1, ["Acme"]), (2 * DAY, ["Globex"])]:
        assert names(await graph.neighbors(ALICE, as_of=moment)) == expected
    assert names(await graph.neighbors(ALICE, as_of=3 * DAY)) == ["Acme"]
    assert names(await graph.neighbors(ALICE)) == ["Acme"]


async def test_stretches_are_half_open(graph: ls.Graph) -> None:
    start, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    bounded = ls.Edge.between(ALICE, "at", GLOBEX, valid_from=5)
    await graph.upsert(
        [ALICE, ACME, GLOBEX], [ls.Edge.between(ALICE, "at", ACME), bounded], valid_from=start, valid_to=end
    )
    micros = 1_577_836_800_000_000
    found = {edge.target: (edge.valid_from, edge.valid_to) for edge in (await graph.export()).edges}
    assert found == {ACME.id: (micros, 1_609_452_000_000_000), GLOBEX.id: (5, None)}
    for moment, expected in [
        (4, []),
        (5, ["Globex"]),
        (micros - 1, ["Globex"]),
        (start, ["Acme", "Globex"]),
        (end - timedelta(microseconds=1), ["Acme", "Globex"]),
        (end, ["Globex"]),
    ]:
        assert sorted(names(await graph.neighbors(ALICE, as_of=moment))) == expected
    # An edge that is asserted anew has the stretch of the newest assertion only.
    await graph.upsert([], [ls.Edge.between(ALICE, "at", GLOBEX, valid_from=7, valid_to=9)])
    assert names(await graph.neighbors(ALICE, as_of=5)) == []
    assert names(await graph.neighbors(ALICE, as_of=8)) == ["Globex"]


async def test_neighbors(graph: ls.Graph) -> None:
    for one, relation, other in [
        (ALICE, "knows", BOB),
        (BOB, "knows", CAROL),
        (CAROL, "knows", ALICE),
        (ALICE, "at", ACME),
        (BOB, "at", ACME),
        (ACME, "in", OSLO),
        (ALICE, "knows", ALICE),
    ]:
        await graph.link(one, relation, other)
    assert sorted(names(await graph.neighbors(ALICE))) == ["Acme", "Bob"]
    assert names(await graph.neighbors(ALICE, edge_type="knows")) == ["Bob"]
    assert names(await graph.neighbors(ALICE, "in")) == ["Carol"]
    assert sorted(names(await graph.incoming(ACME))) == ["Alice", "Bob"]
    assert names(await graph.incoming(ACME, "knows")) == []
    assert sorted(names(await graph.incoming(OSLO, depth=2))) == ["Acme", "Alice", "Bob"]
    assert sorted(names(await graph.neighbors(ALICE, "both"))) == ["Acme", "Bob", "Carol"]
    far = await graph.neighbors(ALICE, depth=3)
    assert {hit.node.value: hit.depth for hit in far} == {"Acme": 1, "Bob": 1, "Carol": 2, "Oslo": 2}
    assert [hit.depth for hit in far] == sorted(hit.depth for hit in far)
    assert {hit.node.value: (hit.edge.type, hit.edge.source) for hit in far}["Oslo"] == ("in", ACME.id)
    assert len(await graph.neighbors(ALICE, depth=3, limit=3)) == 3
    assert await graph.neighbors("Person:Nobody") == []


async def test_traverse(graph: ls.Graph) -> None:
    for one, relation, other in [
        (ALICE, "knows", BOB),
        (ALICE, "knows", CAROL),
        (BOB, "at", ACME),
        (CAROL, "at", ACME),
        (CAROL, "at", GLOBEX),
        (ACME, "in", OSLO),
        (BOB, "at", OSLO),
    ]:
        await graph.link(one, relation, other)
    assert sorted(names(await graph.traverse(ALICE, ["knows", "at"]))) == ["Acme", "Globex", "Oslo"]
    assert sorted(names(await graph.traverse(ALICE, ["knows", ls.Hop("at", label="Company")]))) == ["Acme", "Globex"]
    assert names(await graph.traverse("Person:Alice", ["knows", "at", "in"])) == ["Oslo"]
    assert names(await graph.traverse([BOB.id, "Person:Carol"], ["at", "in"])) == ["Oslo"]
    assert await graph.traverse([], ["at"]) == []
    assert await graph.traverse(ALICE, ["at"]) == []
    colleagues = await graph.traverse(CAROL, ["at", ls.Hop("at", "in", "Person")])
    assert sorted(names(colleagues)) == ["Bob", "Carol"]

    hops: list[ls.Hop | str] = ["knows", ls.Hop(), "in"]
    paths = await graph.traverse(ALICE, hops, returns="paths")
    assert sorted(names(path.nodes) for path in paths) == [
        ["Alice", "Bob", "Acme", "Oslo"],
        ["Alice", "Carol", "Acme", "Oslo"],
    ]
    for path in paths:
        assert [(edge.source, edge.target) for edge in path.edges] == [
            (one.id, other.id) for one, other in zip(path.nodes, path.nodes[1:], strict=False)
        ]
    # Globex leads nowhere, and Bob's Oslo is no company: neither is on a whole way.
    edges = await graph.traverse(ALICE, hops, returns="edges")
    assert [edge.type for edge in edges] == ["knows", "knows", "at", "at", "in"]
    triplets = await graph.traverse(ALICE, hops, returns="triplets")
    assert [one.edge for one in triplets] == edges
    assert {(one.source.value, one.edge.type, one.target.value) for one in triplets} == {
        ("Alice", "knows", "Bob"),
        ("Alice", "knows", "Carol"),
        ("Bob", "at", "Acme"),
        ("Carol", "at", "Acme"),
        ("Acme", "in", "Oslo"),
    }
    assert len(await graph.traverse(ALICE, hops, returns="paths", limit=1)) == 1
    assert len(await graph.traverse(ALICE, hops, returns="edges", limit=2)) == 2
    back = await graph.traverse(
        OSLO, [ls.Hop("in", "in"), ls.Hop("at", "in"), ls.Hop("knows", "in")], returns="triplets"
    )
    assert ("Alice", "knows", "Bob") in {(one.source.value, one.edge.type, one.target.value) for one in back}


async def test_as_of_through_hops(graph: ls.Graph) -> None:
    await graph.upsert(
        [ALICE, ACME, OSLO],
        [
            ls.Edge.between(ALICE, "at", ACME, valid_from=10, valid_to=20),
            ls.Edge.between(ACME, "in", OSLO, valid_from=15, valid_to=25),
        ],
    )
    found = {moment: names(await graph.traverse(ALICE, ["at", "in"], as_of=moment)) for moment in (14, 15, 19, 20)}
    assert found == {14: [], 15: ["Oslo"], 19: ["Oslo"], 20: []}
    assert names(await graph.neighbors(ALICE, depth=2, as_of=12)) == ["Acme"]


async def test_who_said_so(laser: ls.Laser, graph: ls.Graph) -> None:
    scope = laser.context(ls.new_conversation_id())
    await scope.append(ls.AgentTopic.Sessions, "Alice joined Acme.", agent="user")
    (message,) = await scope.fetch()
    here = ls.GraphSource("agent.sessions", message.partition, message.offset)
    await graph.link(ALICE, "at", ACME, source=message)
    (hit,) = await graph.neighbors(ALICE)
    for by in (hit.edge.asserted, hit.node.asserted):
        assert by is not None
        assert (by.conversation, by.source) == (scope.conversation, here)
    # To say it once more without saying how one knows forgets nothing.
    await graph.upsert([ACME])
    await graph.link(ALICE, "at", ACME)
    assert await graph.neighbors(ALICE) == [hit]

    other = laser.context(ls.new_conversation_id())
    await other.graph("people").upsert([ACME], source=here)
    known = await graph.node(ACME)
    assert known is not None
    assert known.asserted is not None
    assert (known.asserted.conversation, known.asserted.source) == (other.conversation, here)
    # A graph is shared: a scope reads what others said.
    assert names(await other.graph("people").neighbors(ALICE)) == ["Acme"]
    session = await laser.sessions().start()
    await session.scope().graph("people").unlink(ALICE, "at", ACME)
    (edge,) = (await graph.export()).edges
    assert edge.asserted is not None
    assert edge.asserted.conversation == session.id


async def test_graphs_and_streams_are_apart(places: Places, stream_name: str, laser: ls.Laser) -> None:
    await laser.graph("g1").link(ALICE, "knows", BOB)
    await laser.graph("g10").link(ALICE, "knows", CAROL)
    for name in ("g", "g1 ", "G1", "g100"):
        assert await laser.graph(name).find() == []
    assert names(await laser.graph("g1").neighbors(ALICE)) == ["Bob"]
    assert names(await laser.graph("g10").neighbors(ALICE)) == ["Carol"]
    assert await laser.graph("g1").node(CAROL) is None
    assert await laser.graph("g1").traverse(CAROL, [ls.Hop(None, "in")]) == []
    assert await laser.graph("g1").unlink(ALICE, "knows", CAROL) is False
    assert await laser.graph("g10").relink(ALICE, "knows", ALICE) == 1
    assert names(await laser.graph("g1").neighbors(ALICE)) == ["Bob"]
    # The stream of the same URL whose name begins alike.
    async with ls.Laser.connect(places[0], stream=f"{stream_name}0", views=places[1]) as other:
        assert await other.graph("g1").find() == []
        assert await other.graph("g1").neighbors(ALICE) == []


async def test_two_clients_see_each_other(places: Places, stream_name: str, laser: ls.Laser) -> None:
    if places[0] == "memory:":
        pytest.skip("a log in memory belongs to one client")
    async with ls.Laser.connect(places[0], stream=stream_name, views=places[1]) as other:
        for number in range(5):
            await laser.graph("g").upsert([f"n:{number}"])
            assert await other.graph("g").node(f"n:{number}") is not None
            await other.graph("g").upsert([f"m:{number}"])
            assert await laser.graph("g").node(f"m:{number}") is not None


async def test_rebuild_tells_how_far_it_is(graph: ls.Graph) -> None:
    for number in range(5):
        await graph.upsert([f"n:{number}"])
    before = await graph.export()
    seen: list[ls.CatchUpProgress] = []
    assert await graph.rebuild(seen.append) == 5
    assert (seen[-1].read, seen[-1].total) == (5, 5)
    assert await graph.export() == before
