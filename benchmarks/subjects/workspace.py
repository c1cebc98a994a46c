"""Workspaces: the first snapshot of a directory tree, and the next one after a file was changed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import anyio.to_thread

import laser as ls
from benchmarks.bench import FULL, Bench
from benchmarks.figures import FIRST, LASER, Line, make_line

__all__ = ["run"]

_FILES: Final = 10_000
_FILES_QUICK: Final = 2_000
_PER_DIRECTORY: Final = 100


async def run(bench: Bench) -> list[Line]:
    """Measures where catalog and objects are in one directory."""
    if "embedded" not in bench.engines:
        return []
    directory = await bench.new_directory("workspace")
    count = _FILES if bench.size == FULL else _FILES_QUICK
    source = directory / "source"
    await anyio.to_thread.run_sync(_fill, source, count)
    samples: dict[str, list[float]] = {LASER: [], FIRST: []}
    async with ls.Laser.connect(f"embedded:{directory / 'laser'}") as laser:
        workspace = await laser.workspaces("bench").create("tree")
        begun = time.perf_counter()
        await workspace.import_(source)
        samples[FIRST].append(time.perf_counter() - begun)
        for number in range(bench.size.slow_rounds):
            await anyio.Path(source / "d0" / "f0.txt").write_text(f"changed {number}")
            begun = time.perf_counter()
            report = await workspace.import_(source)
            samples[LASER].append(time.perf_counter() - begun)
            if report.read > _PER_DIRECTORY:
                raise RuntimeError(f"an import read {report.read} files of which one was changed")
    # One first time beside every next one.
    samples[FIRST] *= len(samples[LASER])
    return [
        make_line(
            "workspace.again", "snapshot of a directory tree after one file was changed", "embedded", samples,
            scale=1e3, unit="ms", files=count,
        )
    ]  # fmt: skip


def _fill(source: Path, count: int) -> None:
    for number in range(count):
        place = source / f"d{number // _PER_DIRECTORY}" / f"f{number}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"file {number}\n" * 20)
        os.utime(place, (1_700_000_000, 1_700_000_000))
    # Files that changed within two seconds are read again: their times would not tell of another change.
    time.sleep(2.1)
