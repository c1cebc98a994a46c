"""Places of holders: listed, changed, and ended only as long as they are what they were."""

from __future__ import annotations

import msgspec

from laser.limits import MAX_PLACE_BYTES
from laser.testing.catalog_cases.base import HOUR, CatalogCases, Place, digest_of

__all__ = ["PlacingCases"]

_NOW = 1_700_000_000_000_000
_HARD_NAMES = ("a", "a/", "a/b", "a%", "aa", "b", "é", "😀", "'", "x" * 2_048)


class PlacingCases(CatalogCases):
    """Holds that say where their holder is."""

    async def test_places_are_listed_in_order(self) -> None:
        async with self.two_places() as (one, two):
            await one.put(b"1")
            await one.put(b"2")
            for name in _HARD_NAMES:
                await one.hold(name, b"1", b"2", place=f"of {name}")
            await one.hold("nowhere", b"1")
            for limit in (500, 20, 3):
                found = await two.placed(limit=limit)
                assert [hold.holder for hold in found[::2]] == sorted(_HARD_NAMES, key=str.encode), limit
                assert [hold.holder for hold in found[1::2]] == [hold.holder for hold in found[::2]]
                assert len(found) == 2 * len(_HARD_NAMES)
                for hold in found:
                    assert (hold.tenant, hold.place) == (one.tenant, f"of {hold.holder}")
                for first, second in zip(found[::2], found[1::2], strict=True):
                    assert first.content < second.content
                    assert {first.digest, second.digest} == {digest_of(b"1"), digest_of(b"2")}

    async def test_the_newest_place_counts(self) -> None:
        async with self.place() as place:
            await place.put(b"a")
            await place.put(b"b")
            await place.hold("holder", b"a")
            assert await place.placed() == []
            longest = "é" * (MAX_PLACE_BYTES // 2)
            for text in ("first", "", longest):
                await place.hold("holder", b"a", place=text)
                await place.hold("holder", b"a", b"b")
                assert [(hold.digest, hold.place) for hold in await place.placed()] == [(digest_of(b"a"), text)]
            assert await place.counts(b"a") == (1, 0, 0)
            assert await place.release("holder", b"a") == 1
            assert await place.placed() == []
            await place.hold("holder", b"a")
            assert await place.placed() == [], "a place goes with its hold"

    async def test_how_old_a_hold_can_be(self) -> None:
        self.set_clock(_NOW)
        async with self.place() as place:
            await place.put(b"a")
            await place.hold("holder", b"a", place="there")
            self.set_clock(_NOW + HOUR)
            assert [hold.age_micros for hold in await place.placed()] == [HOUR]
            await place.put(b"a")
            assert [hold.age_micros for hold in await place.placed()] == [0]
            self.set_clock(_NOW)
            assert [hold.age_micros for hold in await place.placed()] == [0]

    async def test_an_unchanged_hold_is_settled(self) -> None:
        async with self.two_places() as (one, two):
            await one.put(b"a")
            await one.put(b"b")
            await one.hold("ends", b"a", b"b", place="old")
            await one.hold("moves", b"a", place="old")
            first, second, third = await two.placed()
            assert await two.catalog.settle([(first, None), (third, "new")]) == 2
            left = [(hold.holder, hold.place) for hold in await one.placed()]
            assert left == [("ends", "old"), ("moves", "new")]
            held = await one.catalog.held(one.tenant, "ends")
            assert held == [second.digest]
            assert await two.catalog.settle([(first, None), (third, None), (third, "other")]) == 0
            assert await two.catalog.settle([]) == 0
            assert [hold.place for hold in await one.placed()] == ["old", "new"]

    async def test_a_hold_that_was_changed_stays(self) -> None:
        async with self.two_places() as (one, two):
            await one.put(b"a")
            for name in ("again", "gone", "bare"):
                await one.hold(name, b"a", place="old")
            again, bare, gone = await two.placed()
            await one.hold("again", b"a", place="new")
            await one.release("gone")
            await one.hold("bare", b"a")
            assert await two.catalog.settle([(again, None), (again, "x"), (gone, None), (gone, "x")]) == 0
            assert [(hold.holder, hold.place) for hold in await one.placed()] == [("again", "new"), ("bare", "old")]
            assert await two.catalog.settle([(bare, None)]) == 1
            assert await one.counts(b"a") == (1, 0, 0)

    async def test_places_of_tenants_are_apart(self) -> None:
        async with self.place() as place:
            other = Place(place.catalog, place.tenant + "x")
            for each in (place, other):
                await each.put(b"a")
                await each.hold("holder", b"a", place=each.tenant)
            (mine,) = await place.placed()
            (theirs,) = await other.placed()
            assert (mine.place, theirs.place) == (place.tenant, other.tenant)
            everybody = await place.catalog.placed(tenant=None, after=None, limit=100_000)
            names = [(hold.tenant.encode(), hold.holder.encode(), hold.content) for hold in everybody]
            assert names == sorted(names)
            assert {place.tenant, other.tenant} <= {hold.tenant for hold in everybody}
            forged = msgspec.structs.replace(mine, tenant=other.tenant)
            assert await place.catalog.settle([(forged, None)]) == 0
            assert await place.catalog.settle([(mine, None)]) == 1
            assert await place.placed() == []
            assert await other.counts(b"a") == (1, 0, 0)
