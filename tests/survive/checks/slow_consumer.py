"""A slow reader of a follow, a slow log behind a batching: what waits is bounded, nothing is lost or out of order."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, Final

import anyio

import laser as ls
from laser.client.opening import read_target
from laser.model.records import Appended, NewRecord
from laser.model.window import Match, Page
from laser.testing.server import run_iggy_server
from tests.survive.apart import run_apart
from tests.survive.figures import Budget, Figures
from tests.survive.histories import KEYS, PARTITIONS, TOPIC
from tests.survive.iggy import need_server, version
from tests.survive.resources import need_proc, peak_memory

_BATCH: Final = 100
_PAYLOAD_BYTES: Final = 1_024
_PENDING: Final = 500
# A page of each partition that has something, and the one before the last that was given out.
_AHEAD: Final = 2_000
_MEGABYTES: Final = 48.0


def run(budget: Budget, seed: int) -> Figures:
    """On each engine in a process of its own. The seed has no part in it."""
    need_proc()
    need_server()
    messages = budget.choose(4_000, 100_000)
    sides: dict[str, dict[str, Any]] = {"memory": run_apart(__name__, "memory:", messages)}
    with tempfile.TemporaryDirectory(prefix="laser-load-") as place:
        sides["embedded"] = run_apart(__name__, f"embedded:{place}/data", messages)
    with run_iggy_server() as server:
        sides["iggy"] = run_apart(__name__, server.url, messages)
    found: dict[str, Any] = {
        "reader behind, at most": max(side["behind"] for side in sides.values()),
        "read ahead of it, at most": max(side["ahead"] for side in sides.values()),
        "waiting in a batching, at most": max(side["waiting"] for side in sides.values()),
        "lost": sum(side["lost"] for side in sides.values()),
        "out of order": sum(side["disorder"] for side in sides.values()),
    }
    for engine in ("embedded", "iggy"):  # the log at "memory" is in that very process
        for work in ("following", "batching"):
            found[f"memory of {work} on {engine}, MB"] = sides[engine][work]
    figures = Figures(
        f"{messages:,} messages a log", found, engine=", ".join(side["engine"] for side in sides.values())
    )
    if found["reader behind, at most"] < messages // 2:
        figures.broken.append("the reader kept up with the writer, so that nothing was shown")
    for name, limit in (("read ahead of it, at most", _AHEAD), ("waiting in a batching, at most", _PENDING)):
        if found[name] > limit:
            figures.broken.append(f"{name}: {found[name]}, to be at most {limit}")
    for name, figure in found.items():
        if name.startswith("memory") and figure > _MEGABYTES:
            figures.broken.append(f"{name}: {figure}, to be at most {_MEGABYTES}")
    return figures.must_be_zero("lost", "out of order")


class _Watched:
    """A log that knows how far each partition was read, and whose appends take their time.

    Attributes:
        read_to: by partition. written: records appended.
    """

    def __init__(self, log: Any, delay: float = 0.0) -> None:
        self._log = log
        self._delay = delay
        self.read_to: dict[int, int] = {}
        self.written = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read(
        self, stream: str, topic: str, partition: int, *, start: int, limit: int, match: Match | None = None
    ) -> Page:
        page: Page = await self._log.read(stream, topic, partition, start=start, limit=limit, match=match)
        self.read_to[partition] = max(self.read_to.get(partition, 0), page.next)
        return page

    async def append(
        self, stream: str, topic: str, records: Sequence[NewRecord], *, key: str, find_first: bool = False
    ) -> Appended:
        await anyio.sleep(self._delay)
        done: Appended = await self._log.append(stream, topic, records, key=key, find_first=find_first)
        self.written += len(records)
        return done


async def _measure(url: str, messages: int) -> None:
    target = read_target(url, None, "survive", None, 30.0)
    log = await target.open_log()
    async with ls.Laser(log, target) as laser:
        await laser.ensure_topic(TOPIC, PARTITIONS)
        await laser.ensure_topic("batches", PARTITIONS)
        found = {"lost": 0, "disorder": 0}
        async with peak_memory() as following:
            await _follow(laser, ls.Laser(_Watched(log), target), messages, found)  # type: ignore[arg-type]
        async with peak_memory() as batching:
            await _batch(ls.Laser(_Watched(log, 0.01), target), messages, found)  # type: ignore[arg-type]
        await _look_at_batches(laser, messages, found)
        memory = {"following": following.megabytes, "batching": batching.megabytes}
        print(json.dumps(found | memory | {"engine": await version(laser)}))


async def _follow(writing: ls.Laser, reading: ls.Laser, messages: int, found: dict[str, int]) -> None:
    watched: Any = reading.open_log()
    written, got, behind, ahead = 0, list[int](), 0, 0

    async def write() -> None:
        nonlocal written
        scope = writing.context(KEYS[0])
        while written < messages:
            numbers = range(written, min(written + _BATCH, messages))
            await scope.append_many(TOPIC, [f"{number} ".ljust(_PAYLOAD_BYTES, ".") for number in numbers])
            written += len(numbers)

    start = await reading.context(KEYS[0]).checkpoint([TOPIC])
    follow = reading.context(KEYS[0]).follow([TOPIC], from_checkpoint=start)
    async with follow, anyio.create_task_group() as group:
        group.start_soon(write)
        with anyio.fail_after(600):
            async for item in follow:
                if isinstance(item, ls.CaughtUp):
                    continue
                got.append(int(item.text.partition(" ")[0]))
                behind = max(behind, written - len(got))
                ahead = max(ahead, sum(watched.read_to.values()) - len(got))
                if len(got) == messages:
                    break
                if written < messages:
                    # Slow for as long as there is a writer to be slower than.
                    await anyio.sleep(0.005)
    found["lost"] += len(set(range(messages)) - set(got))
    found["disorder"] += got != sorted(set(got))
    found["behind"], found["ahead"] = behind, ahead


async def _batch(slow: ls.Laser, messages: int, found: dict[str, int]) -> None:
    watched: Any = slow.open_log()
    waiting = 0
    async with slow.batching(linger=0.002, max_records=50, max_pending=_PENDING) as batch:
        for number in range(messages):
            key = KEYS[number % len(KEYS)]
            await batch.append(key, "batches", f"{number} ".ljust(_PAYLOAD_BYTES, "."))
            waiting = max(waiting, number + 1 - watched.written)
    found["waiting"] = waiting


async def _look_at_batches(laser: ls.Laser, messages: int, found: dict[str, int]) -> None:
    def collect(numbers: list[int], message: ls.ContextMessage) -> list[int]:
        numbers.append(int(message.text.partition(" ")[0]))
        return numbers

    for at, key in enumerate(KEYS):
        numbers = await laser.context(key).state(["batches"], list[int](), collect, full=True)
        found["lost"] += len(set(range(at, messages, len(KEYS))) - set(numbers))
        found["disorder"] += numbers != sorted(set(numbers))


if __name__ == "__main__":
    anyio.run(_measure, sys.argv[1], int(sys.argv[2]))
