"""How the time of a fetch grows with the log, on the embedded engine, where it should not."""

from __future__ import annotations

from contextlib import AsyncExitStack

from benchmarks.bench import Bench
from benchmarks.figures import LASER, SMALLEST, Line, make_line
from benchmarks.filling import PAYLOAD_BYTES
from benchmarks.measuring import Side, compare
from laser import ContextScope, Laser

__all__ = ["run"]

_N = 50
_TIMES = 20


async def run(bench: Bench) -> list[Line]:
    """Measures all logs in turns, each beside the smallest."""
    scopes: dict[int, ContextScope] = {}
    async with AsyncExitStack() as stack:
        for records in bench.size.scales:
            workload = await bench.workload("embedded", records)
            laser = await stack.enter_async_context(Laser.connect(workload.url, stream=workload.stream))
            scopes[records] = laser.context(workload.busy[0])
        sides = {str(records): _side(scope) for records, scope in scopes.items()}
        samples = await compare(sides, bench.size.rounds, times=_TIMES)
    smallest = str(bench.size.scales[0])
    return [
        make_line(
            "scale.fetch", f"`fetch(n={_N})` by size of the log", "embedded",
            {LASER: samples[records], SMALLEST: samples[smallest]},
            n=_N, records=int(records), payload_bytes=PAYLOAD_BYTES,
        )
        for records in sides
    ]  # fmt: skip


def _side(scope: ContextScope) -> Side:
    """The logs differ, so only the number of messages must be the same."""
    return Side(lambda: scope.fetch(n=_N), len)
