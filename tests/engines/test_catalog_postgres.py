"""The PostgreSQL engine's content catalog: the conformance suite, and what is its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from laser.engines.postgres import open_postgres_catalog, open_postgres_kv
from laser.errors import ConfigError
from laser.ports.catalog import Catalog
from laser.testing import CatalogConformance
from laser.testing.catalog_cases.base import Place, digest_of
from laser.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio


class TestPostgresCatalog(CatalogConformance):
    rounds = 24

    @pytest.fixture(autouse=True)
    def _server(self, postgres_server: PostgresServer) -> None:
        self.url = postgres_server.url

    @asynccontextmanager
    async def open_catalog(self) -> AsyncIterator[Catalog]:
        catalog = await open_postgres_catalog(self.url)
        try:
            yield catalog
        finally:
            await catalog.aclose()


async def test_catalog_and_store_share_a_schema(postgres_server: PostgresServer) -> None:
    async with (
        await open_postgres_kv(postgres_server.url) as store,
        await open_postgres_catalog(postgres_server.url) as catalog,
    ):
        await store.set("shared", "key", b"value")
        await Place(catalog, "shared").put(b"a")
        assert await Place(catalog, "shared").has(b"a")


async def test_the_server_itself_keeps_what_is_held(postgres_server: PostgresServer) -> None:
    """The last line of defence: a release of laser that forgot to look would be refused."""
    async with await open_postgres_catalog(postgres_server.url) as catalog:
        place = Place(catalog, "constraints")
        await place.put(b"child")
        await place.put(b"parent", b"child")
        await place.put(b"held")
        await place.hold("holder", b"held")
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        for data in (b"child", b"held"):
            with pytest.raises(psycopg.errors.ForeignKeyViolation):
                connection.execute(
                    "DELETE FROM laser.contents WHERE tenant = %b AND digest = %b",
                    (b"constraints", bytes.fromhex(digest_of(data))),
                )


async def test_errors_name_the_argument() -> None:
    with pytest.raises(ConfigError, match=r"^catalog: ") as caught:
        await open_postgres_catalog("postgresql://user:c4n4ry@[")
    assert "c4n4ry" not in str(caught.value)
