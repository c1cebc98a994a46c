"""Objects in a directory: the conformance suite, and what is its own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from laser.engines.objects import open_directory_objects
from laser.errors import NotFoundError, StorageError
from laser.ports.objects import Objects
from laser.testing import ObjectsConformance

pytestmark = pytest.mark.anyio

KEY = "0123456789abcdef" * 2 + "/01M8P2H6GS2AJ33AGTW0R65B8E"


class TestDirectoryObjects(ObjectsConformance):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path / "data" / "objects"

    @asynccontextmanager
    async def open_objects(self) -> AsyncIterator[Objects]:
        store = await open_directory_objects(self.directory)
        try:
            yield store
        finally:
            await store.aclose()


async def chunks(*data: bytes) -> AsyncIterator[bytes]:
    for each in data:
        yield each


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


async def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    directory = tmp_path / "data" / "objects"
    store = await open_directory_objects(directory)
    await store.put(KEY, chunks(b"x"))
    assert files(directory) == [f"{KEY[:32]}/8E/{KEY[33:]}"]
    for path in (tmp_path / "data").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o600 if path.is_file() else 0o700)


async def test_an_object_shows_only_when_it_is_whole(tmp_path: Path) -> None:
    store = await open_directory_objects(tmp_path)
    seen = []

    async def watched() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 10
            seen.extend(files(tmp_path))
            with pytest.raises(NotFoundError):
                await store.get(KEY, 0, 1)

    await store.put(KEY, watched())
    assert set(seen) == {f"{KEY[:32]}/8E/{KEY[33:]}.part"}
    assert files(tmp_path) == [f"{KEY[:32]}/8E/{KEY[33:]}"]


async def test_what_a_killed_put_left_is_deleted(tmp_path: Path) -> None:
    store = await open_directory_objects(tmp_path)
    left = tmp_path / KEY[:32] / "8E" / f"{KEY[33:]}.part"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    with pytest.raises(NotFoundError):
        await store.get(KEY, 0, 1)
    await store.delete([KEY])
    assert files(tmp_path) == []


async def test_an_object_is_on_the_disk_before_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await open_directory_objects(tmp_path)
    calls: list[str] = []
    for name in ("write", "fsync", "rename"):
        real = getattr(os, name)

        def call(*args: object, name: str = name, real: object = real) -> object:
            calls.append(name)
            return real(*args)  # type: ignore[operator]

        monkeypatch.setattr(os, name, call)
    await store.put(KEY, chunks(b"one", b"two"))
    # Two directories are new, and their entries are brought to the disk first.
    assert calls[-5:] == ["write", "write", "fsync", "rename", "fsync"]


async def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError) as caught:
        await open_directory_objects(tmp_path / "file" / "objects")
    assert str(tmp_path) in str(caught.value)
