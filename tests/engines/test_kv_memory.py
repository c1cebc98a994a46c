"""The memory engine's key-value store: the conformance suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from laser.engines.memory import MemoryKeyValue
from laser.ports.kv import KeyValue
from laser.testing import KeyValueConformance
from laser.testing.clock import SetClock


class TestMemoryKeyValue(KeyValueConformance):
    shares_data = False
    rounds = 300
    clock: SetClock | None = None

    def set_clock(self, micros: int) -> None:
        if self.clock is None:
            self.clock = SetClock(micros)
        self.clock.micros = micros

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[KeyValue]:
        store = MemoryKeyValue(clock=self.clock)
        try:
            yield store
        finally:
            await store.aclose()
