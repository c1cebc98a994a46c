"""Limits of workspaces at their edge and one beyond."""

from __future__ import annotations

import pytest

import laser as ls
from laser.limits import MAX_NOTE_BYTES, MAX_PATH_BYTES, MAX_PATH_DEPTH, MAX_PATH_PART_BYTES, MAX_WORKSPACE_NAME_BYTES

pytestmark = pytest.mark.anyio


@pytest.fixture
def engine_url() -> str:
    return "memory:"


async def test_paths(site: ls.Workspace) -> None:
    part = "p" * MAX_PATH_PART_BYTES
    parts = ["l" * MAX_PATH_PART_BYTES] * (MAX_PATH_BYTES // (MAX_PATH_PART_BYTES + 1))
    longest = "/".join(parts)[: MAX_PATH_BYTES - 1].rstrip("/")
    for path in (part, "é" * (MAX_PATH_PART_BYTES // 2), "/".join(["d"] * MAX_PATH_DEPTH), longest):
        await site.write(path, "1")
        assert await site.read(path) == b"1"
    head = await site.head()
    beyond = "/".join(["q" * 127] * (MAX_PATH_BYTES // 128) + ["q"])
    assert len(beyond) == MAX_PATH_BYTES + 1
    for path in (part + "x", "é" * 128, "/".join(["d"] * (MAX_PATH_DEPTH + 1)), beyond):
        with pytest.raises(ls.LimitError) as caught:
            await site.write(path, "1")
        assert caught.value.size > caught.value.limit
    assert await site.head() == head


async def test_names(laser: ls.Laser) -> None:
    acme = laser.workspaces("acme")
    name = "é" * (MAX_WORKSPACE_NAME_BYTES // 2)
    await acme.create(name)
    with pytest.raises(ls.LimitError) as caught:
        await acme.create(name + "x")
    assert (caught.value.size, caught.value.limit) == (MAX_WORKSPACE_NAME_BYTES + 1, MAX_WORKSPACE_NAME_BYTES)
    assert await acme.list() == [name]


async def test_notes(site: ls.Workspace) -> None:
    await site.write("a", "1", note="n" * MAX_NOTE_BYTES)
    with pytest.raises(ls.LimitError):
        await site.write("a", "2", note="n" * (MAX_NOTE_BYTES + 1))
    assert await site.read("a") == b"1"
    assert (await site.history())[-1].note == "n" * MAX_NOTE_BYTES
