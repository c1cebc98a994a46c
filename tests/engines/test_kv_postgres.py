"""The PostgreSQL engine: the conformance suite, and what is its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import anyio
import psycopg
import pytest
from anyio.lowlevel import checkpoint

from laser.engines.postgres import open_postgres_kv
from laser.engines.postgres.kv import _lock
from laser.errors import (
    AuthenticationError,
    ConfigError,
    ConflictError,
    DeadlineError,
    TransportError,
    UnsupportedError,
)
from laser.ports.kv import ABSENT, KeyValue
from laser.testing import KeyValueConformance
from laser.testing.kv_cases.base import HARD_KEYS, Place, by_bytes
from laser.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio


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


SPACE = "own"
_WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.fixture
def admin(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """The driver itself, in the server's first database."""
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def url(postgres_server: PostgresServer, admin: psycopg.Connection[tuple[Any, ...]]) -> Iterator[str]:
    """A new database."""
    name = f"t{uuid4().hex}"
    admin.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    yield postgres_server.url.removesuffix("/laser") + f"/{name}"
    admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def raw(url: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """The driver itself, beside the store."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
async def store(url: str) -> AsyncIterator[KeyValue]:
    store = await open_postgres_kv(url, timeout=30)
    yield store
    await store.aclose()


async def test_a_database_of_another_encoding_keeps_every_key(store: KeyValue) -> None:
    place = Place(store, "日本")
    await place.fill(HARD_KEYS)
    assert await place.keys() == by_bytes(HARD_KEYS)
    with pytest.raises(ConflictError, match="日本"):
        await place.set("日本", expect=ABSENT)


async def test_a_stricter_isolation_of_the_database_changes_nothing(url: str, admin: Any) -> None:
    admin.execute(f"ALTER DATABASE {url.rpartition('/')[2]} SET default_transaction_isolation = 'serializable'")
    store = await open_postgres_kv(url)
    place = Place(store, SPACE)

    async def count() -> None:
        while True:
            entry = await place.get("counter")
            number, version = (0, ABSENT) if entry is None else (int(entry.value), entry.version)
            try:
                await place.set("counter", b"%d" % (number + 1), expect=version)
            except ConflictError:
                continue
            return

    async with anyio.create_task_group() as tasks:
        for _ in range(16):
            tasks.start_soon(count)
    assert await place.value("counter") == b"16"
    await store.aclose()


async def test_a_write_does_not_happen_after_its_deadline(url: str, raw: psycopg.Connection[Any]) -> None:
    store = await open_postgres_kv(url, timeout=1.5)
    raw.execute("SELECT pg_advisory_lock(%s::bigint)", (_lock(SPACE.encode(), b"key"),))
    with pytest.raises(DeadlineError):
        await store.set(SPACE, "key", b"late")
    with anyio.fail_after(60):
        while raw.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone() != (
            0,
        ):
            await checkpoint()
    raw.execute("SELECT pg_advisory_unlock(%s::bigint)", (_lock(SPACE.encode(), b"key"),))
    assert await store.get(SPACE, "key") is None
    assert await store.set(SPACE, "key", b"in time") > 0
    await store.aclose()


async def test_a_schema_of_a_newer_release_is_refused(url: str, store: KeyValue, raw: Any) -> None:
    raw.execute("UPDATE laser.schema_versions SET version = version + 1")
    with pytest.raises(UnsupportedError, match="newer"):
        await open_postgres_kv(url)


async def test_a_schema_that_is_gone_is_told_and_made_anew(url: str, store: KeyValue, raw: Any) -> None:
    raw.execute("DROP SCHEMA laser CASCADE")
    for call in (
        lambda: store.get(SPACE, "key"),
        lambda: store.set(SPACE, "key", b""),
        lambda: store.delete(SPACE, "key"),
        lambda: store.scan(SPACE),
    ):
        with pytest.raises(TransportError, match="schema laser"):
            await call()
    other = await open_postgres_kv(url)
    assert await store.set(SPACE, "key", b"") > 0
    await other.aclose()


async def test_users_and_their_rights(url: str, raw: psycopg.Connection[Any]) -> None:
    who, database = f"u{uuid4().hex}", url.rpartition("/")[2]
    theirs = f"postgresql://{who}:pw@{url.rpartition('@')[2]}"
    raw.execute(f"CREATE ROLE {who} LOGIN PASSWORD 'pw'")
    try:
        with pytest.raises(AuthenticationError, match="grant"):
            await open_postgres_kv(theirs)
        owner = await open_postgres_kv(url)
        with pytest.raises(AuthenticationError, match="grant"):
            await open_postgres_kv(theirs)
        raw.execute(f"GRANT USAGE ON SCHEMA laser TO {who}")
        raw.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA laser TO {who}")
        raw.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA laser TO {who}")
        store = await open_postgres_kv(theirs)
        assert await store.set(SPACE, "key", b"1", ttl_micros=3_600_000_000) > 0
        assert await owner.get(SPACE, "key") == await store.get(SPACE, "key")
        assert await store.delete(SPACE, "key") is True
        await store.aclose()
        await owner.aclose()
        with pytest.raises(ConfigError, match="does not exist"):
            await open_postgres_kv(url.replace(f"/{database}", "/nowhere"))
        with pytest.raises(AuthenticationError):
            await open_postgres_kv(theirs.replace(":pw@", "@"))
    finally:
        raw.execute(f"DROP OWNED BY {who}")
        raw.execute(f"DROP ROLE {who}")


async def test_expired_rows_are_removed_by_later_writes(store: KeyValue, raw: psycopg.Connection[Any]) -> None:
    for number in range(100):
        await store.set(SPACE, f"{number}", b"value", ttl_micros=1)
    row = raw.execute("SELECT count(*) FROM laser.kv").fetchone()
    assert row is not None
    assert row[0] < 20
