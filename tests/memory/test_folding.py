"""The fold and the view: one answer, whatever the order of partitions, and whatever the log lost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laser.engines.sqlite.views import open_sqlite_views
from laser.errors import StaleCheckpointError
from laser.memory.fold import MemoryFold
from laser.model.ids import ulid_text
from laser.model.memory import FactMark, Forgotten, MemoryChange, MemoryOwner, Remembered, Weighed
from laser.ports.views import View
from tests.memory.making import (
    C1,
    C2,
    NAMESPACES,
    NEVER_OVER,
    OWNERS,
    TOPIC,
    as_items,
    changes,
    said_by_fold,
    said_by_view,
    words_of,
)
from tests.properties import examples

pytestmark = pytest.mark.anyio

NOW = 5


async def _fill(view: View[MemoryChange], parts: Sequence[Sequence[MemoryChange]], chance: random.Random) -> str | None:
    """Applies the records of partitions a few at a time, in any interleaving."""
    waiting = [list(part) for part in parts]
    position: str | None = None
    while any(waiting):
        part = chance.choice([part for part in waiting if part])
        count = chance.randint(1, 5)
        position, before = f"{position}.", position
        assert await view.apply(part[:count], firsts={}, expect=before, position=position)
        del part[:count]
    return position


async def _facts(view: Any) -> list[Any]:
    cells = [msgspec.structs.replace(owner, agent=None) for owner in OWNERS if owner.conversation is not None]
    return [
        *[await view.facts(cell, key) for cell in cells for key in (None, "k")],
        *[await view.outlived(namespace, NOW, 100) for namespace in NAMESPACES],
    ]


@examples(100)
@given(changes(), st.integers(0, 2**32), st.tuples(st.integers(0, 8), st.integers(0, 8)))
def test_order_does_not_matter_and_retention_leaves_what_a_fresh_fold_finds(
    records: list[MemoryChange], seed: int, firsts: tuple[int, int]
) -> None:
    async def run() -> None:
        chance = random.Random(seed)
        parts = [[one for one in records if one.partition == partition] for partition in (0, 1)]
        views = await open_sqlite_views(None, timeout=10)
        try:
            first, second, fold = views.memory("s", TOPIC), views.memory("s0", TOPIC), MemoryFold()
            position = await _fill(first, parts, chance)
            await _fill(second, parts[::-1], chance)
            await _fill(fold, parts, chance)
            for now in (NOW, NEVER_OVER):
                said = await said_by_view(first, now)
                assert as_items(said) == await said_by_fold(fold, now)
                assert said == await said_by_view(second, now)
                assert await words_of(first, now) == await words_of(second, now)
            assert await _facts(first) == await _facts(second)

            cut = {partition: min(count, len(parts[partition])) for partition, count in enumerate(firsts)}
            left = [[one for one in part if one.offset >= cut[one.partition]] for part in parts]
            fresh = views.memory("s1", TOPIC)
            await _fill(fresh, left, chance)
            try:
                assert await first.apply([], firsts=cut, expect=position, position="cut")
            except StaleCheckpointError:
                # A forget is gone: catching up folds such a view anew.
                assert any(isinstance(one, Forgotten) and one.offset < cut[one.partition] for one in records)
                await first.clear(expect=position)
                await _fill(first, left, chance)
            assert await fold.apply([], firsts=cut, expect=await fold.position(), position="cut")
            said = await said_by_view(fresh, NOW)
            assert said == await said_by_view(first, NOW)
            assert as_items(said) == await said_by_fold(fold, NOW)
            assert await words_of(first, NOW) == await words_of(fresh, NOW)
            assert await _facts(first) == await _facts(fresh)
            # A cleared one is empty, and the others are as they were.
            await first.clear(expect=await first.position())
            assert not any(await said_by_view(first, NEVER_OVER))
            assert await said_by_view(fresh, NOW) == said
        finally:
            await views.aclose()

    anyio.run(run)


@examples(60)
@given(changes(), st.sampled_from(["u1", "u10"]), st.integers(0, 2**32))
def test_what_others_remember_moves_no_score(records: list[MemoryChange], user: str, seed: int) -> None:
    """Not even between two items of one conversation."""

    async def run() -> None:
        own = [one for one in records if not isinstance(one, Remembered) or one.owner.user == user]
        asked = [owner for owner in OWNERS if owner.user == user]
        views = await open_sqlite_views(None, timeout=10)
        try:
            said = []
            for stream, kept in (("alone", own), ("among others", records)):
                view = views.memory(stream, TOPIC)
                parts = [[one for one in kept if one.partition == partition] for partition in (0, 1)]
                await _fill(view, parts, random.Random(seed))
                said.append(await words_of(view, NOW, asked))
            assert said[0] == said[1]
        finally:
            await views.aclose()

    anyio.run(run)


@pytest.fixture
async def view() -> Any:
    views = await open_sqlite_views(None, timeout=10)
    yield views.memory("s", TOPIC)
    await views.aclose()


OWNER, OTHER = MemoryOwner(NAMESPACES[0], C1), MemoryOwner(NAMESPACES[0], C2)


def _item(number: int, offset: int, body: str = "beta", **named: Any) -> Remembered:
    return Remembered(ulid_text(number), "fact", body.encode(), OWNER, offset, 0, offset, **named)


async def test_an_apply_that_comes_late_changes_nothing(view: Any) -> None:
    for place in (view, MemoryFold()):
        assert await place.apply([_item(1, 0)], firsts={}, expect=None, position="1")
        assert not await place.apply([_item(2, 1)], firsts={}, expect=None, position="2")
        await place.clear(expect="2")
        assert await place.position() == "1"


async def test_a_forgotten_value_lets_the_one_before_hold_in_every_answer(view: Any) -> None:
    """As a log that only laser-sdk forgot from says it: each value is an item of its own there."""
    fold = MemoryFold()
    records = [
        _item(1, 0, "k: old", fact=FactMark("k", "engine")),
        _item(2, 1, "k: new", fact=FactMark("k", "engine")),
        Forgotten(ulid_text(2), None, OWNER, 2, 0, 2),
    ]
    for place in (view, fold):
        for number, record in enumerate(records):
            expect = str(number - 1) if number else None
            assert await place.apply([record], firsts={}, expect=expect, position=str(number))
    assert [one.body for one in await view.facts(OWNER, "k")] == [b"k: old"]
    assert [one.item.body for one in await view.recent(OWNER, 9, NOW)] == [b"k: old"]
    assert [one.body for one in await fold.recall(OWNER, None, 9, NOW)] == [b"k: old"]


async def test_feedback_is_summed_exactly(view: Any) -> None:
    """Numbers of very different sizes, in any order."""
    weights = [1e30, 1.0, -1e30]
    for number, order in enumerate(([0, 1, 2], [1, 0, 2], [0, 2, 1])):
        fold = MemoryFold()
        item = msgspec.structs.replace(_item(number + 1, 10 * number), owner=OWNER)
        records = [item, *(Weighed(item.id, weights[at], None, OWNER, 1, 0, 10 * number + 1 + at) for at in order)]
        before = await view.position()
        assert await view.apply(records, firsts={}, expect=before, position=str(number))
        assert await fold.apply(records, firsts={}, expect=None, position="1")
        assert (await view.get(OWNER, item.id, NOW)).weight == 1.0
        assert [one.weight for one in await fold.recall(OWNER, None, 9, NOW)] == [1.0]


async def test_what_retention_takes_counts_no_more(view: Any) -> None:
    """Feedback, the copy that was first, and a fact's newest value on another partition."""
    copy = msgspec.structs.replace(_item(1, 0), at_micros=9, partition=1, owner=OTHER)
    old = msgspec.structs.replace(_item(2, 1, "k: old", fact=FactMark("k", "engine")), at_micros=10, partition=1)
    liked = msgspec.structs.replace(_item(4, 2, "liked"), at_micros=11, partition=1)
    new = msgspec.structs.replace(_item(3, 2, "k: new", fact=FactMark("k", "engine")), at_micros=20)
    records = [_item(1, 0), Weighed(liked.id, 2.0, None, OWNER, 1, 0, 1), new, copy, old, liked]
    fold, everybody = MemoryFold(), MemoryOwner(NAMESPACES[0])
    for number, expected in enumerate(
        (
            [(b"k: new", C1, None), (b"liked", C1, 2.0), (b"beta", C1, None)],
            [(b"liked", C1, None), (b"k: old", C1, None), (b"beta", C2, None)],
        )
    ):
        for place in (view, fold):
            position = await place.position()
            assert await place.apply(
                [] if number else records, firsts={0: 3 * number}, expect=position, position=f"{number}"
            )
        found = await view.recent(everybody, 9, NOW)
        assert [(one.item.body, one.item.owner.conversation, one.weight) for one in found] == expected
        items = await fold.recall(everybody, None, 9, NOW, by_feedback=False)
        assert [(one.body, one.conversation, one.weight) for one in items] == expected


async def test_forgets_that_are_gone(view: Any) -> None:
    """Only what they hid elsewhere can come back, and only then all is folded anew."""
    elsewhere = msgspec.structs.replace(_item(5, 0), partition=1)
    summary = msgspec.structs.replace(_item(6, 1, sources=(ulid_text(4),)), partition=1)
    records = [
        _item(1, 0),
        Forgotten(ulid_text(1), None, OWNER, 1, 0, 1),
        Forgotten(ulid_text(2), None, OWNER, 1, 0, 2),
        Forgotten(ulid_text(4), None, OWNER, 1, 0, 3, pruned=True),
        Forgotten(elsewhere.id, C1, OWNER, 1, 0, 4),
        Forgotten(ulid_text(4), None, OWNER, 1, 0, 5),
        elsewhere,
        summary,
    ]
    assert await view.apply(records, firsts={}, expect=None, position="1")
    assert await view.recent(OWNER, 9, NOW) == []
    assert await view.apply([], firsts={0: 4}, expect="1", position="2")
    with pytest.raises(StaleCheckpointError):
        await view.apply([], firsts={0: 5}, expect="2", position="3")
    await view.clear(expect="2")
    assert await view.apply([records[5], elsewhere, summary], firsts={0: 5}, expect=None, position="3")
    assert [one.item.id for one in await view.recent(OWNER, 9, NOW)] == [elsewhere.id]
    with pytest.raises(StaleCheckpointError):
        await view.apply([], firsts={0: 6}, expect="3", position="4")
    # An item that comes after its forget stays longer than that.
    await view.clear(expect="3")
    later = [Forgotten(ulid_text(1), None, OWNER, 1, 0, 6), _item(1, 7)]
    assert await view.apply(later, firsts={}, expect=None, position="5")
    with pytest.raises(StaleCheckpointError):
        await view.apply([], firsts={0: 7}, expect="5", position="6")


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("summary_first", [True, False])
async def test_pruning_leaves_the_summary(view: Any, summary_first: bool, at_once: bool) -> None:
    """It holds what the pruned messages said, whichever partition is read first."""
    pruned = [_item(1, 0), Forgotten(ulid_text(1), None, OWNER, 1, 0, 1, pruned=True)]
    summary = [msgspec.structs.replace(_item(2, 0, sources=(ulid_text(1),)), partition=1)]
    parts = [summary, pruned] if summary_first else [pruned, summary]
    expect = None
    for number, records in enumerate([parts[0] + parts[1]] if at_once else parts):
        assert await view.apply(records, firsts={}, expect=expect, position=str(number))
        expect = str(number)
    assert [one.item.id for one in await view.recent(OWNER, 9, NOW)] == [summary[0].id]


async def test_names_are_gone_with_what_they_named(view: Any) -> None:
    owner = msgspec.structs.replace(OWNER, user="canary-user")
    record = msgspec.structs.replace(_item(1, 0), owner=owner)
    assert await view.apply([record], firsts={}, expect=None, position="1")
    await view.clear(expect="1")
    names = await view._database.read(lambda connection: connection.execute("SELECT name FROM memory_names").fetchall())
    assert not [name for (name,) in names if "canary" in name or C1 in name or C2 in name]
