"""Several processes keep one read view, in a directory or on PostgreSQL."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import anyio.to_thread
import pytest

import laser as ls
from tests.commands import ROOT, environment
from tests.graph.making import names

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
        [sys.executable, "-m", "tests.graph.worker", url, views or "", stream, who, str(count)],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_two_processes_and_this_one(url: str, views: str | None) -> None:
    # The database is shared with other tests.
    stream = f"s{uuid4().hex}"
    async with ls.Laser.connect(url, stream=stream, views=views) as laser:
        graph = laser.graph("g")
        await graph.upsert(["who:here"])
        workers = [_start(url, who, WRITES, views, stream) for who in ("a", "b")]
        for number in range(WRITES):
            await graph.link("who:here", "made", f"thing:here-{number}")
            assert len(await graph.neighbors("who:here", limit=1_000)) == number + 1
        for worker in workers:
            said, _ = await anyio.to_thread.run_sync(worker.communicate)
            assert (worker.returncode, said) == (0, "ready\ndone\n")
        for who in ("a", "b", "here"):
            made = names(await graph.neighbors(f"who:{who}", limit=1_000))
            assert sorted(made) == sorted(f"{who}-{number}" for number in range(WRITES))
        before = await graph.export()
        assert len(before.edges) == 3 * WRITES
        await graph.rebuild()
        assert await graph.export() == before


async def test_a_process_killed_in_its_work(url: str) -> None:
    for attempt in range(2):
        worker = _start(url, f"k{attempt}", 100_000)
        assert worker.stdout is not None
        assert await anyio.to_thread.run_sync(worker.stdout.readline) == "ready\n"
        async with ls.Laser.connect(url, stream="s") as laser:
            with anyio.fail_after(120):
                while len(await laser.graph("g").neighbors(f"who:k{attempt}")) < 5:
                    await anyio.sleep(0.005)
            worker.send_signal(signal.SIGKILL)
            await anyio.to_thread.run_sync(worker.communicate)
            before = await laser.graph("g").export()
        async with ls.Laser.connect(url, stream="s") as laser:
            graph = laser.graph("g")
            assert await graph.export() == before
            await graph.rebuild()
            assert await graph.export() == before


async def test_a_view_is_kept_between_runs(url: str) -> None:
    async with ls.Laser.connect(url, stream="s") as laser:
        await laser.graph("g").upsert([f"n:{number}" for number in range(10)])
        assert len(await laser.graph("g").find()) == 10
        position = await (await laser.open_views()).graph("s", "agent.graph").position()
    async with ls.Laser.connect(url, stream="s") as laser:
        assert await (await laser.open_views()).graph("s", "agent.graph").position() == position
        assert position is not None
        assert len(await laser.graph("g").find()) == 10
