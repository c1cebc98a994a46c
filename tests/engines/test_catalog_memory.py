"""The memory engine's content catalog and objects: the conformance suites."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from laser.engines.memory import MemoryCatalog, MemoryObjects
from laser.ports.catalog import Catalog
from laser.ports.objects import Objects
from laser.testing import CatalogConformance, ObjectsConformance
from laser.testing.clock import SetClock


class TestMemoryCatalog(CatalogConformance):
    shares_data = False
    rounds = 300
    clock: SetClock | None = None

    def set_clock(self, micros: int) -> None:
        if self.clock is None:
            self.clock = SetClock(micros)
        self.clock.micros = micros

    @asynccontextmanager
    async def open_catalog(self) -> AsyncIterator[Catalog]:
        catalog = MemoryCatalog(clock=self.clock)
        try:
            yield catalog
        finally:
            await catalog.aclose()


class TestMemoryObjects(ObjectsConformance):
    shares_data = False

    @asynccontextmanager
    async def open_objects(self) -> AsyncIterator[Objects]:
        store = MemoryObjects()
        try:
            yield store
        finally:
            await store.aclose()
