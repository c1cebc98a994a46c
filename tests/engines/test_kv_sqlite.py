"""The embedded engine's key-value store: the conformance suite, and what is its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from laser.engines.sqlite import open_sqlite_kv
from laser.ports.kv import KeyValue
from laser.testing import KeyValueConformance
from tests.engines.clocks import SetClock


class TestSqliteKeyValue(KeyValueConformance):
    clock: SetClock | None = None

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path / "data"

    def set_clock(self, micros: int) -> None:
        if self.clock is None:
            self.clock = SetClock(micros)
        self.clock.micros = micros

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[KeyValue]:
        store = await open_sqlite_kv(self.directory, clock=self.clock)
        try:
            yield store
        finally:
            await store.aclose()
