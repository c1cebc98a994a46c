"""What a process holds: memory, descriptors, threads, tasks. Read from ``/proc``."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Final

import anyio
import msgspec

from tests.survive.figures import CannotRunError

__all__ = ["Held", "Peak", "grown", "look", "need_proc", "peak_memory"]

_STATUS: Final = Path("/proc/self/status")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_PEAK_EVERY: Final = 0.005


class Held(msgspec.Struct, frozen=True):
    """What a process held at a moment.

    Attributes:
        seconds: since the start. memory: bytes that are resident. threads: the operating system's, of every library.
    """

    seconds: float
    memory: int
    descriptors: int
    tasks: int
    threads: int


def need_proc() -> None:
    """Raises where the system does not tell what a process holds."""
    if not _STATUS.exists():
        raise CannotRunError("resident memory is read from /proc, which this system does not have")


def look(seconds: float) -> Held:
    """What this process holds now, without what only waits for the collector."""
    gc.collect()
    status = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    descriptors = len(os.listdir("/proc/self/fd"))
    return Held(seconds, _resident(), descriptors, len(asyncio.all_tasks()), int(status["Threads"].strip()))


class Peak:
    """The most memory that a stretch of work had.

    Attributes:
        megabytes: more than before it.
    """

    def __init__(self) -> None:
        gc.collect()
        self._before = _resident()
        self._most = self._before

    def note(self) -> None:
        """Looks again."""
        self._most = max(self._most, _resident())

    @property
    def megabytes(self) -> float:
        """How much more there was than before."""
        return round((self._most - self._before) / 1e6, 1)


@asynccontextmanager
async def peak_memory() -> AsyncIterator[Peak]:
    """Looks at the memory of this process all the while that the block runs."""
    peak = Peak()

    async def watch() -> None:
        while True:
            await anyio.sleep(_PEAK_EVERY)
            peak.note()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        yield peak
        peak.note()
        group.cancel_scope.cancel()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def grown(samples: Sequence[Held], name: str) -> int:
    """By how much a figure is larger at the end than once the first quarter had settled: medians of a sixth each.

    A shrinking one has not grown.
    """
    part = max(1, len(samples) // 6)
    first = len(samples) // 4
    early: list[int] = [getattr(held, name) for held in samples[first : first + part]]
    late: list[int] = [getattr(held, name) for held in samples[-part:]]
    return max(0, int(median(late) - median(early)))
