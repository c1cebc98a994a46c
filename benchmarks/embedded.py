"""The embedded engine at the level of its port: ``python -m benchmarks.embedded``.

50 conversations on 4 partitions, payloads of 256 bytes. Prints one JSON object; times in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median
from typing import Any

import anyio

from laser.engines.sqlite import SqliteLog, open_sqlite_log
from laser.model.ids import derive_conversation_id, new_record_id
from laser.model.provenance import Provenance
from laser.model.records import NewRecord
from laser.model.topics import TopicConfig
from laser.model.window import Match, WindowQuery
from laser.wire.provenance import encode_provenance

_STREAM, _TOPIC = "bench", "agent.sessions"
_CONVERSATIONS = [derive_conversation_id(f"bench-{index}") for index in range(50)]
_BLOCKS = [
    encode_provenance(Provenance(conversation_id=conversation, agent="planner", target_agent_id="*"))
    for conversation in _CONVERSATIONS
]
_PAYLOAD = random.Random(1).randbytes(256)


def main() -> None:
    """Reads the command line, runs, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=400_000, help="records of the large log")
    parser.add_argument("--small", type=int, default=10_000, help="records of the small log")
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    parser.add_argument("--directory", help="where the log's directory is made; a temporary one by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        results = anyio.run(_run, directory, options.records, options.small, backend=options.backend)
    about = {
        "benchmark": "embedded",
        "backend": options.backend,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "conversations": len(_CONVERSATIONS),
        "partitions": 4,
        "payload_bytes": len(_PAYLOAD),
    }
    json.dump(about | results, sys.stdout, indent=2)
    sys.stdout.write("\n")


async def _run(directory: str, large: int, small: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    async with await open_sqlite_log(directory) as log:
        await log.ensure_topic(_STREAM, _TOPIC, TopicConfig(4))
        await _fill(log, small)
        results[f"window_50_at_{small}"] = await _time(partial(_window, log, 50), 1_000)
        results[f"window_all_at_{small}"] = await _time(partial(_window, log, None), 100)
        await _fill(log, large - small)
        results[f"window_50_at_{large}"] = await _time(partial(_window, log, 50), 1_000)
        results[f"window_all_at_{large}"] = await _time(partial(_window, log, None), 100)
        results[f"read_page_of_1000_at_{large}"] = await _time(partial(_page, log), 100)
        results["append_one_by_one"] = await _time(partial(_append_one, log), 20_000)
        results["window_50_after_an_append"] = await _time(
            partial(_window, log, 50), 1_000, before=partial(_append_one, log)
        )
        results["append_batches_of_1000"] = await _batches(log, 200)
        results["append_from_50_tasks"] = await _tasks(log, 50, 400)
        results["append_one_by_one_power"] = await _power(log, 500)
    return results


async def _fill(log: SqliteLog, count: int) -> None:
    """Conversations interleaved, as agents that run side by side leave them."""
    rng = random.Random(count)
    while count > 0:
        index, size = rng.randrange(len(_CONVERSATIONS)), min(count, 20)
        await _append(log, index, [_record(index) for _ in range(size)])
        count -= size


async def _time(
    call: Callable[[int], Awaitable[object]], times: int, before: Callable[[int], Awaitable[object]] | None = None
) -> dict[str, float]:
    for turn in range(min(times, 50)):
        await call(turn)
    spent = []
    for turn in range(times):
        if before is not None:
            await before(turn)
        begun = time.perf_counter()
        await call(turn)
        spent.append(time.perf_counter() - begun)
    spent.sort()
    return {
        "median_ms": round(median(spent) * 1e3, 4),
        "p99_ms": round(spent[times * 99 // 100] * 1e3, 4),
        "per_second": round(times / sum(spent)),
    }


async def _window(log: SqliteLog, newest: int | None, turn: int) -> None:
    query = WindowQuery(Match(_CONVERSATIONS[turn % len(_CONVERSATIONS)]), newest=newest)
    window = await log.window(_STREAM, _TOPIC, query)
    if window is None or len(window.records) < 50:
        raise RuntimeError("the window holds less than it should")


async def _page(log: SqliteLog, turn: int) -> None:
    page = await log.read(_STREAM, _TOPIC, turn % 4, start=0, limit=1_000)
    if len(page.records) != 1_000:
        raise RuntimeError("the page holds less than it should")


async def _append_one(log: SqliteLog, turn: int) -> None:
    index = turn % len(_CONVERSATIONS)
    await _append(log, index, [_record(index)])


async def _batches(log: SqliteLog, batches: int) -> dict[str, float]:
    spent = 0.0
    for turn in range(batches):
        index = turn % len(_CONVERSATIONS)
        records = [_record(index) for _ in range(1_000)]
        begun = time.perf_counter()
        await _append(log, index, records)
        spent += time.perf_counter() - begun
    return {"records_per_second": round(batches * 1_000 / spent)}


async def _tasks(log: SqliteLog, tasks: int, each: int) -> dict[str, float]:
    async def write(task: int) -> None:
        for turn in range(each):
            await _append_one(log, task + turn)

    begun = time.perf_counter()
    async with anyio.create_task_group() as group:
        for task in range(tasks):
            group.start_soon(write, task)
    return {"records_per_second": round(tasks * each / (time.perf_counter() - begun))}


async def _power(log: SqliteLog, times: int) -> dict[str, float]:
    await log.ensure_topic(_STREAM, "power", TopicConfig(4, durability="power"))

    async def append(turn: int) -> None:
        index = turn % len(_CONVERSATIONS)
        await log.append(_STREAM, "power", [_record(index)], key=_CONVERSATIONS[index])

    return await _time(append, times)


async def _append(log: SqliteLog, index: int, records: list[NewRecord]) -> None:
    await log.append(_STREAM, _TOPIC, records, key=_CONVERSATIONS[index])


def _record(index: int) -> NewRecord:
    return NewRecord(new_record_id(), _PAYLOAD, _BLOCKS[index])


if __name__ == "__main__":
    main()
