"""Two writers on one head: exactly one wins each move, and nothing is overwritten."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

import laser as ls
from tests.workspace.conftest import connect

pytestmark = pytest.mark.anyio

_CHILD = """
import sys, anyio, laser as ls
async def main(url, name, count):
    won = 0
    async with ls.Laser.connect(url, stream="app") as laser:
        site = await laser.workspaces("acme").open("site")
        while won < count:
            head = await site.head()
            try:
                await site.write(f"{name}/{won}", f"{name} {won}", seen=head.revision)
            except ls.ConflictError:
                continue
            won += 1
anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


async def test_one_of_two_wins_each_revision(engine_url: str, stream_name: str, laser: ls.Laser) -> None:
    site = await laser.workspaces("acme").create("site")
    handles = [site, await laser.workspaces("acme").open("site")]
    for _ in range(8):
        head = await site.head()
        won: list[int] = []

        async def write(number: int, seen: int, won: list[int] = won) -> None:
            try:
                await handles[number].write(f"file{number}", f"at {seen}", seen=seen)
                won.append(number)
            except ls.ConflictError:
                return

        async with anyio.create_task_group() as tasks:
            for number in range(2):
                tasks.start_soon(write, number, head.revision)
        assert len(won) == 1
        assert await site.read(f"file{won[0]}") == f"at {head.revision}".encode()
        assert (await site.head()).revision == head.revision + 1


async def test_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'data'}"
    async with ls.Laser.connect(url, stream="app") as laser:
        site = await laser.workspaces("acme").create("site")

        async def run(name: str) -> None:
            done = await anyio.run_process([sys.executable, "-c", _CHILD, url, name, "10"], check=True)
            assert done.returncode == 0

        async with anyio.create_task_group() as tasks:
            for name in ("a", "b", "c"):
                tasks.start_soon(run, name)
        files = {info.path for info in await site.list(recursive=True)}
        assert files == {f"{name}/{number}" for name in "abc" for number in range(10)}
        assert (await site.head()).revision == 31
        assert len(await site.history()) == 31


async def test_a_lost_move_holds_nothing(laser: ls.Laser) -> None:
    site = await laser.workspaces("acme").create("site")
    other = await laser.workspaces("acme").open("site")
    seen = (await other.head()).revision
    moved = await site.write("a", "mine")
    # It looked before the other one moved, so only the log can tell it.
    assert not await other._log.move(_stale(seen, moved.root))
    await site.drop()
    report = await laser.content("acme").collect(grace=0, upload_grace=0)
    assert report.removed == 2


async def test_random_edits_are_those_of_a_dict(laser: ls.Laser) -> None:
    rng = random.Random("workspace")
    site = await laser.workspaces("acme").create("site")
    other = await laser.workspaces("acme").open("site")
    files: dict[str, bytes] = {}
    versions: dict[int, dict[str, bytes]] = {1: {}}
    names = [f"{first}/{second}" for first in "ab" for second in "xyz"] + ["p", "q"]
    for step in range(60):
        handle = rng.choice([site, other])
        path = rng.choice(names)
        wish = rng.random()
        try:
            if wish < 0.55:
                data = rng.choice([b"one", b"two", f"{step}".encode()])
                head = await handle.write(path, data)
                files[path] = data
            elif wish < 0.75:
                head = await handle.delete(path)
                assert path in files
                del files[path]
            elif wish < 0.9:
                to = rng.choice(names)
                head = await handle.rename(path, to)
                assert to not in files
                files[to] = files.pop(path)
            else:
                revision = rng.choice(list(versions))
                now = await handle.head()
                head = await handle.move((await handle.at(revision)).root, seen=now.revision)
                files = dict(versions[revision])
        except ls.NotFoundError:
            assert path not in files
            continue
        except ls.ConflictError:
            assert wish >= 0.75
            continue
        except ls.InvalidError:
            assert path == to
            continue
        versions[head.revision] = dict(files)
        reader = rng.choice([site, other])
        found = {info.path: await reader.read(info.path) for info in await reader.list(recursive=True)}
        assert found == files
    for revision, expected in versions.items():
        view = await site.at(revision)
        assert {info.path: await view.read(info.path) for info in await view.list(recursive=True)} == expected


async def test_cancelled_edits_leave_a_head_that_can_be_moved(engine_url: str, stream_name: str) -> None:
    async with connect(engine_url, stream_name) as laser:
        site = await laser.workspaces("acme").create("site")
        for number in range(12):
            with anyio.move_on_after(0.0005 * number):
                await site.write("a", f"try {number}")
        await site.write("a", "last")
        assert await site.read("a") == b"last"
        assert await (await laser.workspaces("acme").open("site")).read("a") == b"last"
        assert await to_thread.run_sync(lambda: True)


def _stale(seen: int, root: str | None) -> ls.workspace.heads.HeadMoved:
    from laser.workspace.heads import HeadMoved

    return HeadMoved("acme", "site", seen, root)
