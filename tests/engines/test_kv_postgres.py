"""The PostgreSQL engine: the conformance suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from laser.engines.postgres import open_postgres_kv
from laser.ports.kv import KeyValue
from laser.testing import KeyValueConformance
from laser.testing.postgres_server import PostgresServer


class TestPostgresKeyValue(KeyValueConformance):
    @pytest.fixture(autouse=True)
    def _server(self, postgres_server: PostgresServer) -> None:
        self.url = postgres_server.url

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[KeyValue]:
        store = await open_postgres_kv(self.url)
        try:
            yield store
        finally:
            await store.aclose()
