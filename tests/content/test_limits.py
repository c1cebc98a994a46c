"""The limits of the content room at their edges, and one beyond, which is refused before anything is written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import laser as ls
from laser import limits
from laser.content import hashing
from laser.content.arguments import check_refs
from laser.wire.content import MAX_ENTRY_BYTES, decode_entry, encode_entry
from tests.content.test_content import chunks

pytestmark = pytest.mark.anyio

REF = ls.ContentRef("0" * 64)


@pytest.fixture
async def laser() -> AsyncIterator[ls.Laser]:
    async with ls.Laser.connect("memory:") as client:
        await client.ensure_topic("events")
        yield client


def too_long(call: object, argument: str, size: int, limit: int) -> None:
    with pytest.raises(ls.LimitError) as caught:
        call()  # type: ignore[operator]
    assert (caught.value.argument, caught.value.size, caught.value.limit) == (argument, size, limit)


async def test_what_the_catalog_keeps(laser: ls.Laser) -> None:
    content, edge = laser.content("t"), limits.MAX_INLINE_BYTES
    assert (await content.head(await content.put(bytes(edge)))).inline
    assert not (await content.head(await content.put(bytes(edge + 1)))).inline


async def test_nothing_large_without_object_storage(tmp_path: Path) -> None:
    async with ls.Laser.connect("memory:") as laser:
        store = await laser.open_content()
        laser._content = type(store)(store.catalog, None)
        content, edge = laser.content("t"), limits.MAX_INLINE_BYTES
        await content.put(bytes(edge))
        path = tmp_path / "file"
        path.write_bytes(bytes(edge + 1))
        for data in (bytes(edge + 1), "x" * (edge + 1), path, chunks(bytes(edge + 1))):
            with pytest.raises(ls.ConfigError, match=r"^objects: .* object storage"):
                await content.put(data)
        report = await content.collect(grace=0, upload_grace=0)
        assert (report.scanned, await store.catalog.loose(upload_grace_micros=0)) == (1, [])
        await store.objects.aclose()  # type: ignore[union-attr]


async def test_content(laser: ls.Laser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """At a smaller limit: 64 GiB take an hour."""
    assert limits.MAX_CONTENT_BYTES == 64 * 2**30
    edge = 1_500_000
    monkeypatch.setattr(hashing, "MAX_CONTENT_BYTES", edge)
    content = laser.content("t")
    path = tmp_path / "file"
    for size in (edge, edge + 1):
        path.write_bytes(bytes(size))
        for data in (bytes(size), path, chunks(bytes(size))):
            if size == edge:
                assert (await content.head(await content.put(data))).size == edge
            else:
                with pytest.raises(ls.LimitError) as caught:
                    await content.put(data)
                assert (caught.value.argument, caught.value.limit) == ("data", edge)
    assert (await content.collect(grace=0, upload_grace=0)).scanned == 1


async def test_content_of_64_gib_has_few_enough_parts() -> None:
    """S3 allows 10,000 parts of an upload."""
    from laser.engines.objects import s3

    assert limits.MAX_CONTENT_BYTES / s3._PART_BYTES <= 10_000


async def test_parts(laser: ls.Laser) -> None:
    content, edge = laser.content("t"), limits.CONTENT_PART_BYTES
    store = await laser.open_content()
    for size, parts in ((edge, 1), (edge + 1, 2), (2 * edge, 2)):
        ref = await content.put(bytes(size))
        blob = await store.catalog.get("t", ref.digest)
        assert blob is not None
        assert len(blob.parts) == parts * hashing.PART_HASH_BYTES


async def test_tenants(laser: ls.Laser) -> None:
    edge = "é" * (limits.MAX_TENANT_BYTES // 2)
    assert await laser.content(edge).get(await laser.content(edge).put(b"x")) == b"x"
    too_long(lambda: laser.content(edge + "x"), "tenant", limits.MAX_TENANT_BYTES + 1, limits.MAX_TENANT_BYTES)
    for bad in ("", "a\nb", "\ud800", 7, None):
        with pytest.raises(ls.InvalidError, match=r"^tenant: "):
            laser.content(bad)  # type: ignore[arg-type]


async def test_holders(laser: ls.Laser) -> None:
    content, edge = laser.content("t"), "é" * (limits.MAX_HOLDER_BYTES // 2)
    ref = await content.put(b"x")
    await content.hold(edge, [ref])
    assert await content.release(edge) == 1
    for call in (content.hold(edge + "x", [ref]), content.release(edge + "x"), content.held(edge + "x")):
        with pytest.raises(ls.LimitError) as caught:
            await call
        assert (caught.value.argument, caught.value.size) == ("holder", limits.MAX_HOLDER_BYTES + 1)
    longest = ls.record_holder("/" * 255, "%" * 255, ls.new_conversation_id(), 2**128 - 1)
    assert len(longest) <= limits.MAX_HOLDER_BYTES


async def test_references_of_a_call(laser: ls.Laser) -> None:
    content, edge = laser.content("t"), limits.MAX_CONTENT_REFS
    assert len(check_refs([f"{number:064x}" for number in range(edge)], "refs")) == edge
    for call, argument in (
        (content.hold("h", [f"{number:064x}" for number in range(edge + 1)]), "refs"),
        (content.put(b"x", children=[f"{number:064x}" for number in range(edge + 1)]), "children"),
    ):
        with pytest.raises(ls.LimitError) as caught:
            await call
        assert (caught.value.argument, caught.value.size, caught.value.limit) == (argument, edge + 1, edge)
    assert (await content.collect(grace=0)).scanned == 0


async def test_media_types(laser: ls.Laser) -> None:
    content, edge = laser.content("t"), "a/" + "b" * (limits.MAX_MEDIA_TYPE_BYTES - 2)
    assert (await content.put(b"x", media_type=edge)).media_type == edge
    with pytest.raises(ls.LimitError):
        await content.put(b"y", media_type=edge + "b")
    for bad in ("", "text", "text/", "/x", "a/b c", "a/b; c", "a/b\n", "té/x", 7):
        with pytest.raises(ls.InvalidError, match=r"^media_type: "):
            await content.put(b"y", media_type=bad)  # type: ignore[arg-type]
    for good in ("text/plain; charset=utf-8", 'a/b;c="d e"', "application/vnd.x+json"):
        ls.ContentRef("0" * 64, good)
    assert (await content.collect(grace=0)).scanned == 1


async def test_texts_of_an_entry() -> None:
    edge, limit = "é" * (limits.MAX_ENTRY_TEXT_BYTES // 2) + "x", limits.MAX_ENTRY_TEXT_BYTES
    for name in ("kind", "source", "entry_id", "origin"):
        texts = {"kind": "k", "source": "s", "entry_id": "e", name: edge}
        ls.ContentEntry(REF, 1, None, **texts)  # type: ignore[arg-type]
        too_long(lambda: ls.ContentEntry(REF, 1, None, **texts | {name: edge + "x"}), name, limit + 1, limit)  # type: ignore[arg-type] # noqa: B023
    too_long(lambda: ls.ContentRef("0" * 64, "a/b", edge + "x"), "provider_kind", limit + 1, limit)


async def test_previews() -> None:
    edge, limit = "é" * (limits.MAX_PREVIEW_BYTES // 2), limits.MAX_PREVIEW_BYTES
    ls.ContentEntry(REF, 1, 1, "k", "s", "e", edge)
    too_long(lambda: ls.ContentEntry(REF, 1, 1, "k", "s", "e", edge + "x"), "preview", limit + 1, limit)


async def test_the_longest_entry_fits_its_format() -> None:
    long, preview = '"' * limits.MAX_ENTRY_TEXT_BYTES, "\x01" * limits.MAX_PREVIEW_BYTES
    ref = ls.ContentRef("0" * 64, "a/" + "b" * (limits.MAX_MEDIA_TYPE_BYTES - 2), long)
    entry = ls.ContentEntry(ref, 2**53 - 1, 2**53 - 1, long, long, long, preview, long, ref)
    data = encode_entry(entry)
    assert len(data) <= MAX_ENTRY_BYTES
    assert decode_entry(data) == entry


async def test_the_grace_is_a_week(laser: ls.Laser) -> None:
    assert limits.CONTENT_GRACE_SECONDS == 7 * 24 * 3_600
    content = laser.content("t")
    ref = await content.put(b"x")
    store = await laser.open_content()
    week = limits.CONTENT_GRACE_SECONDS * 1_000_000

    class Later:
        micros = 0

        def now_micros(self) -> int:
            return self.micros

    clock = Later()
    store.catalog._clock = clock  # type: ignore[attr-defined]
    admitted = (await content.head(ref)).admitted_at_micros
    clock.micros = admitted + week - 1
    assert (await content.collect()).removed == 0
    clock.micros = admitted + week
    assert (await content.collect()).removed == 1


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "x", None, True, 1e12])
async def test_bad_graces(laser: ls.Laser, bad: object) -> None:
    for argument in ("grace", "upload_grace"):
        with pytest.raises(ls.InvalidError, match=f"^{argument}: "):
            await laser.collect_content(**{argument: bad})  # type: ignore[arg-type]


async def test_other_bad_arguments(laser: ls.Laser) -> None:
    content = laser.content("t")
    ref = await content.put(b"x")

    async def numbers() -> AsyncIterator[object]:
        yield 7

    for call, argument in (
        (lambda: content.put(7), "data"),
        (lambda: content.put([b"x"]), "data"),
        (lambda: content.put(numbers()), "data"),
        (lambda: content.put("\ud800"), "data"),
        (lambda: content.put(Path("no") / "such" / "file"), "data"),
        (lambda: content.put(Path.cwd()), "data"),
        (lambda: content.put(b"x", children=ref), "children"),
        (lambda: content.put(b"x", children=["x"]), "children"),
        (lambda: content.get("0" * 63), "ref"),
        (lambda: content.get("A" * 64), "ref"),
        (lambda: content.get(b"0" * 64), "ref"),
        (lambda: content.get(ref, start=-1), "start"),
        (lambda: content.get(ref, stop=1.5), "stop"),
        (lambda: content.hold("", [ref]), "holder"),
        (lambda: content.hold("h", ref), "refs"),
        (lambda: content.entry("0" * 64), "ref"),
        (lambda: content.collect(max_pages=0), "max_pages"),
    ):
        with pytest.raises(ls.InvalidError) as caught:
            await call()  # type: ignore[no-untyped-call]
        assert caught.value.argument == argument
    for over in (-1, limits.MAX_PAYLOAD_BYTES + 1, True, 1.5):
        with pytest.raises(ls.InvalidError, match=r"^over: "):
            laser.content("t", over=over)  # type: ignore[arg-type]
    assert (await content.collect(grace=0, upload_grace=0)).scanned == 1


async def test_content_larger_than_a_message_is_not_resolved(laser: ls.Laser, monkeypatch: pytest.MonkeyPatch) -> None:
    from laser.content import content as module

    content, ctx = laser.content("t"), laser.context(ls.new_conversation_id())
    monkeypatch.setattr(module, "MAX_PAYLOAD_BYTES", 100_000)
    for size in (100_000, 100_001):
        await ctx.append_content("events", await content.put(bytes(size)), content=content)
    at, beyond = await ctx.fetch(topics=["events"])
    assert len((await content.resolve(at)).payload) == 100_000
    with pytest.raises(ls.LimitError, match="stream"):
        await content.resolve(beyond)


@pytest.mark.parametrize("what", ["catalog", "objects"])
async def test_urls(what: str) -> None:
    for url in ("nonsense:c4n4ry", "c4n4ry@x", "redis://c4n4ry@h", ""):
        async with ls.Laser.connect("memory:", **{what: url}) as laser:  # type: ignore[arg-type]
            with pytest.raises(ls.ConfigError, match=f"^{what}: unknown form") as caught:
                await laser.content("t").put(b"x")
            assert "c4n4ry" not in str(caught.value)
    with pytest.raises(ls.ConfigError, match=f"^{what}: expected text"):
        await ls.Laser.connect("memory:", **{what: 7})  # type: ignore[arg-type]
