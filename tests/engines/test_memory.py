"""The memory engine: the conformance suite, and what is its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from laser.engines.memory import MemoryLog
from laser.ports.log import Log
from laser.testing import LogConformance
from laser.testing.clock import SetClock


class TestMemoryLog(LogConformance):
    shares_data = False
    rounds = 60
    clock: SetClock | None = None

    def set_clock(self, micros: int) -> None:
        if self.clock is None:
            self.clock = SetClock(micros)
        self.clock.micros = micros

    @asynccontextmanager
    async def open_log(self) -> AsyncIterator[Log]:
        log = MemoryLog(clock=self.clock)
        try:
            yield log
        finally:
            await log.aclose()
