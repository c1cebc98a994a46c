"""Several processes keep one read view, in a directory or on PostgreSQL."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.to_thread
import pytest

import laser as ls
from tests.commands import ROOT, environment
from tests.memory.making import TOPIC

pytestmark = pytest.mark.anyio

WRITES = 30


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"embedded:{tmp_path / 'data'}"


@pytest.fixture(params=["embedded", "postgres"])
def views(request: pytest.FixtureRequest) -> str | None:
    """Where the view is, by default in the directory of the log."""
    place: str | None = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return place


def _start(url: str, who: str, count: int, views: str | None = None, stream: str = "s") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.memory.worker", url, views or "", stream, who, str(count)],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )


async def _same_however_it_is_made(memory: ls.Memory) -> list[ls.MemoryItem]:
    found = await memory.recall(limit=1_000)
    assert await memory.recall(limit=1_000, folded=True) == found
    await memory.rebuild()
    assert await memory.recall(limit=1_000) == found
    return found


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_two_processes_and_this_one(url: str, views: str | None) -> None:
    # The database is shared with other tests.
    stream = f"s{uuid4().hex}"
    async with ls.Laser.connect(url, stream=stream, views=views) as laser:
        memory = laser.memory("n")
        await memory.remember("here", user="here")
        workers = [_start(url, who, WRITES, views, stream) for who in ("a", "b")]
        for number in range(WRITES):
            item = await memory.remember(f"here {number}", user="here")
            assert (await memory.recall(strategy="recent", user="here", limit=1))[0].id == item
            if number % 10 == 5:
                await memory.rebuild()
        for worker in workers:
            said, _ = await anyio.to_thread.run_sync(worker.communicate)
            assert (worker.returncode, said) == (0, "ready\ndone\n")
        for who, count in (("a", 20), ("b", 20), ("here", WRITES + 1)):
            assert len(await memory.recall(user=who, limit=1_000)) == count
        found = await _same_however_it_is_made(memory)
        assert sum(item.weight is not None for item in found) == 20


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_process_killed_in_its_work(url: str) -> None:
    worker = _start(url, "k", 100_000)
    assert worker.stdout is not None
    assert await anyio.to_thread.run_sync(worker.stdout.readline) == "ready\n"
    async with ls.Laser.connect(url, stream="s") as laser:
        with anyio.fail_after(120):
            while len(await laser.memory("n").recall(user="k")) < 5:
                await anyio.sleep(0.005)
        worker.send_signal(signal.SIGKILL)
        await anyio.to_thread.run_sync(worker.communicate)
    async with ls.Laser.connect(url, stream="s") as laser:
        await _same_however_it_is_made(laser.memory("n"))


async def test_two_clients_that_catch_up_at_once(url: str) -> None:
    async with ls.Laser.connect(url, stream="s") as one, ls.Laser.connect(url, stream="s") as other:
        for number in range(200):
            await one.memory("n").remember(f"note {number}", user=f"u{number % 3}")

        async def read(laser: ls.Laser) -> None:
            for _ in range(5):
                assert len(await laser.memory("n").recall(limit=1_000)) == 200
                await laser.memory("n").rebuild()

        async with anyio.create_task_group() as tasks:
            for laser in (one, other, one, other):
                tasks.start_soon(read, laser)
        await _same_however_it_is_made(one.memory("n"))


async def test_a_view_is_kept_between_runs(url: str) -> None:
    async with ls.Laser.connect(url, stream="s") as laser:
        for number in range(10):
            await laser.memory("n").remember(f"{number}")
        assert len(await laser.memory("n").recall()) == 10
        position = await (await laser.open_views()).memory("s", TOPIC).position()
    async with ls.Laser.connect(url, stream="s") as laser:
        assert position is not None
        assert await (await laser.open_views()).memory("s", TOPIC).position() == position
        assert len(await laser.memory("n").recall()) == 10


async def test_cancelled_calls_leave_memory_usable(url: str) -> None:
    import random

    chance = random.Random(7)
    async with ls.Laser.connect(url, stream="s") as laser:
        memory = laser.memory("n")
        for number in range(40):
            with anyio.move_on_after(chance.random() * 0.004):
                item = await memory.remember(f"note {number}", dedup=True)
                await memory.improve(item, 1.0)
                await memory.search("note")
                await memory.forget(item, user="nobody")
        last = await memory.remember("last")
        assert last in {item.id for item in await memory.recall(limit=100)}
        await _same_however_it_is_made(memory)
