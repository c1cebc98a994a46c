"""Import time: what a program that has loaded nothing waits for."""

from __future__ import annotations

from compileall import compile_dir
from functools import partial
from pathlib import Path
from typing import Final

import laser as ls
from benchmarks.bench import Bench
from benchmarks.figures import LANGGRAPH, LASER, OPENAI, RAW, SDK, Line, make_line
from benchmarks.fresh import is_installed, run_import
from benchmarks.measuring import Measured, Side, compare

__all__ = ["run"]

_MODULES: Final = {
    LASER: "laser",
    SDK: "laser_sdk",
    RAW: "apache_iggy",
    OPENAI: "agents",
    LANGGRAPH: "langgraph.checkpoint.sqlite.aio",
}


async def run(bench: Bench) -> list[Line]:
    """Measures every library that is installed."""
    # As an installed package is; a checkout may not have been loaded since it was changed, or never may be written to.
    compile_dir(Path(ls.__file__).parent, quiet=1)
    present = {side: module for side, module in _MODULES.items() if is_installed(module)}
    sides = {side: Side(partial(_import, module)) for side, module in present.items()}
    samples = await compare(sides, bench.size.processes)
    return [make_line("import.laser", "`import laser`", "process", samples)]


async def _import(module: str) -> Measured:
    return Measured((await run_import(module)).seconds)
