"""The embedded engine: the conformance suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from laser.engines.sqlite import open_sqlite_log
from laser.ports.log import Log
from laser.testing import LogConformance
from laser.testing.clock import SetClock


class TestSqliteLog(LogConformance):
    rounds = 60
    clock: SetClock | None = None

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path / "data"

    def set_clock(self, micros: int) -> None:
        if self.clock is None:
            self.clock = SetClock(micros)
        self.clock.micros = micros

    @asynccontextmanager
    async def open_log(self) -> AsyncIterator[Log]:
        log = await open_sqlite_log(self.directory, clock=self.clock)
        try:
            yield log
        finally:
            await log.aclose()
