"""Key-value stores used by several processes: all at once, killed, forked."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_thread
import pytest

from laser.ports.kv import KeyValue
from laser.testing.postgres_server import find_postgres, run_postgres
from tests.engines.kv_worker import KEYS, open_kv

pytestmark = pytest.mark.anyio
_ROOT = Path(__file__).parents[2]
Line = list[Any]


@pytest.fixture
def anyio_backend() -> str:
    """The workers are what is tested here; the event loop of the test itself adds nothing."""
    return "asyncio"


@pytest.fixture(params=["embedded", "redis", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each store that survives its process."""
    if request.param == "embedded":
        return str(tmp_path / "data")
    server = request.getfixturevalue(f"{request.param}_server")
    return str(server.url)


@pytest.fixture
async def store(url: str) -> AsyncIterator[KeyValue]:
    store = await open_kv(url)
    yield store
    await store.aclose()


@pytest.fixture
def namespace() -> str:
    return uuid4().hex


def start(command: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engines.kv_worker", command, *map(str, arguments)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


async def finish(process: subprocess.Popen[str], code: int = 0) -> list[Line]:
    output, _ = await anyio.to_thread.run_sync(process.communicate)
    assert process.returncode == code
    # The last line of a killed process may be cut short: then it was not heard, and nothing is claimed of it.
    return [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith("\n")]


async def test_processes_counting_by_compare_and_set_lose_nothing(url: str, namespace: str, store: KeyValue) -> None:
    processes, tasks, each = 4, 4, 10
    running = [start("count", url, namespace, tasks, each) for _ in range(processes)]
    said = [line for process in running for line in await finish(process)]
    total = processes * tasks * each
    entry = await store.get(namespace, "counter")
    assert entry is not None
    assert entry.value == b"%d" % total
    numbers, versions = zip(*sorted(said), strict=True)
    assert list(numbers) == list(range(1, total + 1)), "each number was written by one process"
    assert sorted(set(versions)) == list(versions)
    assert versions[-1] == entry.version


async def test_what_killed_writers_were_acknowledged_is_there(url: str, namespace: str) -> None:
    rng = random.Random("kv-kill")
    heard: dict[str, tuple[int, int]] = {}
    for turn in range(4):
        writers = [start("write", url, namespace, f"{turn}-{number}") for number in range(2)]
        # By lines and not by the clock: a slow machine is to write as much as a quick one.
        begun = [
            await anyio.to_thread.run_sync(writer.stdout.readline)
            for writer in writers
            if writer.stdout
            for _ in range(rng.randrange(4, 40))
        ]
        await anyio.sleep(rng.uniform(0.0, 0.02))
        for writer in writers:
            writer.kill()
        lines = [json.loads(line) for line in begun]
        for writer in writers:
            lines += await finish(writer, -9)
        heard.update({key: (number, version) for key, number, version in lines})
        await _check(url, namespace, heard)
    assert len(heard) > 8


async def _check(url: str, namespace: str, heard: dict[str, tuple[int, int]]) -> None:
    store = await open_kv(url)
    try:
        for key, (number, version) in heard.items():
            entry = await store.get(namespace, key)
            assert entry is not None, "acknowledged, but not there"
            held = int(entry.value[: len(entry.value) // 100])
            assert entry.value == b"%d" % held * 100, "a value is whole"
            # The write after the last acknowledged one may have happened too.
            assert (held, entry.version) == (number, version) or (held >= number + 1 and entry.version > version)
            assert held in (number, number + KEYS)
        assert await store.set(namespace, "still", b"writable") > 0
    finally:
        await store.aclose()


async def test_a_fork_leaves_parent_and_child_in_order(url: str, namespace: str) -> None:
    lines = await finish(start("fork", url, namespace))
    assert lines == [["child", 0]] * 3 + [["parent", "49", "49", "49", "49"]]


async def test_eight_processes_opening_a_new_directory_at_once(tmp_path: Path) -> None:
    await _open_at_once(str(tmp_path / "new"))


async def test_eight_processes_opening_a_new_database_at_once() -> None:
    missing = find_postgres(own=True)
    if missing:
        pytest.skip(missing)
    with run_postgres(own=True) as server:
        await _open_at_once(server.url)


async def _open_at_once(url: str) -> None:
    start_at = time.time() + 1.5
    processes = [start("first_open", url, "space", start_at) for _ in range(8)]
    versions = [line[0] for process in processes for line in await finish(process)]
    assert len(set(versions)) == 8
    store = await open_kv(url)
    try:
        assert len((await store.scan("space")).entries) == 8
    finally:
        await store.aclose()
