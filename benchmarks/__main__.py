"""``python -m benchmarks [--quick] [NAME …]`` measures and writes figures."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

import laser as ls
from benchmarks.bench import DURABILITY, FULL, QUICK, Bench, Size
from benchmarks.figures import Line, Result
from benchmarks.machine import describe_machine, describe_program
from benchmarks.questions import find_questions
from benchmarks.report import RESULTS, read_results, write_report, write_result
from benchmarks.subjects import SUBJECTS
from benchmarks.tables import report_text
from laser.testing.finding import find_iggy, open_iggy

_PLACES: Final = ("--directory", "--out", "--questions")


def main() -> None:
    """Reads the command line, measures, writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures laser beside others.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SUBJECTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="smaller logs and fewer samples, in two minutes")
    parser.add_argument("--records", type=int, help="of the largest embedded log, a power of ten from 10,000 on")
    parser.add_argument("--engine", choices=["embedded", "iggy"], help="measure only there")
    parser.add_argument("--directory", help="where the logs are made; a temporary place by default")
    parser.add_argument("--questions", help="of the subject recall: a JSON file; LASER_QUESTIONS by default")
    parser.add_argument("--out", type=Path, help="where the figures go; benchmarks/results, with --quick its quick/")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(SUBJECTS))
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    size = _size(options.quick, options.records)
    out = options.out or (RESULTS / "quick" if options.quick else RESULTS)
    names = options.names or list(SUBJECTS)
    questions = find_questions(options.questions or os.environ.get("LASER_QUESTIONS"))
    if questions is not None and not questions.is_file():
        parser.error(f"--questions: there is no file {questions.name}")
    try:
        run(names, size, out, engine=options.engine, directory=options.directory, questions=questions)
    except ModuleNotFoundError as error:
        sys.exit(f"benchmarks: {error.name} is not installed; make bench-quick sets everything up by itself")
    print(report_text([result for result in read_results(out) if result.subject in names]))
    print(f"All of it is in {out}", file=sys.stderr)
    if out == RESULTS:
        print("python -m benchmarks.report puts it into the README", file=sys.stderr)


def run(
    names: list[str],
    size: Size,
    out: Path,
    *,
    engine: str | None = None,
    directory: str | None = None,
    questions: Path | None = None,
) -> None:
    """Measures subjects and writes their files and the tables of all that are there.

    Args:
        names: of ``SUBJECTS``. engine: measure only there. directory: where logs are made. questions: see ``Bench``.
    """
    with ExitStack() as stack:
        skipped = {}
        found = find_iggy()
        url = None
        if engine == "embedded":
            skipped["iggy"] = "not asked for"
        elif found.kind == "none":
            skipped["iggy"] = found.detail
        else:
            url = stack.enter_context(open_iggy(found)).url
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="laser-bench-", dir=directory))
        engines = None if engine is None else [engine]
        bench = Bench(size, Path(place), url, skipped, engines, questions)
        anyio.run(_measure, bench, names, out)
    write_report(read_results(out), out)


async def _measure(bench: Bench, names: list[str], out: Path) -> None:
    about = {
        "command": " ".join(["python", "-m", "benchmarks", *_shown(sys.argv[1:])]),
        "size": msgspec.to_builtins(bench.size),
        "program": describe_program(),
        "engines": await _engines(bench),
    }
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        machine = describe_machine()
        begun = time.monotonic()
        lines: list[Line] = await SUBJECTS[name](bench)
        seconds = round(time.monotonic() - begun, 1)
        write_result(Result(name, about | {"machine": machine, "seconds": seconds}, lines, dict(bench.skipped)), out)


async def _engines(bench: Bench) -> dict[str, Any]:
    found = {}
    for engine in bench.engines:
        url, stream = bench.place(engine, "about")
        async with ls.Laser.connect(url, stream=stream) as laser:
            info = await laser.info()
            found[engine] = {"version": info.version, "durability": DURABILITY}
    return found


def _size(quick: bool, records: int | None) -> Size:
    size = QUICK if quick else FULL
    if records is None:
        return size
    scales = [10_000]
    while scales[-1] * 10 <= records:
        scales.append(scales[-1] * 10)
    extra = {400_000} if records >= 400_000 else set()
    return msgspec.structs.replace(size, scales=tuple(sorted({*scales, *extra})), fold_records=scales[-1])


def _shown(arguments: list[str]) -> list[str]:
    """The arguments without those that only say where files are."""
    shown = []
    skip = False
    for argument in arguments:
        if not skip and not argument.startswith(_PLACES):
            shown.append(argument)
        skip = argument in _PLACES
    return shown


if __name__ == "__main__":
    main()
