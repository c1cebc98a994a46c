"""Memory's read view on PostgreSQL: what it says is what the view on SQLite says. Graphs: see ``tests/graph``."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import anyio
import psycopg
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import laser as ls
from laser.engines._porter import stem
from laser.engines.postgres.schema import prepare
from laser.engines.postgres.views import open_postgres_views
from laser.engines.postgres.views.schema import VIEW_MIGRATIONS
from laser.engines.sqlite.views import open_sqlite_views
from laser.errors import StaleCheckpointError
from laser.model.ids import ulid_text
from laser.model.memory import MemoryChange, MemoryOwner, Remembered
from laser.testing.postgres_server import PostgresServer
from tests.memory.making import (
    C1,
    C2,
    NAMESPACES,
    NEVER_OVER,
    TOPIC,
    HashEmbedder,
    changes,
    said_by_view,
    texts,
    words_of,
)
from tests.memory.test_folding import _facts, _fill
from tests.memory.test_memory import SCRIPTS
from tests.properties import examples

pytestmark = pytest.mark.anyio

NOW = 5


@pytest.fixture(scope="module")
def module_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database of an encoding that knows few letters."""
    name = f"t{uuid4().hex}"
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        yield postgres_server.url.removesuffix("/laser") + f"/{name}"
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def laser(module_url: str) -> AsyncIterator[ls.Laser]:
    async with ls.Laser.connect("memory:", stream=f"s{uuid4().hex}", views=module_url) as client:
        yield client


def test_says_what_sqlite_says(module_url: str) -> None:
    """Whatever the records, the order of partitions, and what retention took."""

    # Without making a counterexample small: each try asks a server some hundred times.
    @settings(examples(10), phases=[Phase.explicit, Phase.reuse, Phase.generate], report_multiple_bugs=False)
    @given(changes(), st.integers(0, 2**32), st.tuples(st.integers(0, 8), st.integers(0, 8)))
    def run(records: list[MemoryChange], seed: int, firsts: tuple[int, int]) -> None:
        anyio.run(_compare, module_url, records, seed, firsts)

    run()


async def _compare(url: str, records: list[MemoryChange], seed: int, firsts: tuple[int, int]) -> None:
    parts = [[one for one in records if one.partition == partition] for partition in (0, 1)]
    stream = uuid4().hex
    ours, theirs = await open_postgres_views(url, timeout=30), await open_sqlite_views(None, timeout=30)
    try:
        one, other = ours.memory(stream, TOPIC), theirs.memory(stream, TOPIC)
        position = await _fill(one, parts, random.Random(seed))
        assert await _fill(other, parts, random.Random(seed)) == position
        assert await one.position() == position
        await _same(one, other, NEVER_OVER)
        cut = {partition: min(count, len(parts[partition])) for partition, count in enumerate(firsts)}
        lost = [await _trim(view, cut, position) for view in (one, other)]
        assert lost[0] == lost[1]
        await _same(one, other, NOW)
        for view in (one, other):
            await view.clear(expect=await view.position())
            assert await view.position() is None
            assert not any(await said_by_view(view, NEVER_OVER))
    finally:
        await ours.aclose()
        await theirs.aclose()


async def _trim(view: Any, cut: dict[int, int], position: str | None) -> bool:
    try:
        return not await view.apply([], firsts=cut, expect=position, position="cut")
    except StaleCheckpointError:
        return True


async def _same(one: Any, other: Any, now: int) -> None:
    assert await said_by_view(one, now) == await said_by_view(other, now)
    assert await words_of(one, now) == await words_of(other, now)
    assert await _facts(one) == await _facts(other)


async def test_position_is_compared_and_set(module_url: str) -> None:
    """Of two processes that apply the same records one wins; the other does nothing."""
    views = [await open_postgres_views(module_url, timeout=30) for _ in range(2)]
    owner = MemoryOwner(NAMESPACES[0], C1)
    item = Remembered("01ARZ3NDEKTSV4RRFFQ69G5FAV", "fact", b"alpha", owner, 1, 0, 0)
    try:
        stream = uuid4().hex
        won: list[bool] = []

        async def apply(number: int) -> None:
            view = views[number].memory(stream, TOPIC)
            won.append(await view.apply([item], firsts={}, expect=None, position="1"))

        async with anyio.create_task_group() as group:
            for number in range(2):
                group.start_soon(apply, number)
        assert sorted(won) == [False, True]
        found = await views[0].memory(stream, TOPIC).recent(owner, 10, 0)
        assert [entry.item for entry in found] == [item]
        await views[0].memory(stream, TOPIC).clear(expect="0")
        assert await views[1].memory(stream, TOPIC).position() == "1"
        # Another stream's is its own.
        assert await views[0].memory(f"{stream}/", TOPIC).position() is None
    finally:
        for one in views:
            await one.aclose()


async def test_recall(laser: ls.Laser) -> None:
    """By keyword, meaning, feedback and key, forgotten and rebuilt, through the public API."""
    memory = laser.memory_with("n", embedder=HashEmbedder())
    ids = [
        await memory.remember(text, user=user, conversation=where)
        for text, user, where in (
            ("Ann: the car is red 東京", "u1", C1),
            ("Ann: we walked the dogs", "u1", C2),
            ("a quiet residence", "u10", C1),
        )
    ]
    assert texts(await memory.search("walking dog", user="u1")) == ["Ann: we walked the dogs"]
    assert texts(await memory.search("京"))[0] == "Ann: the car is red 東京"
    assert await memory.search("walking dog", user="u10") == []
    assert (await memory.recall("automobile", strategy="semantic"))[0].id == ids[0]
    assert (await memory.recall("what did Ann say of dogs"))[0].id == ids[1]
    await memory.improve(ids[2], 3.0)
    assert (await memory.recall())[0].id == ids[2]
    facts = memory.facts(tenant="t")
    await facts.set("seat", "aisle")
    await facts.set("seat", "window")
    assert [item.value for item in await facts.history("seat")] == ["aisle", "window"]
    before = await memory.recall("red automobile dogs", limit=50)
    await memory.rebuild()
    assert [item.id for item in await memory.recall("red automobile dogs", limit=50)] == [item.id for item in before]
    await memory.forget(ids[1])
    assert await memory.search("dog") == []
    assert ids[1] not in [item.id for item in await memory.recall("dogs", strategy="semantic", limit=50)]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_scripts(laser: ls.Laser) -> None:
    for text, found, absent in SCRIPTS.values():
        memory = laser.memory(uuid4().hex)
        await memory.remember("something else in plain English")
        await memory.remember(text)
        for query in found:
            assert texts(await memory.search(query)) == [text], query
        for query in absent:
            assert await memory.search(query) == [], query


async def test_vectors_of_another_length(laser: ls.Laser) -> None:
    await laser.memory("n").remember("a text")
    await laser.memory_with("n", embedder=HashEmbedder()).recall("text")
    await laser.memory("n").remember("another text")
    with pytest.raises(ls.InvalidError, match="another version of a model needs another name"):
        await laser.memory_with("n", embedder=HashEmbedder(dimensions=32)).recall("text")


async def test_shared_by_two_clients(module_url: str, tmp_path: Any) -> None:
    """What one process folded the other need not fold: its position is there."""
    url, stream = f"embedded:{tmp_path}", f"s{uuid4().hex}"
    async with ls.Laser.connect(url, stream=stream, views=module_url) as one:
        item = await one.memory("n").remember("shared by two")
        assert [found.id for found in await one.memory("n").search("shared")] == [item]
        async with ls.Laser.connect(url, stream=stream, views=module_url) as two:
            view = (await two.open_views()).memory(stream, ls.AgentTopic.Memory)
            assert await view.position() is not None
            assert [found.id for found in await two.memory("n").search("shared")] == [item]
            await two.memory("n").forget(item)
        assert await one.memory("n").search("shared") == []
    assert not (tmp_path / "views.db").exists()


async def test_tables_of_an_older_release(postgres_server: PostgresServer) -> None:
    """They are brought up to date at the first connect, and left alone at the next."""
    name = f"t{uuid4().hex}"
    url = postgres_server.url.removesuffix("/laser") + f"/{name}"
    owner = MemoryOwner(NAMESPACES[0], C1)
    item = Remembered("01ARZ3NDEKTSV4RRFFQ69G5FAV", "fact", b"alpha", owner, 1, 0, 0)
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            with psycopg.connect(url, autocommit=True) as before:
                prepare(before, "views", VIEW_MIGRATIONS[:1])
            for _ in range(2):
                views = await open_postgres_views(url, timeout=10)
                try:
                    await views.memory("s", TOPIC).apply([item], firsts={}, expect=None, position="1")
                    found = await views.memory("s", TOPIC).recent(owner, 10, 0)
                    assert [entry.item for entry in found] == [item]
                    assert await views.graph("s", "agent.graph").position() is None
                finally:
                    await views.aclose()
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_table_that_fills_at_once(postgres_server: PostgresServer) -> None:
    """The server knows at once how words are spread: it does not read every item for each of them."""
    name = f"t{uuid4().hex}"
    url = postgres_server.url.removesuffix("/laser") + f"/{name}"
    owner = MemoryOwner(NAMESPACES[0], C1)
    items = [Remembered(ulid_text(number), "fact", b"w%d" % number, owner, 1, 0, number) for number in range(600)]
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            views = await open_postgres_views(url, timeout=10)
            try:
                view = views.memory("s", TOPIC)
                assert await view.apply(items, firsts={}, expect=None, position="1")
                assert [entry.item.id for entry in await view.keyword(owner, "w77", 1, 0)] == [ulid_text(77)]
            finally:
                await views.aclose()
            with psycopg.connect(url) as look:
                known = look.execute("SELECT reltuples FROM pg_class WHERE oid = 'laser.memory_items'::regclass")
                assert known.fetchone() == (600,)
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_places_of_views(tmp_path: Any) -> None:
    """The forms of ``views=``; no text of an error holds a password."""
    async with ls.Laser.connect("memory:", views=f"embedded:{tmp_path}") as laser:
        await laser.memory("n").remember("kept beside")
        assert len(await laser.memory("n").search("beside")) == 1
        assert (tmp_path / "views.db").exists()
    async with ls.Laser.connect(f"embedded:{tmp_path / 'log'}", views="memory:") as laser:
        await laser.memory("n").remember("kept nowhere")
        assert len(await laser.memory("n").search("nowhere")) == 1
        assert not (tmp_path / "log" / "views.db").exists()
    for bad in ("redis://secret@host", "nonsense"):
        async with ls.Laser.connect("memory:", views=bad) as laser:
            with pytest.raises(ls.ConfigError, match=r"views: unknown form .*; the forms are memory:") as caught:
                await laser.memory("n").recall()
            assert "secret" not in str(caught.value)
    with pytest.raises(ls.ConfigError, match="views: expected text"):
        await ls.Laser.connect("memory:", views=7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "expected"),
    [("walking", "walk"), ("ponies", "poni"), ("agreed", "agre"), ("hopping", "hop"), ("falling", "fall"),
     ("relational", "relat"), ("sky", "sky"), ("happy", "happi"), ("controlling", "control"), ("is", "is")],
)  # fmt: skip
def test_stems(word: str, expected: str) -> None:
    assert stem(word) == expected
