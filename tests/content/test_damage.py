"""Bytes that are not what was put are told of, and never given out."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, closing
from pathlib import Path

import pytest

import laser as ls
from laser.limits import CONTENT_PART_BYTES
from laser.testing.s3_server import S3Server
from tests.content.test_content import some

pytestmark = pytest.mark.anyio

SIZE = 3 * CONTENT_PART_BYTES + 5


@pytest.fixture
async def laser(tmp_path: Path) -> AsyncIterator[ls.Laser]:
    async with ls.Laser.connect(f"embedded:{tmp_path}") as client:
        yield client


def the_object(directory: Path) -> Path:
    (path,) = [path for path in directory.rglob("*") if path.is_file()]
    return path


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


async def test_a_damaged_object(laser: ls.Laser, tmp_path: Path) -> None:
    content, data = laser.content("t"), some(SIZE)
    ref = await content.put(data)
    path = the_object(tmp_path / "objects")
    at = CONTENT_PART_BYTES + 7
    path.write_bytes(_flip(data, at))
    for call in (content.get(ref), content.get(ref, start=at, stop=at + 1), content.get(ref, start=at - 5)):
        with pytest.raises(ls.StorageError, match=ref.digest):
            await call
    # The parts that are whole are given, and none of the damaged one.
    got = b""
    with pytest.raises(ls.StorageError, match=ref.digest):
        async with aclosing(content.stream(ref)) as stream:
            async for chunk in stream:
                got += chunk
    assert (got == data[:CONTENT_PART_BYTES]) is True
    assert (await content.get(ref, stop=CONTENT_PART_BYTES) == data[:CONTENT_PART_BYTES]) is True
    assert (await content.get(ref, start=2 * CONTENT_PART_BYTES) == data[2 * CONTENT_PART_BYTES :]) is True


@pytest.mark.parametrize(
    "change",
    [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"", lambda data: data[: len(data) // 2]],
    ids=["one byte less", "one byte more", "empty", "half"],
)
async def test_an_object_of_another_length(laser: ls.Laser, tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    content, data = laser.content("t"), some(SIZE)
    ref = await content.put(data)
    changed = change(data)
    the_object(tmp_path / "objects").write_bytes(changed)
    if len(changed) > len(data):
        # What comes after the content's bytes is never looked at.
        assert (await content.get(ref) == data) is True
        return
    with pytest.raises(ls.StorageError, match=ref.digest):
        await content.get(ref)
    with pytest.raises(ls.StorageError, match=ref.digest):
        await content.get(ref, start=SIZE - 5)


async def test_an_object_that_is_gone(laser: ls.Laser, tmp_path: Path) -> None:
    content = laser.content("t")
    ref = await content.put(some(SIZE))
    the_object(tmp_path / "objects").unlink()
    with pytest.raises(ls.StorageError, match="gone from the object store"):
        await content.get(ref)


async def test_damaged_bytes_of_the_catalog(laser: ls.Laser, tmp_path: Path) -> None:
    content = laser.content("t")
    ref = await content.put(b"small")
    for change in ("UPDATE content_data SET data = x'00'", "DELETE FROM content_data"):
        with closing(sqlite3.connect(tmp_path / "laser.db")) as connection, connection:
            connection.execute(change)
        for call in (content.get(ref), content.get(ref, start=1)):
            with pytest.raises(ls.StorageError, match=ref.digest):
                await call


async def test_equal_hashes_of_parts_do_not_hide_their_order(laser: ls.Laser, tmp_path: Path) -> None:
    content, data = laser.content("t"), some(2 * CONTENT_PART_BYTES)
    ref = await content.put(data)
    path = the_object(tmp_path / "objects")
    path.write_bytes(data[CONTENT_PART_BYTES:] + data[:CONTENT_PART_BYTES])
    with pytest.raises(ls.StorageError):
        await content.get(ref)
    with pytest.raises(ls.StorageError):
        await content.get(ref, start=1)


async def test_a_damaged_object_in_s3(s3_server: S3Server, tmp_path: Path) -> None:
    if not s3_server.own:
        pytest.skip("the server is not this run's own")
    url = s3_server.url.replace("?", "/damage?")
    async with ls.Laser.connect(f"embedded:{tmp_path}", objects=url) as laser:
        content, data = laser.content("t"), some(SIZE)
        ref = await content.put(data)
        path = the_object(s3_server.bucket / "damage")
        path.write_bytes(_flip(data, 5))
        with pytest.raises(ls.StorageError, match=ref.digest):
            await content.get(ref)
        await content.collect(grace=0)
        assert not path.exists()
