"""Embedded: ten million records. A fetch takes as long as with ten thousand, and no work needs more memory for them."""

from __future__ import annotations

import json
import sys
import tempfile
from statistics import median
from typing import Any, Final

import anyio

import laser as ls
from benchmarks.bench import RETENTION, SESSIONS
from benchmarks.filling import Workload, fill
from benchmarks.measuring import Side, compare
from tests.survive.apart import run_apart
from tests.survive.figures import Budget, Figures
from tests.survive.resources import need_proc, peak_memory

_N: Final = 50
_TIMES: Final = 20
_MEGABYTES: Final = 64.0


def run(budget: Budget, seed: int) -> Figures:
    """The log of the benchmarks, in two sizes, in a process of its own. The seed has no part in it."""
    need_proc()
    small, records = budget.choose(4_000, 10_000), budget.choose(60_000, 10_000_000)
    with tempfile.TemporaryDirectory(prefix="laser-load-") as place:
        found = run_apart(__name__, place, small, records, budget.choose(10, 60))
    figures = Figures(f"{records:,} records", found, engine=found.pop("engine"))
    figures.must_be_zero("missing or twice in folds", "out of order")
    # In a test run other tests run too, and a few samples tell only a growth with the log from none.
    limit = 1.5 if budget.long else 4.0
    for name in ("fetch, ratio", "fetch of a quiet one, ratio"):
        if found[name] > limit:
            figures.broken.append(f"{name}: {found[name]}, to be at most {limit}")
    for name in ("memory to fill, MB", "memory to fetch, MB", "memory to fold, MB"):
        if found[name] > _MEGABYTES:
            figures.broken.append(f"{name}: {found[name]}, to be at most {_MEGABYTES}")
    return figures


async def _measure(place: str, few_records: int, records: int, rounds: int) -> None:
    async with (
        ls.Laser.connect(f"embedded:{place}/small", stream="survive") as few,
        ls.Laser.connect(f"embedded:{place}/large", stream="survive") as many,
    ):
        small = await _filled(few, few_records)
        async with peak_memory() as filling:
            large = await _filled(many, records)
        async with peak_memory() as fetching:
            busy = await _fetch(few, small.busy[0], many, large.busy[0], rounds)
            quiet = await _fetch(few, small.quiet, many, large.quiet, rounds)
        async with peak_memory() as folding:
            # Of every conversation: together they are all that there is.
            folds = [
                await many.context(conversation).state([SESSIONS], [0, -1, 0], _count, full=True)
                for conversation in (*large.busy, large.quiet)
            ]
        info = await many.info()
    found: dict[str, Any] = {
        "fetch of 50, ms": round(busy[1] * 1e3, 2),
        "fetch, ratio": round(busy[1] / busy[0], 2),
        "fetch of a quiet one, ratio": round(quiet[1] / quiet[0], 2),
        "memory to fill, MB": filling.megabytes,
        "memory to fetch, MB": fetching.megabytes,
        "memory to fold, MB": folding.megabytes,
        "missing or twice in folds": abs(records - sum(count for count, _, _ in folds)),
        "out of order": sum(breaks for _, _, breaks in folds),
        "engine": f"{info.engine} {info.version}",
    }
    print(json.dumps(found))


async def _filled(laser: ls.Laser, records: int) -> Workload:
    await laser.bootstrap(4, RETENTION)
    return await fill(laser, "", records)


async def _fetch(few: ls.Laser, small: str, many: ls.Laser, large: str, rounds: int) -> tuple[float, float]:
    """Seconds of a fetch from the small log and from the large one, taken in turns."""
    scopes = {"small": few.context(small), "large": many.context(large)}
    sides = {name: Side(lambda scope=scope: scope.fetch(n=_N), len) for name, scope in scopes.items()}  # type: ignore[misc]
    samples = await compare(sides, rounds, times=_TIMES)
    return median(samples["small"]), median(samples["large"])


def _count(state: list[int], message: ls.ContextMessage) -> list[int]:
    """Messages, the last offset, and how often it did not rise."""
    count, last, breaks = state
    return [count + 1, message.offset, breaks + (message.offset <= last)]


if __name__ == "__main__":
    anyio.run(_measure, sys.argv[1], *map(int, sys.argv[2:]))
