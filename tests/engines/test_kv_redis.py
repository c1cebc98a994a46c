"""The Redis engine: the conformance suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from laser.engines.redis import open_redis_kv
from laser.ports.kv import KeyValue
from laser.testing import KeyValueConformance
from laser.testing.redis_server import RedisServer


class TestRedisKeyValue(KeyValueConformance):
    @pytest.fixture(autouse=True)
    def _server(self, redis_server: RedisServer) -> None:
        self.url = redis_server.url

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[KeyValue]:
        store = await open_redis_kv(self.url)
        try:
            yield store
        finally:
            await store.aclose()
