"""Work in a process of its own, so that nothing is loaded, connected or remembered."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import anyio
import msgspec

from benchmarks.figures import LASER
from benchmarks.peers.facts import peer_url

__all__ = ["Fresh", "is_installed", "run_fresh", "run_import"]

_ROOT: Final = Path(__file__).resolve().parents[1]
_IMPORT: Final = """
import sys, time
begun = time.perf_counter()
import {module}
seconds = time.perf_counter() - begun
import json
from benchmarks.child import memory
json.dump({{"seconds": seconds}} | memory(), sys.stdout)
"""


class Fresh(msgspec.Struct, frozen=True):
    """What a process says.

    Attributes:
        seconds: of the work itself, without starting the interpreter and without connecting.
        connect_seconds: of loading the library and connecting. facts: what was read.
        resident_bytes: memory at the end. peak_bytes: the most there ever was. Both 0 where they cannot be had.
    """

    seconds: float
    connect_seconds: float = 0.0
    facts: list[str] = []
    resident_bytes: int = 0
    peak_bytes: int = 0


def is_installed(module: str) -> bool:
    """Whether a module can be imported here, told without loading it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


async def run_fresh(action: Literal["fetch", "fold"], side: str, url: str, stream: str, conversation: str) -> Fresh:
    """A ``fetch(n=50)`` or a full fold.

    Args:
        side: ``laser`` or ``laser-sdk``.
    """
    place = url if side == LASER else peer_url(url)
    return await _run("-m", "benchmarks.child", action, side, place, stream, conversation)


async def run_import(module: str) -> Fresh:
    """The import of a module by a program that has loaded nothing."""
    return await _run("-c", _IMPORT.format(module=module))


async def _run(*arguments: str) -> Fresh:
    done = await anyio.run_process([sys.executable, *arguments], cwd=_ROOT, check=False, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise RuntimeError(f"a process of its own failed: {done.stderr.decode(errors='replace')[-2_000:]}")
    return msgspec.json.decode(done.stdout, type=Fresh)
