"""Holders and children."""

from __future__ import annotations

import pytest

from laser.errors import NotFoundError
from laser.testing.catalog_cases.base import CatalogCases, digest_of

__all__ = ["HoldingCases"]

_HARD_NAMES = ("a", "a/", "a/b", "a%", "a_", "ab", "é", "😀", "'", "x" * 2_048)


class HoldingCases(CatalogCases):
    """Who keeps what."""

    async def test_a_holder_holds_until_it_lets_go(self) -> None:
        async with self.two_places() as (one, two):
            await one.put(b"a")
            await one.put(b"b")
            await one.hold("holder", b"a", b"b")
            await two.hold("holder", b"a")
            await two.hold("another", b"a")
            assert await one.counts(b"a") == (2, 0, 0)
            assert await one.catalog.held(one.tenant, "holder") == sorted([digest_of(b"a"), digest_of(b"b")])
            assert await two.release("holder", b"a", b"a", b"c") == 1
            assert await one.release("holder") == 1
            assert await one.release("holder") == 0
            assert await one.collect() == 1
            assert await one.has(b"a")

    async def test_what_is_held_comes_in_pages(self) -> None:
        async with self.place() as place:
            data = [b"%d" % number for number in range(7)]
            for each in data:
                await place.put(each)
            await place.hold("holder", *data)
            found: list[str] = []
            while page := await place.catalog.held(place.tenant, "holder", after=found[-1] if found else None, limit=3):
                assert len(page) <= 3
                found += page
            assert found == sorted(map(digest_of, data))

    async def test_nothing_is_held_that_is_not_there(self) -> None:
        async with self.place() as place:
            await place.put(b"a")
            with pytest.raises(NotFoundError):
                await place.hold("holder", b"a", b"absent")
            assert await place.catalog.held(place.tenant, "holder") == []
            assert await place.collect() == 1

    async def test_hard_names_are_kept_apart(self) -> None:
        async with self.place() as place:
            for name in _HARD_NAMES:
                await place.put(name.encode())
                await place.hold(name, name.encode())
            for name in _HARD_NAMES:
                assert await place.catalog.held(place.tenant, name) == [digest_of(name.encode())]
            assert await place.release("a%") == 1
            assert await place.catalog.held(place.tenant, "ab") != []

    async def test_holders_below_a_prefix_let_go(self) -> None:
        async with self.place() as place:
            await place.put(b"a")
            await place.put(b"b")
            for name in ("p/1", "p/2", "p/é", "p", "pa", "p0", "q/1"):
                await place.hold(name, b"a", b"b")
            gone = []
            while (count := await place.catalog.release_below(place.tenant, "p/", 4)) == 4:
                gone.append(count)
            assert sum(gone) + count == 6
            left = [await place.catalog.held(place.tenant, name) for name in ("p/1", "p/2", "p/é")]
            assert left == [[], [], []]
            assert await place.counts(b"a") == (4, 0, 0)

    async def test_a_parent_keeps_its_children(self) -> None:
        async with self.place() as place:
            for data in (b"leaf", b"shared", b"other"):
                await place.put(data)
            await place.put(b"branch", b"leaf", b"shared")
            await place.put(b"root", b"branch", b"shared", b"shared")
            assert await place.counts(b"shared") == (0, 2, 0)
            assert await place.counts(b"branch") == (0, 1, 2)
            await place.hold("holder", b"root")
            assert await place.collect() == 1
            assert not await place.has(b"other")
            await place.release("holder")
            # Parents go first, and free their children for a later pass.
            removed = []
            while count := await place.collect():
                removed.append(count)
            assert sum(removed) == 4
            assert len(removed) <= 3

    async def test_children_can_be_added_later(self) -> None:
        async with self.place() as place:
            await place.put(b"child")
            await place.put(b"parent")
            await place.put(b"parent", b"child")
            await place.put(b"parent")
            assert await place.counts(b"parent") == (0, 0, 1)
            await place.hold("holder", b"parent")
            assert await place.collect() == 0

    async def test_a_content_is_not_its_own_child(self) -> None:
        async with self.place() as place:
            with pytest.raises(NotFoundError):
                await place.put(b"self", b"self")
            await place.put(b"self")
            await place.put(b"self", b"self")
            assert await place.collect() == 1

    async def test_nothing_is_entered_whose_child_is_absent(self) -> None:
        async with self.place() as place:
            await place.put(b"child")
            with pytest.raises(NotFoundError):
                await place.put(b"parent", b"child", b"absent")
            assert not await place.has(b"parent")
            assert await place.counts(b"child") == (0, 0, 0)
