"""The times of the embedded engine: later for every append, in every process, whatever the clocks say."""

from __future__ import annotations

from pathlib import Path

import pytest

from laser.engines.sqlite import SqliteLog, open_sqlite_log
from laser.model.topics import TopicConfig
from laser.testing.clock import SetClock
from tests.engines.sqlite_worker import record

pytestmark = pytest.mark.anyio

STREAM = "app"
_NOW = 1_700_000_000_000_000


async def _time(log: SqliteLog, topic: str) -> int:
    """Appends a record and returns its time."""
    done = await log.append(STREAM, topic, [record(b"x")], key="k")
    page = await log.read(STREAM, topic, 0, start=done.offsets[0], limit=1)
    return page.records[0].timestamp_micros


async def test_clocks_of_two_processes_that_disagree(tmp_path: Path) -> None:
    """A log that two have open stands for two processes: each has a writer and a lock file of its own."""
    ahead, behind = SetClock(_NOW + 5_000_000), SetClock(_NOW)
    async with (
        await open_sqlite_log(tmp_path, clock=ahead) as one,
        await open_sqlite_log(tmp_path, clock=behind) as two,
    ):
        for topic in ("a", "b"):
            await one.ensure_topic(STREAM, topic, TopicConfig(1))
        times = [await _time(log, topic) for log, topic in [(one, "a"), (two, "b"), (two, "a"), (one, "b")] * 5]
    assert times == sorted(set(times))
    assert times[0] == _NOW + 5_000_000


async def test_a_clock_set_back_between_two_runs(tmp_path: Path) -> None:
    clock = SetClock(_NOW)
    async with await open_sqlite_log(tmp_path, clock=clock) as log:
        for topic in ("a", "b"):
            await log.ensure_topic(STREAM, topic, TopicConfig(1))
        first = await _time(log, "a")
    clock.micros -= 3_600_000_000
    async with await open_sqlite_log(tmp_path, clock=clock) as log:
        assert await _time(log, "b") > first


@pytest.mark.parametrize("damage", [b"", b"\0" * 28, b"\xff" * 28, b"short"])
async def test_a_lost_or_damaged_mark_costs_no_more_than_the_order_of_partitions(tmp_path: Path, damage: bytes) -> None:
    """Within a partition times never go back, and a damaged mark sends no log into the far future."""
    clock = SetClock(_NOW)
    async with await open_sqlite_log(tmp_path, clock=clock) as log:
        for topic in ("a", "b"):
            await log.ensure_topic(STREAM, topic, TopicConfig(1))
        first = await _time(log, "a")
    (tmp_path / "laser.lock").write_bytes(damage)
    clock.micros -= 1_000
    async with await open_sqlite_log(tmp_path, clock=clock) as log:
        assert _NOW - 1_000 <= await _time(log, "b") <= _NOW + 1_000
        assert await _time(log, "a") >= first
        assert await _time(log, "b") > first, "what was seen counts from then on"
