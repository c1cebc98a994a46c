"""Collection: the grace, pages, leases, loose keys, and other calls at the same time."""

from __future__ import annotations

from uuid import uuid4

import anyio
import pytest
from anyio.lowlevel import checkpoint

from laser.errors import ConflictError, NotFoundError
from laser.testing.catalog_cases.base import HOUR, CatalogCases, Place, digest_of

__all__ = ["CollectingCases"]

_NOW = 1_700_000_000_000_000


class CollectingCases(CatalogCases):
    """What goes, when, and through whom."""

    async def test_what_nothing_keeps_goes_after_the_grace(self) -> None:
        async with self.place() as place:
            await place.put(b"young")
            assert await place.collect(HOUR) == 0
            assert await place.has(b"young")
            assert await place.collect(0) == 1
            assert not await place.has(b"young")

    async def test_the_grace_to_the_microsecond(self) -> None:
        self.set_clock(_NOW)
        async with self.place() as place:
            await place.put(b"a")
            self.set_clock(_NOW + HOUR - 1)
            assert await place.collect(HOUR) == 0
            self.set_clock(_NOW + HOUR)
            assert await place.collect(HOUR) == 1

    @pytest.mark.parametrize("renewal", ["put", "admit", "hold", "child"])
    async def test_what_renews_the_grace(self, renewal: str) -> None:
        self.set_clock(_NOW)
        async with self.place() as place:
            await place.put(b"a")
            self.set_clock(_NOW + HOUR // 2)
            if renewal == "put":
                await place.put(b"a")
            elif renewal == "admit":
                assert await place.catalog.admit(place.tenant, digest_of(b"a")) is not None
            elif renewal == "hold":
                await place.hold("holder", b"a")
                await place.release("holder")
            else:
                await place.put(b"parent", b"a")
            self.set_clock(_NOW + HOUR)
            assert await place.collect(HOUR) == 0
            head = await place.catalog.head(place.tenant, digest_of(b"a"))
            assert head is not None
            assert head.admitted_at_micros == _NOW + HOUR // 2

    async def test_reading_renews_nothing(self) -> None:
        self.set_clock(_NOW)
        async with self.place() as place:
            await place.put(b"a")
            self.set_clock(_NOW + HOUR)
            await place.get(b"a")
            await place.catalog.head(place.tenant, digest_of(b"a"))
            assert await place.collect(HOUR) == 1

    async def test_a_clock_that_steps_back_takes_no_grace_away(self) -> None:
        self.set_clock(_NOW)
        async with self.place() as place:
            await place.put(b"a")
            self.set_clock(_NOW - HOUR)
            await place.put(b"a")
            self.set_clock(_NOW)
            assert await place.collect(1) == 0

    async def test_pages_see_everything_once(self) -> None:
        async with self.place() as place:
            for number in range(11):
                await place.put(b"%d" % number)
            await place.hold("holder", b"3", b"7")
            dry = await place.pages(limit=3, dry=True)
            assert [sum(page.scanned for page in dry), sum(page.removed for page in dry)] == [11, 9]
            assert sum(page.size for page in dry) == 10
            pages = await place.pages(limit=3)
            assert [sum(page.scanned for page in pages), sum(page.removed for page in pages)] == [11, 9]
            assert await place.has(b"7")

    async def test_a_removed_object_becomes_loose(self) -> None:
        async with self.place() as place:
            _, key = await place.put_object(b"large")
            assert await place.collect() == 1
            assert key in await place.loose()
            again, fresh = await place.put_object(b"large")
            assert again.key == fresh != key
            assert fresh not in await place.loose()
            await place.catalog.forget([key])
            assert key not in await place.loose(0)

    async def test_one_has_the_lease(self) -> None:
        async with self.two_places() as (one, two):
            name = f"lease-{uuid4().hex}"
            assert await one.catalog.lease(name, "one", 60)
            assert await one.catalog.lease(name, "one", 60)
            assert not await two.catalog.lease(name, "two", 60)
            assert not await two.catalog.lease(name, "two", 0)
            assert await one.catalog.lease(name, "one", 60)
            assert not await one.catalog.lease(name, "one", 0)
            assert await two.catalog.lease(name, "two", 60)

    async def test_a_lease_ends_by_itself(self) -> None:
        async with self.two_places() as (one, two):
            name = f"lease-{uuid4().hex}"
            assert await one.catalog.lease(name, "one", 0.05)
            with anyio.fail_after(60):
                while not await two.catalog.lease(name, "two", 60):  # noqa: ASYNC110 - it tells nobody when it ends
                    await anyio.sleep(0.01)
            assert not await one.catalog.lease(name, "one", 60)

    async def test_nothing_is_removed_without_the_lease(self) -> None:
        async with self.place() as place:
            await place.put(b"a")
            name = f"lease-{uuid4().hex}"
            for owner in ("nobody", "two"):
                with pytest.raises(ConflictError):
                    await place.catalog.collect(lease=(name, owner), grace_micros=0, tenant=place.tenant)
                await place.catalog.lease(name, "one", 60)
            assert await place.has(b"a")

    async def test_a_hold_or_a_collection_comes_first(self) -> None:
        """Either the hold is refused, or what it holds stays."""
        async with self.two_places() as (one, two):
            for turn in range(self.rounds):
                data = [b"%d-%d" % (turn, number) for number in range(4)]
                for each in data:
                    await one.put(each)
                outcomes: list[bool] = []

                async def hold(place: Place, data: list[bytes], outcomes: list[bool], later: int) -> None:
                    for _ in range(later):
                        await checkpoint()
                    try:
                        await place.hold("holder", *data)
                    except NotFoundError:
                        outcomes.append(False)
                    else:
                        outcomes.append(True)

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(hold, two, data, outcomes, turn % 6)
                    tasks.start_soon(one.collect)
                there = [await one.has(each) for each in data]
                assert all(there) or outcomes == [False], turn
                await one.release("holder")

    async def test_a_naming_or_a_collection_comes_first(self) -> None:
        """Either the parent is refused, or its child stays."""
        async with self.two_places() as (one, two):
            for turn in range(self.rounds):
                child, parent = b"child %d" % turn, b"parent %d" % turn
                await one.put(child)

                async def name(place: Place, parent: bytes, child: bytes, later: int) -> None:
                    for _ in range(later):
                        await checkpoint()
                    try:
                        await place.put(parent, child)
                    except NotFoundError:
                        return

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(name, two, parent, child, turn % 6)
                    tasks.start_soon(one.collect)
                if await one.has(parent):
                    assert await one.has(child), turn
