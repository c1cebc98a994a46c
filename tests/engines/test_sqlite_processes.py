"""The embedded engine used by several processes: all at once, killed, forked."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from laser.engines.sqlite import open_sqlite_log
from laser.engines.sqlite.lockfile import LockFile
from laser.errors import DeadlineError
from laser.model.topics import TopicConfig
from laser.testing.log_cases.base import contents
from tests.engines.sqlite_worker import STREAM, TOPIC, record

pytestmark = pytest.mark.anyio
_ROOT = Path(__file__).parents[2]
Line = list[Any]


def start(command: str, directory: Path, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engines.sqlite_worker", command, str(directory), *map(str, arguments)],
        cwd=_ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
    )


async def finish(process: subprocess.Popen[str], code: int = 0) -> list[Line]:
    output, _ = await anyio.to_thread.run_sync(process.communicate)
    assert process.returncode == code
    # The last line of a killed process may be cut short: then it was not heard, and nothing is claimed of it.
    return [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith("\n")]


async def check_history(directory: Path, acknowledged: list[Line], *, whole: bool) -> None:
    """Every receipt is found once at its place, offsets have no gaps, keys keep their order."""
    found: dict[str, tuple[int, int, int]] = {}
    async with await open_sqlite_log(directory) as log:
        for partition in range(4):
            held = await contents(log, STREAM, TOPIC, partition)
            assert [one.offset for one in held] == list(range(len(held)))
            assert [one.timestamp_micros for one in held] == sorted(one.timestamp_micros for one in held)
            for one in held:
                text = one.payload.decode()
                assert text not in found, "a record stands twice"
                found[text] = (partition, one.offset, one.id)
    for _, partition, offset, number, text in acknowledged:
        assert found[text] == (partition, offset, number), "acknowledged, but not there"
    if whole:
        assert len(found) == len(acknowledged)
    by_key: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for text, (partition, offset, _) in found.items():
        key, number_text = text.split(":")
        by_key[key].append((partition, offset, int(number_text)))
    for places in by_key.values():
        places.sort()
        assert len({partition for partition, _, _ in places}) == 1
        assert [number for _, _, number in places] == list(range(len(places)))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_four_processes_of_eight_tasks_lose_nothing(tmp_path: Path) -> None:
    processes = [start("write", tmp_path, f"p{number}", 8, 60) for number in range(4)]
    acknowledged = [line for process in processes for line in await finish(process)]
    assert len(acknowledged) >= 4 * 8 * 60
    await check_history(tmp_path, acknowledged, whole=True)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("durability", ["process", "power"])
async def test_killed_writers_lose_nothing_that_was_acknowledged(tmp_path: Path, durability: str) -> None:
    rng = random.Random(durability)
    acknowledged: list[Line] = []
    for turn in range(4):
        pair = [start("write", tmp_path, f"k{turn}{side}", 4, 0, durability) for side in "ab"]
        for process in pair:
            assert process.stdout is not None
            # By lines and not by the clock: a slow machine is to write as much as a quick one.
            for _ in range(rng.randrange(16, 40)):
                line = await anyio.to_thread.run_sync(process.stdout.readline)
                acknowledged.append(json.loads(line))
        for process in pair:
            await anyio.sleep(rng.uniform(0.0, 0.05))
            process.kill()
        for process in pair:
            acknowledged += await finish(process, -9)
    await check_history(tmp_path, acknowledged, whole=False)
    assert len(acknowledged) > 100


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_several_processes_make_the_directory_at_once(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "data"
    begin = time.time() + 1.0
    processes = [start("first_open", directory, begin) for _ in range(6)]
    topics = {tuple(line) for process in processes for line in await finish(process)}
    assert len(topics) == 1
    async with await open_sqlite_log(directory) as log:
        info = await log.topic(STREAM, TOPIC)
        assert info is not None
        assert info.records == 6


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_key_has_one_partition_whatever_the_hash_seed(tmp_path: Path) -> None:
    keys = [f"key-{index}" for index in range(20)]
    answers = [
        await finish(start("partitions", tmp_path, *keys, PYTHONHASHSEED=seed)) for seed in ("0", "1", "4000000000")
    ]
    assert answers[0] == answers[1] == answers[2]
    # Pinned: another release must not send a conversation elsewhere.
    assert answers[0][0] == [5, 2, 5, 4, 0, 5, 6, 0, 0, 1, 0, 0, 2, 1, 5, 1, 6, 6, 5, 6]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_forked_child_is_refused_and_can_open_its_own(tmp_path: Path) -> None:
    lines = await finish(start("fork", tmp_path))
    assert [line for line in lines if line[0] == "child"] == [["child", 0]] * 5
    async with await open_sqlite_log(tmp_path) as log:
        held = await contents(log, STREAM, TOPIC, 0)
        assert sum(one.payload == b"child" for one in held) == 5
        assert len(held) == len(lines)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_child_does_not_keep_its_dead_parents_lock(tmp_path: Path) -> None:
    process = start("lock_and_fork", tmp_path)
    assert process.stdout is not None
    (child,) = json.loads(await anyio.to_thread.run_sync(process.stdout.readline))
    try:
        await anyio.to_thread.run_sync(process.wait)
        async with await open_sqlite_log(tmp_path, timeout=60) as log:
            await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))
    finally:
        os.kill(child, 9)
        process.stdout.close()


async def test_a_lock_that_stays_ends_calls_at_their_deadline(tmp_path: Path) -> None:
    async with await open_sqlite_log(tmp_path, timeout=1.5) as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))
        lock = LockFile(str(tmp_path / "laser.lock"))
        assert lock.acquire(lambda: True)
        try:
            with pytest.raises(DeadlineError) as caught:
                await log.append(STREAM, TOPIC, [record(b"late")], key="k")
            assert caught.value.seconds == 1.5
            assert caught.value.retryable
            with pytest.raises(DeadlineError):
                await open_sqlite_log(tmp_path, timeout=0.1)
            # Reads need no lock, and a cancelled append is withdrawn.
            assert (await log.topic(STREAM, TOPIC)) is not None
            with anyio.move_on_after(0.05) as scope:
                await log.append(STREAM, TOPIC, [record(b"cancelled")], key="k")
            assert scope.cancelled_caught
        finally:
            lock.close()
        await log.append(STREAM, TOPIC, [record(b"in time")], key="k")
        assert [one.payload for one in await contents(log, STREAM, TOPIC, 0)] == [b"in time"]


async def test_an_append_that_waits_for_the_lock_goes_on_when_it_is_free(tmp_path: Path) -> None:
    async with await open_sqlite_log(tmp_path) as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))
        lock = LockFile(str(tmp_path / "laser.lock"))
        assert lock.acquire(lambda: True)
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(_append, log, b"%d" % number)
            await anyio.wait_all_tasks_blocked()
            lock.close()
        assert len(await contents(log, STREAM, TOPIC, 0)) == 5


async def _append(log: Any, payload: bytes) -> None:
    await log.append(STREAM, TOPIC, [record(payload)], key="k")


async def test_what_another_process_changes_is_noticed(tmp_path: Path) -> None:
    async with await open_sqlite_log(tmp_path) as one, await open_sqlite_log(tmp_path) as two:
        await one.ensure_topic(STREAM, TOPIC, TopicConfig(1))
        for log in (one, two, one, two):
            await log.append(STREAM, TOPIC, [record(b"x")], key="k")
        before = await one.topic(STREAM, TOPIC)
        await two.delete_topic(STREAM, TOPIC)
        after = await two.ensure_topic(STREAM, TOPIC, TopicConfig(3))
        done = await one.append(STREAM, TOPIC, [record(b"x")], key="k")
        assert before is not None
        assert done.topic_id == after.topic_id != before.topic_id
        assert done.offsets == (0,)
        await two.purge(STREAM, TOPIC)
        assert (await one.append(STREAM, TOPIC, [record(b"x")], key="k")).offsets == (0,)
        await two.add_partitions(STREAM, TOPIC, 4)
        used = {(await one.append(STREAM, TOPIC, [record(b"x")], key=f"k{index}")).partition for index in range(64)}
        assert used == set(range(7))
