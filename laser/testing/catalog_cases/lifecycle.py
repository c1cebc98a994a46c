"""Opening and closing."""

from __future__ import annotations

import pytest

from laser.errors import ClosedError
from laser.testing.catalog_cases.base import CatalogCases, digest_of

__all__ = ["LifecycleCases"]


class LifecycleCases(CatalogCases):
    """A catalog's life."""

    async def test_contents_outlive_the_client(self) -> None:
        if not self.shares_data:
            pytest.skip("the catalog's data go with it")
        async with self.place() as place:
            await place.put(b"a")
            _, key = await place.put_object(b"large")
            await place.hold("holder", b"a")
        async with self.open_catalog() as catalog:
            place.catalog = catalog
            assert await place.has(b"a")
            found = await place.get(b"large")
            assert found is not None
            assert found.key == key
            assert await catalog.held(place.tenant, "holder") == [digest_of(b"a")]

    async def test_a_closed_catalog_says_so(self) -> None:
        async with self.place() as place:
            catalog = place.catalog
            await catalog.aclose()
            await catalog.aclose()
            for call in (
                lambda: place.put(b"a"),
                lambda: place.get(b"a"),
                lambda: place.hold("holder", b"a"),
                lambda: place.release("holder"),
            ):
                with pytest.raises(ClosedError):
                    await call()
