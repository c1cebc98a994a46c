"""Resident memory of a process that did one thing."""

from __future__ import annotations

from functools import partial
from typing import Literal

from benchmarks.bench import Bench
from benchmarks.child import memory
from benchmarks.figures import LASER, SDK, Line, make_line
from benchmarks.filling import PAYLOAD_BYTES, Workload
from benchmarks.fresh import Fresh, run_fresh, run_import
from benchmarks.measuring import Measured, Side, compare

__all__ = ["run"]

_SAMPLES = 3
_LONG = 1_000_000


async def run(bench: Bench) -> list[Line]:
    """Measures the highest that each process ever had."""
    if not memory():
        bench.skipped["memory"] = "resident memory is read from /proc, which this system does not have"
        return []
    sdk = "laser-sdk" not in bench.skipped
    modules = {LASER: "laser"} | ({SDK: "laser_sdk"} if sdk else {})
    sides = {side: Side(partial(_import, module)) for side, module in modules.items()}
    lines = [_line("import", "memory after the import", "process", await compare(sides, _SAMPLES, warm_up=0))]
    for engine in bench.engines:
        workload = await bench.workload(engine)
        names = [LASER, SDK] if sdk and engine == "iggy" else [LASER]
        lines.append(await _read(workload, engine, names, "fetch", "memory of one `fetch(n=50)`"))
        if engine == "embedded":
            # All of it one conversation's: every record goes through the fold.
            workload = await bench.single(engine, bench.size.fold_records)
        lines.append(await _read(workload, engine, names, "fold", "memory of a full fold"))
    return lines


async def _read(
    workload: Workload, engine: str, names: list[str], action: Literal["fetch", "fold"], title: str
) -> Line:
    async def call(side: str) -> Measured:
        return _peak(await run_fresh(action, side, workload.url, workload.stream, workload.busy[0]))

    rounds = 1 if workload.records > _LONG else _SAMPLES
    samples = await compare({name: Side(partial(call, name)) for name in names}, rounds, warm_up=0)
    return _line(action, title, engine, samples, records=workload.records, payload_bytes=PAYLOAD_BYTES)


async def _import(module: str) -> Measured:
    return _peak(await run_import(module))


def _peak(fresh: Fresh) -> Measured:
    return Measured(fresh.peak_bytes, fresh.facts)


def _line(name: str, title: str, engine: str, samples: dict[str, list[float]], **parameters: int) -> Line:
    return make_line(f"memory.{name}", title, engine, samples, unit="MB", scale=1e-6, **parameters)
