"""Entering contents, finding them, and keeping tenants apart."""

from __future__ import annotations

from uuid import uuid4

import anyio
import pytest

from laser.errors import ConflictError, NotFoundError
from laser.limits import MAX_INLINE_BYTES
from laser.ports.catalog import NewBlob
from laser.testing.catalog_cases.base import HOUR, CatalogCases, Place, digest_of, inline, new_key

__all__ = ["ContentCases"]


class ContentCases(CatalogCases):
    """One content at a time."""

    @pytest.mark.parametrize("data", [b"", b"\0", bytes(range(256)), b"'", b"x" * MAX_INLINE_BYTES], ids=len)
    async def test_what_was_put_is_there(self, data: bytes) -> None:
        async with self.two_places() as (one, two):
            entered = await one.put(data)
            assert (entered.digest, entered.size, entered.key) == (digest_of(data), len(data), None)
            found = await two.get(data)
            assert found is not None
            same = found.data == data
            assert same
            assert found.admitted_at_micros == entered.admitted_at_micros

    async def test_what_was_never_put_is_absent(self) -> None:
        async with self.place() as place:
            digest = digest_of(b"nothing")
            assert await place.get(b"nothing") is None
            assert await place.catalog.head(place.tenant, digest) is None
            assert await place.catalog.admit(place.tenant, digest) is None

    async def test_equal_bytes_are_one_content(self) -> None:
        async with self.two_places() as (one, two):
            await one.put(b"same")
            await two.put(b"same")
            (page,) = await one.pages(HOUR)
            assert page.scanned == 1

    async def test_an_object_is_named_by_its_content(self) -> None:
        async with self.place() as place:
            key = new_key()
            await place.catalog.begin_upload(key)
            assert key not in await place.loose()
            blob, _ = await place.put_object(b"large", key)
            assert (blob.key, blob.parts, blob.data) == (key, b"0123456789abcdef", None)
            found = await place.get(b"large")
            assert found is not None
            assert (found.key, found.parts, found.data) == (key, b"0123456789abcdef", None)
            assert key not in await place.loose(0)
            assert not await place.catalog.abandon(key)

    async def test_a_second_object_is_not_used(self) -> None:
        async with self.place() as place:
            first, key = await place.put_object(b"large")
            second, other = await place.put_object(b"large")
            assert first.key == second.key == key
            assert other in await place.loose()
            assert key not in await place.loose()
            await place.catalog.forget([other])
            assert other not in await place.loose(0)

    async def test_an_upload_that_came_to_nothing(self) -> None:
        async with self.place() as place:
            key = new_key()
            await place.catalog.begin_upload(key)
            assert await place.catalog.abandon(key)
            assert key in await place.loose()
            with pytest.raises(ConflictError):
                await place.catalog.put(place.tenant, NewBlob(digest_of(b"x"), 1, None, key))
            assert not await place.has(b"x")
            await place.catalog.forget([key])
            assert not await place.catalog.abandon(key)

    async def test_an_upload_that_took_too_long(self) -> None:
        async with self.place() as place:
            key = new_key()
            await place.catalog.begin_upload(key)
            assert key in await place.loose(0)
            await place.catalog.forget([key])
            with pytest.raises(ConflictError):
                await place.catalog.put(place.tenant, NewBlob(digest_of(b"x"), 1, None, key))
            assert not await place.has(b"x")

    async def test_an_upload_that_was_never_begun(self) -> None:
        async with self.place() as place:
            with pytest.raises(ConflictError):
                await place.catalog.put(place.tenant, NewBlob(digest_of(b"x"), 1, None, new_key()))

    async def test_many_put_the_same(self) -> None:
        async with self.two_places() as places:
            keys: list[str | None] = []

            async def put(place: Place) -> None:
                keys.append((await place.put_object(b"same"))[0].key)

            async with anyio.create_task_group() as tasks:
                for turn in range(12):
                    tasks.start_soon(put, places[turn % 2])
            assert len(keys) == 12
            assert len(set(keys)) == 1

    async def test_tenants_are_apart(self) -> None:
        async with self.place() as place:
            for name in (f"other-{uuid4().hex}", place.tenant + "x", place.tenant[:-1], place.tenant.upper()):
                other = Place(place.catalog, name)
                await place.put(b"same")
                await place.hold("holder", b"same")
                digest = digest_of(b"same")
                assert await other.get(b"same") is None
                assert await other.catalog.head(name, digest) is None
                assert await other.catalog.admit(name, digest) is None
                with pytest.raises(NotFoundError):
                    await other.catalog.hold(name, "holder", [digest])
                with pytest.raises(NotFoundError):
                    await other.catalog.put(name, inline(b"parent"), [digest])
                assert await other.release("holder") == 0
                assert await other.catalog.release_below(name, "", 100) == 0
                assert await other.catalog.held(name, "holder") == []
                await other.put(b"same")
                assert await place.counts(b"same") == (1, 0, 0)
                assert await other.counts(b"same") == (0, 0, 0)
                assert await other.collect() == 1
                assert await other.get(b"same") is None
                assert await place.has(b"same")
