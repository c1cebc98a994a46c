"""Random operations, compared with a model in plain sets."""

from __future__ import annotations

import random
from typing import Final

import pytest

from laser.errors import NotFoundError
from laser.testing.catalog_cases.base import CatalogCases, Place

__all__ = ["ModelCases"]

_DATA: Final = tuple(b"content %d" % number for number in range(9))
_HOLDERS: Final = ("a", "a/1", "a/2", "b")


class ModelCases(CatalogCases):
    """The catalog does what sets do."""

    @pytest.mark.parametrize("seed", range(3))
    async def test_random_operations(self, seed: int) -> None:
        rng = random.Random(f"catalog-{seed}")
        async with self.two_places() as places:
            model = Model()
            for _ in range(self.rounds):
                await model.step(rng, rng.choice(places))
            await model.compare(places[0])


class Model:
    """What must be there."""

    def __init__(self) -> None:
        self.children: dict[bytes, set[bytes]] = {}
        self.holds: dict[str, set[bytes]] = {}

    async def step(self, rng: random.Random, place: Place) -> None:
        """Does one operation on both."""
        data, holder = rng.choice(_DATA), rng.choice(_HOLDERS)
        kind = rng.choice(["put", "put", "put", "name", "hold", "hold", "release", "release all", "below", "collect"])
        if kind in ("put", "name"):
            # Contents name those of higher numbers only: a naming in a circle would never end.
            below = _DATA[_DATA.index(data) + 1 :]
            named = rng.sample(below, min(2, len(below))) if kind == "name" else []
            await self.change(
                place.put(data, *named), named, lambda: self.children.setdefault(data, set()).update(named)
            )
        elif kind == "hold":
            chosen = rng.sample(_DATA, 2)
            await self.change(
                place.hold(holder, *chosen), chosen, lambda: self.holds.setdefault(holder, set()).update(chosen)
            )
        elif kind == "release":
            assert await place.release(holder, data) == (data in self.holds.get(holder, set()))
            self.holds.get(holder, set()).discard(data)
        elif kind == "release all":
            assert await place.release(holder) == len(self.holds.pop(holder, ()))
        elif kind == "below":
            mine = [name for name in self.holds if name.startswith("a/")]
            assert await place.catalog.release_below(place.tenant, "a/", 100) == sum(
                len(self.holds.pop(name)) for name in mine
            )
        else:
            await self.collect(place)

    async def change(self, call: object, needed: list[bytes], then: object) -> None:
        """A call that is refused where something it needs is absent."""
        if all(data in self.children for data in needed):
            await call  # type: ignore[misc]
            then()  # type: ignore[operator]
        else:
            with pytest.raises(NotFoundError):
                await call  # type: ignore[misc]

    async def collect(self, place: Place) -> None:
        """Everything that nothing keeps goes, in as many passes as it takes."""
        while await place.collect(limit=3):
            continue
        kept: set[bytes] = set()
        waiting = [data for held in self.holds.values() for data in held]
        while waiting:
            data = waiting.pop()
            if data not in kept:
                kept.add(data)
                waiting += self.children[data]
        self.children = {data: named for data, named in self.children.items() if data in kept}

    async def compare(self, place: Place) -> None:
        """Makes sure that both are the same."""
        for data in _DATA:
            assert await place.has(data) == (data in self.children)
            if data in self.children:
                holders = sum(data in held for held in self.holds.values())
                parents = sum(data in named for named in self.children.values())
                assert await place.counts(data) == (holders, parents, len(self.children[data]))
