"""``python -m benchmarks.state``: what state folds cost, at several lengths of the log, as one JSON document.

The measures are those of ``python -m benchmarks folds snapshots memory``, which writes tables; this runs them at more
than one length and adds, for each comparison, how many times laser's time the other side took.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import msgspec

from benchmarks.bench import FULL, QUICK, Bench
from benchmarks.figures import Line
from benchmarks.machine import describe_machine, describe_program
from benchmarks.subjects import folds, memory, snapshots
from laser.testing.finding import find_iggy, open_iggy

__all__ = ["main"]


def main() -> None:
    """Reads the command line, measures, prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.state", description="Measures state folds.")
    parser.add_argument("--records", type=int, nargs="+", default=[40_000, 400_000], help="of the logs")
    parser.add_argument("--fold-records", type=int, default=0, help="of the embedded fold whose memory is measured")
    parser.add_argument("--rounds", type=int, default=QUICK.rounds, help="samples of what takes a millisecond")
    parser.add_argument("--engine", choices=["embedded", "iggy"], help="measure only there")
    options = parser.parse_args()
    with ExitStack() as stack:
        found = find_iggy()
        url = None
        if options.engine != "embedded" and found.kind != "none":
            url = stack.enter_context(open_iggy(found)).url
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="laser-bench-"))
        said = anyio.run(_measure, options, url, Path(place))
    json.dump(said, sys.stdout, indent=2)
    print()


async def _measure(options: argparse.Namespace, iggy: str | None, place: Path) -> dict[str, Any]:
    lines: list[Line] = []
    skipped: dict[str, str] = {}
    for records in options.records:
        size = msgspec.structs.replace(
            FULL,
            records=records,
            rounds=options.rounds,
            slow_rounds=QUICK.slow_rounds,
            fold_records=options.fold_records,
        )
        directory = place / str(records)
        await anyio.Path(directory).mkdir()
        bench = Bench(size, directory, iggy, engines=None if options.engine is None else [options.engine])
        subjects = [folds.run, snapshots.run]
        if options.fold_records and records == options.records[-1]:
            subjects.append(memory.run)
        for subject in subjects:
            print(f"{records} records: {subject.__module__} …", file=sys.stderr, flush=True)
            lines += await subject(bench)
        skipped |= bench.skipped
    return {
        "program": describe_program(),
        "machine": describe_machine(),
        "lines": [msgspec.to_builtins(line) for line in lines],
        "skipped": skipped,
    }


if __name__ == "__main__":
    main()
