"""A tenant's content through the public API, on every catalog and every object store."""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

import laser as ls
from laser.limits import CONTENT_PART_BYTES, MAX_INLINE_BYTES
from tests.content.conftest import Stores

pytestmark = pytest.mark.anyio

SIZES = (0, 1, MAX_INLINE_BYTES, MAX_INLINE_BYTES + 1, CONTENT_PART_BYTES, CONTENT_PART_BYTES + 1, 9_000_000)


def some(size: int) -> bytes:
    return random.Random(size).randbytes(size)


async def chunks(data: bytes, size: int = 70_000) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def whole(content: ls.Content, ref: ls.ContentRef, **bounds: int) -> bytes:
    async with aclosing(content.stream(ref, **bounds)) as stream:
        found = [chunk async for chunk in stream]
    assert all(0 < len(chunk) <= CONTENT_PART_BYTES for chunk in found)
    return b"".join(found)


@pytest.mark.parametrize("size", SIZES)
async def test_what_is_put_is_got(content: ls.Content, size: int) -> None:
    data = some(size)
    ref = await content.put(data, media_type="image/png", provider_kind="x.y")
    assert ref == ls.ContentRef(hashlib.sha256(data).hexdigest(), "image/png", "x.y")
    # Compared by truth: a failure must not print megabytes.
    assert (await content.get(ref) == data) is True
    assert (await content.get(ref.digest) == data) is True
    assert (await whole(content, ref) == data) is True
    head = await content.head(ref)
    assert (head.size, head.inline) == (size, size <= MAX_INLINE_BYTES)
    assert (head.holders, head.parents, head.children) == (0, 0, 0)


@pytest.mark.parametrize("size", [10, MAX_INLINE_BYTES + 1, 3 * CONTENT_PART_BYTES + 5])
async def test_ranges(content: ls.Content, size: int) -> None:
    data = some(size)
    ref = await content.put(data)
    edges = [0, 1, size // 2, size - 1, size, size + 7, CONTENT_PART_BYTES - 1, CONTENT_PART_BYTES]
    for start in edges:
        for stop in (*edges, None):
            bounds = {"start": start} if stop is None else {"start": start, "stop": stop}
            assert (await content.get(ref, **bounds) == data[start:stop]) is True, (start, stop)
            assert (await whole(content, ref, **bounds) == data[start:stop]) is True, (start, stop)


@pytest.mark.parametrize("size", [3, MAX_INLINE_BYTES, MAX_INLINE_BYTES + 1, 3_000_000])
async def test_every_source_gives_the_same(content: ls.Content, tmp_path: Path, size: int) -> None:
    data = bytes(some(size).hex()[:size], "ascii")
    path = tmp_path / "file"
    path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    sources = (data, bytearray(data), memoryview(data), data.decode(), path, chunks(data), chunks(data, 2_000_000))
    for source in sources:
        assert (await content.put(source)).digest == digest
    assert (await content.get(digest) == data) is True


async def test_equal_bytes_are_stored_once(laser: ls.Laser, content: ls.Content) -> None:
    data = some(200_000)
    first = await content.put(data, media_type="image/png")
    await content.put(data)
    await content.put(chunks(data))
    store = await laser.open_content()
    blob = await store.catalog.get(content.tenant, first.digest)
    assert blob is not None
    report = await content.collect(grace=0)
    # Of the stream's hash nothing was known before its end: its object was one too many, and went at once.
    assert (report.removed, report.objects) == (1, 1)


async def test_two_tenants(laser: ls.Laser, tenant: str) -> None:
    for data in (b"small", some(100_000)):
        one, other = laser.content(tenant), laser.content(tenant + "-other")
        ref = await one.put(data)
        for call in (
            other.get(ref),
            other.get(ref, start=1, stop=2),
            whole(other, ref),
            other.head(ref),
            other.admit(ref),
            other.hold("holder", [ref]),
            other.put(b"parent", children=[ref]),
            other.entry(ref),
        ):
            with pytest.raises(ls.NotFoundError):
                await call
        with pytest.raises(ls.NotFoundError):
            await laser.context(ls.new_conversation_id()).append_content("events", ref, content=other)
        await other.put(data)
        store = await laser.open_content()
        blobs = [await store.catalog.get(name.tenant, ref.digest) for name in (one, other)]
        assert None not in blobs
        if len(data) > MAX_INLINE_BYTES:
            assert len({blob.key for blob in blobs if blob is not None}) == 2
        await other.collect(grace=0)
        assert (await one.get(ref) == data) is True
        with pytest.raises(ls.NotFoundError):
            await other.get(ref)
        await one.collect(grace=0)


async def test_holders_children_and_collection(laser: ls.Laser, content: ls.Content) -> None:
    files = [await content.put(data) for data in (b"one", some(100_000), b"three")]
    manifest = await content.put("manifest", children=files[:2])
    await content.hold("workspace:a", [manifest])
    assert await content.held("workspace:a") == [manifest.digest]
    assert (await content.collect()).removed == 0
    dry = await content.collect(grace=0, dry_run=True)
    assert (dry.removed, dry.size, dry.objects) == (1, 5, 0)
    report = await content.collect(grace=0)
    assert (report.elected, report.removed, report.passes, report.complete) == (True, 1, 2, True)
    assert await content.get(files[0]) == b"one"
    assert await content.release("workspace:a") == 1
    report = await content.collect(grace=0)
    # The manifest first, and what it kept in the next pass.
    assert (report.removed, report.size, report.objects, report.passes) == (3, 100_011, 1, 3)
    for ref in (manifest, *files):
        with pytest.raises(ls.NotFoundError):
            await content.get(ref)


async def test_a_bound_ends_a_collection(laser: ls.Laser, content: ls.Content) -> None:
    store = await laser.open_content()
    child = await content.put(b"child")
    await content.put(b"parent", children=[child])
    report = await content.collect(grace=0, max_pages=1)
    assert (report.removed, report.complete) == (1, False)
    report = await content.collect(grace=0, max_pages=1)
    assert report.removed == 1
    assert await store.catalog.get(content.tenant, child.digest) is None


async def test_one_collects_and_others_do_nothing(stores: Stores, laser: ls.Laser, content: ls.Content) -> None:
    await content.put(b"a")
    store = await laser.open_content()
    assert await store.catalog.lease("content-collector", "somebody", 60)
    report = await content.collect(grace=0)
    assert (report.elected, report.scanned, report.removed) == (False, 0, 0)
    await store.catalog.lease("content-collector", "somebody", 0)
    assert (await content.collect(grace=0)).removed == 1


async def test_an_interrupted_put_leaves_nothing(laser: ls.Laser, content: ls.Content) -> None:
    async def broken() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield bytes(500_000)
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        await content.put(broken())
    with pytest.raises(ls.NotFoundError):
        await content.put(some(100_000), children=["0" * 64])
    async with anyio.create_task_group() as tasks:

        async def endless() -> AsyncIterator[bytes]:
            for _ in range(10):
                yield bytes(500_000)
            tasks.cancel_scope.cancel()
            await anyio.sleep_forever()

        tasks.start_soon(content.put, endless())
    report = await content.collect(grace=0, upload_grace=0)
    assert (report.scanned, report.objects) == (0, 0)


async def test_a_late_deletion_cannot_hit_a_new_upload(laser: ls.Laser, content: ls.Content) -> None:
    data = some(100_000)
    ref = await content.put(data)
    store = await laser.open_content()
    old = await store.catalog.get(content.tenant, ref.digest)
    await content.collect(grace=0)
    await content.put(data)
    assert old is not None
    assert old.key is not None
    await store.need_objects().delete([old.key])
    assert (await content.get(ref) == data) is True
    await content.collect(grace=0)


async def test_the_catalog_forgets_before_the_object_goes(
    laser: ls.Laser, content: ls.Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = some(100_000)
    ref = await content.put(data)
    store = await laser.open_content()
    objects = store.need_objects()
    real = objects.delete
    seen = []

    async def fails(keys: list[str]) -> None:
        seen.append(await store.catalog.get(content.tenant, ref.digest))
        raise ls.DisconnectedError("the object store is down")

    monkeypatch.setattr(objects, "delete", fails)
    report = await content.collect(grace=0)
    assert (report.removed, report.objects, report.complete) == (1, 0, False)
    assert report.failure == "the object store is down"
    assert seen == [None]
    monkeypatch.setattr(objects, "delete", real)
    report = await content.collect(grace=0)
    assert (report.removed, report.objects, report.complete) == (0, 1, True)


async def test_many_tasks_at_once(content: ls.Content) -> None:
    data = [some(size) for size in (10, 1_000, 100_000, 200_000)] * 4

    async def work(each: bytes) -> None:
        ref = await content.put(each)
        assert (await content.get(ref) == each) is True

    with anyio.fail_after(200):
        async with anyio.create_task_group() as tasks:
            for each in data:
                tasks.start_soon(work, each)
    assert (await content.collect(grace=0)).removed == 4


async def test_content_outlives_the_client(stores: Stores, tenant: str) -> None:
    if stores.url == "memory:":
        pytest.skip("memory goes with its client")
    data = some(100_000)
    async with stores.connect() as laser:
        ref = await laser.content(tenant).put(data)
    async with stores.connect() as laser:
        content = laser.content(tenant)
        assert (await content.get(ref) == data) is True
        assert repr(content) == f"Content(tenant={tenant!r})"
    with pytest.raises(ls.ClosedError):
        await content.get(ref)


async def test_all_tenants_are_collected(laser: ls.Laser) -> None:
    mine = [laser.content(f"t-{uuid4().hex}") for _ in range(3)]
    refs = [await content.put(f"{content.tenant}") for content in mine]
    await mine[1].hold("holder", [refs[1]])
    assert (await laser.collect_content(grace=0)).removed >= 2
    assert await mine[1].get(refs[1])
    for number in (0, 2):
        with pytest.raises(ls.NotFoundError):
            await mine[number].get(refs[number])
