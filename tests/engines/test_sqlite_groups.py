"""The embedded engine's threads: groups, durability, closing, records that nobody shows any more."""

from __future__ import annotations

import gc
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from laser.engines.sqlite import SqliteLog, open_sqlite_log
from laser.engines.sqlite.checkpoints import Checkpoints
from laser.errors import AppendIndeterminateError, ClosedError, NotFoundError, StorageError, UnsupportedError
from laser.model.records import NewRecord
from laser.model.topics import Durability, TopicConfig, TopicRetention
from laser.testing.clock import SetClock
from laser.testing.log_cases.base import contents
from tests.engines.sqlite_worker import STREAM, TOPIC, record

pytestmark = pytest.mark.anyio
_HOUR = 3_600_000_000


def engine_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("laser-sqlite")]


def join_engine_threads() -> None:
    """A thread tells of its end as the last thing it does, and is there a moment longer."""
    deadline = time.monotonic() + 30
    for thread in engine_threads():
        thread.join(max(0.0, deadline - time.monotonic()))


@pytest.fixture(autouse=True)
def _threads_of_earlier_tests_are_gone() -> None:
    if engine_threads():
        gc.collect()
        join_engine_threads()


async def together(*calls: Callable[[], Any]) -> list[Any]:
    """Makes the calls at once; their results or errors."""
    results: list[Any] = [None] * len(calls)

    async def run(index: int) -> None:
        try:
            results[index] = await calls[index]()
        except Exception as error:
            results[index] = error

    async with anyio.create_task_group() as tasks:
        for index in range(len(calls)):
            tasks.start_soon(run, index)
    return results


async def test_appends_at_once_are_committed_in_few_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[int] = []
    wrote = Checkpoints.wrote

    def note(self: Checkpoints, jobs: int, size: int) -> None:
        commits.append(jobs)
        wrote(self, jobs, size)

    async with await open_sqlite_log(tmp_path) as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))
        monkeypatch.setattr(Checkpoints, "wrote", note)
        await together(*[lambda: log.append(STREAM, TOPIC, [record(b"x")], key="k") for _ in range(200)])
        assert sum(commits) >= 200
        assert max(commits) > 20
        assert len(await contents(log, STREAM, TOPIC, 0)) == 200


async def test_one_bad_append_does_not_fail_its_group(tmp_path: Path) -> None:
    async with await open_sqlite_log(tmp_path) as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(2))

        def good(key: str) -> Callable[[], Any]:
            return lambda: log.append(STREAM, TOPIC, [record(b"good")], key=key)

        def unlike_bytes() -> Any:
            # Passes for bytes until SQLite is to store it.
            return log.append(STREAM, TOPIC, [record(b"fine"), NewRecord(1, memoryview(b"x" * 8)[::2])], key="b")  # type: ignore[arg-type]

        def no_topic() -> Any:
            return log.append(STREAM, "absent", [record(b"x")], key="b")

        results = await together(good("a"), unlike_bytes, good("b"), no_topic, good("c"), unlike_bytes, good("a"))
        assert [type(result).__name__ == "Appended" for result in results] == [True, False] * 3 + [True]
        assert isinstance(results[3], NotFoundError)
        held = [one.payload for partition in range(2) for one in await contents(log, STREAM, TOPIC, partition)]
        assert held == [b"good"] * 4


async def test_only_topics_of_power_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    wrote = Checkpoints.wrote

    def note(self: Checkpoints, jobs: int, size: int) -> None:
        # Called right after a commit: what this pragma says is how it was done.
        modes.append(self._connection.execute("PRAGMA synchronous").fetchone()[0])
        wrote(self, jobs, size)

    monkeypatch.setattr(Checkpoints, "wrote", note)
    normal, full = 1, 2
    async with await open_sqlite_log(tmp_path) as log:
        expected: list[tuple[Durability | None, int]] = [(None, normal), ("process", normal), ("power", full)]
        for durability, mode in [*expected, *reversed(expected)]:
            topic = f"topic-{durability}"
            info = await log.ensure_topic(STREAM, topic, TopicConfig(1, durability=durability))
            assert info.durability == (durability or "process")
            for _ in range(2):
                await log.append(STREAM, topic, [record(b"x")], key="k")
            await log.append(STREAM, topic, [record(b"x")], key="k")
            assert modes[-1] == mode, durability


async def test_a_found_record_of_power_waits_for_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await open_sqlite_log(tmp_path) as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(1, durability="power"))
        one = record(b"x")
        await log.append(STREAM, TOPIC, [one], key="k")
        before = (tmp_path / "laser.db-wal").stat().st_size
        await log.append(STREAM, TOPIC, [one], key="k", find_first=True)
        # Its first attempt may have died before the disk had it; only a commit with something in it waits.
        assert (tmp_path / "laser.db-wal").stat().st_size > before


async def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    async with await open_sqlite_log(tmp_path) as log:
        with pytest.raises(UnsupportedError, match="forever"):
            await log.ensure_topic(STREAM, TOPIC, TopicConfig(1, durability="forever"))  # type: ignore[arg-type]
        assert await log.topics(STREAM) == ()


async def test_closing_ends_the_threads_and_merges_the_files(tmp_path: Path) -> None:
    log = await open_sqlite_log(tmp_path)
    await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))
    await together(*[lambda: log.topic(STREAM, TOPIC) for _ in range(20)])
    names = Counter(thread.name for thread in threading.enumerate())
    assert names["laser-sqlite-writer"] == 1
    assert 1 <= names["laser-sqlite-reader"] <= 3
    await log.aclose()
    join_engine_threads()
    assert engine_threads() == []
    assert sorted(os.listdir(tmp_path)) == ["laser.db", "laser.lock"]
    with pytest.raises(ClosedError, match="open it again"):
        await log.topic(STREAM, TOPIC)


async def test_a_log_that_nobody_closed_says_so_and_ends(tmp_path: Path) -> None:
    log = await open_sqlite_log(tmp_path)
    await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))
    await log.append(STREAM, TOPIC, [record(b"x")], key="k")
    await log.topic(STREAM, TOPIC)
    with pytest.warns(ResourceWarning, match="unclosed <SqliteLog"):
        del log
    join_engine_threads()
    assert engine_threads() == []
    async with await open_sqlite_log(tmp_path) as again:
        assert len(await contents(again, STREAM, TOPIC, 0)) == 1


async def test_a_writer_that_breaks_down_fails_its_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await open_sqlite_log(tmp_path)
    await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))

    def break_down(*_: object) -> None:
        raise MemoryError("planted")

    monkeypatch.setattr(Checkpoints, "wrote", break_down)
    with anyio.fail_after(60):
        one = record(b"x")
        with pytest.raises((AppendIndeterminateError, StorageError), match="writer failed"):
            await log.append(STREAM, TOPIC, [one], key="k")
        with pytest.raises(StorageError, match="open the log again"):
            await log.append(STREAM, TOPIC, [record(b"y")], key="k")
        await log.aclose()
    monkeypatch.undo()
    async with await open_sqlite_log(tmp_path) as again:
        await again.append(STREAM, TOPIC, [one], key="k", find_first=True)
        assert [held.id for held in await contents(again, STREAM, TOPIC, 0)] == [one.id]


# ---------------------------------------------------------------------------------------------------------- retention


async def rows(directory: Path, wanted: int) -> None:
    """Waits until the file holds that many records, swept ones not counted."""
    connection = sqlite3.connect(directory / "laser.db")
    count = -1
    try:
        with anyio.fail_after(60):
            while count != wanted:
                await anyio.sleep(0.01)
                (count,) = connection.execute("SELECT count(*) FROM records").fetchone()
    finally:
        connection.close()


async def fill(log: SqliteLog, topic: str, batches: int) -> None:
    for _ in range(batches):
        await log.append(STREAM, topic, [record(b"x" * 100) for _ in range(600)], key="k")


async def test_purged_and_deleted_records_leave_the_file(tmp_path: Path) -> None:
    async with await open_sqlite_log(tmp_path) as log:
        for topic in ("purged", "deleted", "kept"):
            await log.ensure_topic(STREAM, topic, TopicConfig(2))
            await fill(log, topic, 3)
        await log.purge(STREAM, "purged")
        await log.delete_topic(STREAM, "deleted")
        await rows(tmp_path, 1_800)
        await fill(log, "purged", 1)
        await log.purge(STREAM, "purged")
    # What a process leaves over, the next one that opens the log sweeps.
    async with await open_sqlite_log(tmp_path) as log:
        await rows(tmp_path, 1_800)
        info = await log.topic(STREAM, "kept")
        assert info is not None
        assert info.records == 1_800


async def test_expired_records_leave_the_file(tmp_path: Path) -> None:
    clock = SetClock(10 * _HOUR)
    retention = TopicRetention(expire_after=timedelta(hours=1))
    async with await open_sqlite_log(tmp_path, clock=clock) as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(1, retention))
        await fill(log, TOPIC, 3)
        clock.micros = 11 * _HOUR
        await log.append(STREAM, TOPIC, [record(b"young")], key="k")
        clock.micros = 12 * _HOUR
        page = await log.read(STREAM, TOPIC, 0, start=0, limit=10)
        assert [one.payload for one in page.records] == [b"young"]
        assert (page.first, page.end) == (1_800, 1_801)
        await rows(tmp_path, 1)
        # What is gone stays gone, even when the clock steps back; and the partition goes on where it was.
        clock.micros = 10 * _HOUR
        page = await log.read(STREAM, TOPIC, 0, start=0, limit=10)
        assert (page.first, page.end) == (1_800, 1_801)
        done = await log.append(STREAM, TOPIC, [record(b"next")], key="k")
        assert done.offsets == (1_801,)
        clock.micros = 20 * _HOUR
        assert (await log.read(STREAM, TOPIC, 0, start=0, limit=10)).records == []
        await rows(tmp_path, 0)
    async with await open_sqlite_log(tmp_path, clock=clock) as log:
        page = await log.read(STREAM, TOPIC, 0, start=0, limit=10)
        assert (page.first, page.end) == (1_802, 1_802)
        clock.micros = 10 * _HOUR
        await log.append(STREAM, TOPIC, [record(b"later")], key="k")
        clock.micros = 11 * _HOUR
        (held,) = await contents(log, STREAM, TOPIC, 0)
        assert held.offset == 1_802
        assert held.timestamp_micros > 11 * _HOUR, "time does not go back over retention"


async def test_size_takes_the_oldest_of_all_partitions(tmp_path: Path) -> None:
    clock = SetClock(_HOUR)
    async with await open_sqlite_log(tmp_path, clock=clock) as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(4, TopicRetention(max_size=50_000)))
        for number in range(400):
            clock.micros += 1
            await log.append(STREAM, TOPIC, [record(b"%04d" % number + bytes(500))], key=f"key-{number % 13}")
        with anyio.fail_after(60):
            info = await log.topic(STREAM, TOPIC)
            while info is None or info.size_bytes > 51_000:
                info = await log.topic(STREAM, TOPIC)
        held = [one for partition in range(4) for one in await contents(log, STREAM, TOPIC, partition)]
        numbers = sorted(int(one.payload[:4]) for one in held)
        assert info.size_bytes == sum(len(one.payload) + len(one.headers) for one in held)
        assert numbers == list(range(400 - len(held), 400)), "the oldest go first"
        await rows(tmp_path, len(held))


async def test_reads_of_many_records_take_turns_and_all_are_answered(tmp_path: Path) -> None:
    """They hold the interpreter's lock, so one thread is enough; one that nobody waits for any more is passed over."""
    async with await open_sqlite_log(tmp_path) as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))
        await log.append(STREAM, TOPIC, [record(b"x") for _ in range(3_000)], key="k")
        before = len(engine_threads())

        async def read() -> int:
            return len((await log.read(STREAM, TOPIC, 0, start=0, limit=3_000)).records)

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert await together(*[read] * 6) == [3_000] * 6
        assert len(engine_threads()) - before <= 1
        # A log that closes answers the reads that wait for their turn first.
        answered: list[int] = []

        async def note() -> None:
            answered.append(await read())

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(note)
            await anyio.wait_all_tasks_blocked()
            await log.aclose()
        assert answered == [3_000] * 3
