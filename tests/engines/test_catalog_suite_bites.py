"""The conformance suites of catalogs and object stores find planted bugs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from anyio.lowlevel import checkpoint

from laser.engines.memory import MemoryCatalog, MemoryObjects
from laser.errors import ConflictError, LaserError, NotFoundError
from laser.ports.catalog import Blob, Catalog, CollectedPage, Hold, NewBlob
from laser.ports.clock import Clock
from laser.ports.objects import Objects
from laser.testing import CatalogConformance, ObjectsConformance
from laser.testing.clock import SetClock
from tests.engines.test_kv_suite_bites import _parts

pytestmark = pytest.mark.anyio


class _Right(MemoryCatalog):
    def _remove(self, row: Any) -> None:
        # What a planted bug has removed already is no reason to fail.
        row.children &= self._rows.keys()
        super()._remove(row)


class _JoinsTenants(_Right):
    async def get(self, tenant: str, digest: str) -> Blob | None:
        found = [row.blob for (_, name), row in self._by_digest.items() if name == digest]
        return found[0] if found else await super().get(tenant, digest)


class _HoldsAcrossTenants(_Right):
    async def hold(self, tenant: str, holder: str, digests: Sequence[str], *, place: str | None = None) -> None:
        owners = {owner for owner, digest in self._by_digest if digest in digests}
        await super().hold(tenant if tenant in owners or not owners else owners.pop(), holder, digests, place=place)


class _HoldsWhatItFinds(_Right):
    async def hold(self, tenant: str, holder: str, digests: Sequence[str], *, place: str | None = None) -> None:
        there = [digest for digest in digests if (tenant, digest) in self._by_digest]
        await super().hold(tenant, holder, there, place=place)
        if len(there) < len(set(digests)):
            raise NotFoundError("some are absent")


class _ForgetsTheHolders(_Right):
    async def collect(self, **settings: object) -> CollectedPage:
        for row in self._rows.values():
            row.holders.clear()
        return await super().collect(**settings)  # type: ignore[arg-type]


class _ForgetsTheParents(_Right):
    async def collect(self, **settings: object) -> CollectedPage:
        for row in self._rows.values():
            row.parents.clear()
        return await super().collect(**settings)  # type: ignore[arg-type]


class _KeepsTheChildrenOfTheDead(_Right):
    def _remove(self, row: Any) -> None:
        row.children.clear()
        super()._remove(row)


class _LooksTwice(_Right):
    """Somebody may hold a content between the look at it and its removal."""

    async def collect(self, **settings: object) -> CollectedPage:
        seen = await super().collect(**{**settings, "lease": None})  # type: ignore[arg-type]
        doomed = [row for row in self._rows.values() if not row.holders and not row.parents]
        await checkpoint()
        await checkpoint()
        for row in doomed:
            if row.id in self._rows:
                self._remove(row)
        return seen


class _ReadingAdmits(_Right):
    async def get(self, tenant: str, digest: str) -> Blob | None:
        await self.admit(tenant, digest)
        return await super().get(tenant, digest)


class _HoldingDoesNotAdmit(_Right):
    async def hold(self, tenant: str, holder: str, digests: Sequence[str], *, place: str | None = None) -> None:
        rows = {digest: self._by_digest.get((tenant, digest)) for digest in digests}
        before = {digest: row.blob for digest, row in rows.items() if row is not None}
        await super().hold(tenant, holder, digests, place=place)
        for digest, blob in before.items():
            self._by_digest[tenant, digest].blob = blob


class _FollowsTheClockBack(_Right):
    def _admit(self, *rows: Any) -> None:
        super()._admit(*rows)
        for row in rows:
            row.blob = msgspec.structs.replace(row.blob, admitted_at_micros=self._clock.now_micros())


class _TakesTheNewKey(_Right):
    async def put(self, tenant: str, new: NewBlob, children: Sequence[str] = ()) -> Blob:
        if (tenant, new.digest) in self._by_digest and new.key is not None:
            self._remove(self._by_digest[tenant, new.digest])
        return await super().put(tenant, new, children)


class _ForgetsTheOldObject(_Right):
    def _remove(self, row: Any) -> None:
        super()._remove(row)
        self._loose.clear()


class _LetsTheLateUpload(_Right):
    async def put(self, tenant: str, new: NewBlob, children: Sequence[str] = ()) -> Blob:
        if new.key is not None:
            self._loose[new.key] = 0, True
        return await super().put(tenant, new, children)


class _GivesTheLeaseToAll(_Right):
    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        await super().lease(name, owner, seconds)
        return seconds > 0


class _CollectsForAnybody(_Right):
    async def collect(self, **settings: object) -> CollectedPage:
        await self.lease("own", "own", 60)
        return await super().collect(**{**settings, "lease": settings["lease"] and ("own", "own")})  # type: ignore[arg-type]


class _TakesPatterns(_Right):
    async def release_below(self, tenant: str, prefix: str, limit: int) -> int:
        return await super().release_below(tenant, prefix.rstrip("/"), limit)


class _SettlesWhatWasChanged(_Right):
    async def settle(self, changes: Sequence[tuple[Hold, str | None]]) -> int:
        now = {(hold.holder, hold.digest): hold.place for hold in await self.placed(tenant=None, limit=1_000)}
        return await super().settle(
            [
                (msgspec.structs.replace(hold, place=now.get((hold.holder, hold.digest), hold.place)), to)
                for hold, to in changes
            ]
        )


class _SettlesForAllTenants(_Right):
    async def settle(self, changes: Sequence[tuple[Hold, str | None]]) -> int:
        everybody = await self.placed(tenant=None, limit=1_000)
        return await super().settle(
            [(each, to) for hold, to in changes for each in everybody if each.digest == hold.digest]
        )


class _KeepsThePlaceOfTheReleased(_Right):
    def _release(self, tenant: str, holder: str, digests: Sequence[str] | None) -> int:
        places = dict(self._places)
        gone = super()._release(tenant, holder, digests)
        self._places = {name: place for name, place in places.items() if name[0:2] == (tenant, holder)}
        return gone


class _KeepsTheFirstPlace(_Right):
    async def hold(self, tenant: str, holder: str, digests: Sequence[str], *, place: str | None = None) -> None:
        there = any((tenant, holder, digest) in self._places for digest in digests)
        await super().hold(tenant, holder, digests, place=None if there else place)


class _SaysThatHoldsAreOld(_Right):
    async def placed(self, *, tenant: str | None, after: Hold | None = None, limit: int = 500) -> list[Hold]:
        found = await super().placed(tenant=tenant, after=after, limit=limit)
        return [msgspec.structs.replace(hold, age_micros=hold.age_micros + 1) for hold in found]


class _ListsInAnyOrder(_Right):
    async def placed(self, *, tenant: str | None, after: Hold | None = None, limit: int = 500) -> list[Hold]:
        return (await super().placed(tenant=tenant, after=after, limit=limit))[::-1]


class _EntersHalf(_Right):
    async def put(self, tenant: str, new: NewBlob, children: Sequence[str] = ()) -> Blob:
        await super().put(tenant, new)
        return await super().put(tenant, new, children)


BUGS = [
    (_JoinsTenants, "test_tenants_are_apart"),
    (_HoldsAcrossTenants, "test_tenants_are_apart"),
    (_HoldsWhatItFinds, "test_nothing_is_held_that_is_not_there"),
    (_ForgetsTheHolders, "test_a_holder_holds_until_it_lets_go"),
    (_ForgetsTheParents, "test_a_parent_keeps_its_children"),
    (_KeepsTheChildrenOfTheDead, "test_a_parent_keeps_its_children"),
    (_LooksTwice, "test_a_hold_or_a_collection_comes_first"),
    (_LooksTwice, "test_a_naming_or_a_collection_comes_first"),
    (_ReadingAdmits, "test_reading_renews_nothing"),
    (_HoldingDoesNotAdmit, "test_what_renews_the_grace"),
    (_FollowsTheClockBack, "test_a_clock_that_steps_back_takes_no_grace_away"),
    (_TakesTheNewKey, "test_a_second_object_is_not_used"),
    (_ForgetsTheOldObject, "test_a_removed_object_becomes_loose"),
    (_LetsTheLateUpload, "test_an_upload_that_took_too_long"),
    (_GivesTheLeaseToAll, "test_one_has_the_lease"),
    (_CollectsForAnybody, "test_nothing_is_removed_without_the_lease"),
    (_TakesPatterns, "test_holders_below_a_prefix_let_go"),
    (_SettlesWhatWasChanged, "test_a_hold_that_was_changed_stays"),
    (_SettlesForAllTenants, "test_places_of_tenants_are_apart"),
    (_KeepsThePlaceOfTheReleased, "test_the_newest_place_counts"),
    (_KeepsTheFirstPlace, "test_the_newest_place_counts"),
    (_SaysThatHoldsAreOld, "test_how_old_a_hold_can_be"),
    (_ListsInAnyOrder, "test_places_are_listed_in_order"),
    (_EntersHalf, "test_nothing_is_entered_whose_child_is_absent"),
]

FOUND = (AssertionError, LaserError, pytest.fail.Exception)
"""How a case says that a promise was broken."""


class _Suite(CatalogConformance):
    shares_data = False

    def __init__(self, kind: type[_Right]) -> None:
        self.kind = kind
        self.clock: SetClock | None = None

    def set_clock(self, micros: int) -> None:
        if self.clock is None:
            self.clock = SetClock(micros)
        self.clock.micros = micros

    @asynccontextmanager
    async def open_catalog(self) -> AsyncIterator[Catalog]:
        clock: Clock | None = self.clock
        catalog = self.kind(clock=clock)
        try:
            yield catalog
        finally:
            await catalog.aclose()


@pytest.mark.parametrize(("bug", "case"), BUGS, ids=[f"{bug.__name__[1:]}-{case[5:]}" for bug, case in BUGS])
async def test_a_planted_bug_is_found(bug: type[_Right], case: str) -> None:
    arguments = {"renewal": "hold"} if case == "test_what_renews_the_grace" else {}
    await getattr(_Suite(_Right), case)(**arguments)
    with pytest.raises(BaseException) as caught:
        await getattr(_Suite(bug), case)(**arguments)
    assert any(isinstance(error, FOUND) for error in _parts(caught.value)), "it failed, but not for the bug"


class _PublishesAtOnce(MemoryObjects):
    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        self._objects[key] = b""
        await super().put(key, chunks)


class _EndsQuietly(MemoryObjects):
    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        async def whatever_comes() -> AsyncIterator[bytes]:
            try:
                async for chunk in chunks:
                    yield chunk
            except ValueError:
                return

        await super().put(key, whatever_comes())


class _TakesAnyName(MemoryObjects):
    async def get(self, key: str, start: int, stop: int) -> bytes:
        return self._objects.get(key, b"")[start:stop]


class _StopIsInclusive(MemoryObjects):
    async def get(self, key: str, start: int, stop: int) -> bytes:
        return await super().get(key, start, stop + 1)


class _Objects(ObjectsConformance):
    shares_data = False
    large = 3_000_000

    def __init__(self, kind: type[MemoryObjects]) -> None:
        self.kind = kind

    @asynccontextmanager
    async def open_objects(self) -> AsyncIterator[Objects]:
        store = self.kind()
        try:
            yield store
        finally:
            await store.aclose()


@pytest.mark.parametrize(
    ("bug", "case", "arguments"),
    [
        (_PublishesAtOnce, "test_an_interrupted_put_leaves_nothing", {"before": 1}),
        (_PublishesAtOnce, "test_a_cancelled_put_leaves_nothing", {"before": 1}),
        (_EndsQuietly, "test_an_interrupted_put_leaves_nothing", {"before": 1}),
        (_TakesAnyName, "test_other_names_are_refused", {"key": "../../etc/passwd"}),
        (_TakesAnyName, "test_an_absent_object", {}),
        (_StopIsInclusive, "test_ranges", {}),
    ],
)
async def test_a_planted_bug_of_objects_is_found(
    bug: type[MemoryObjects], case: str, arguments: dict[str, object]
) -> None:
    await getattr(_Objects(MemoryObjects), case)(**arguments)
    with pytest.raises(BaseException) as caught:
        await getattr(_Objects(bug), case)(**arguments)
    assert any(isinstance(error, (*FOUND, ConflictError)) for error in _parts(caught.value))
