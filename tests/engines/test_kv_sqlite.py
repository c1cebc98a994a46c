"""The embedded engine's key-value store: the conformance suite, and what is its own."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import pytest

from laser.engines.sqlite import open_sqlite_kv, open_sqlite_log
from laser.engines.sqlite.schema import MIGRATIONS, prepare
from laser.errors import StorageError
from laser.model.topics import TopicConfig
from laser.ports.kv import KeyValue
from laser.testing import KeyValueConformance
from laser.testing.clock import SetClock
from tests.engines.sqlite_worker import STREAM, TOPIC, record

pytestmark = pytest.mark.anyio


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


async def test_log_and_store_share_a_directory(tmp_path: Path) -> None:
    async with await open_sqlite_log(tmp_path) as log, await open_sqlite_kv(tmp_path) as store:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))

        async def append() -> None:
            for number in range(40):
                await log.append(STREAM, TOPIC, [record(b"%d" % number)], key="key")

        async def write() -> None:
            for number in range(40):
                await store.set("space", f"{number}", b"value")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(append)
            tasks.start_soon(write)
        assert len((await log.read(STREAM, TOPIC, 0, start=0, limit=100)).records) == 40
        assert len((await store.scan("space")).entries) == 40
    assert {path.name for path in tmp_path.iterdir()} == {"laser.db", "laser.lock"}


async def test_a_file_from_before_there_were_stores(tmp_path: Path) -> None:
    path = tmp_path / "laser.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        prepare(connection, str(path), MIGRATIONS[:1])
        connection.execute("INSERT INTO streams (name, created_at) VALUES (?, 1)", (STREAM,))
    async with await open_sqlite_kv(tmp_path) as store:
        await store.set("space", "key", b"value")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM streams").fetchall() == [(STREAM,)]
        assert connection.execute("SELECT namespace, key, value FROM kv").fetchall() == [(b"space", b"key", b"value")]


@pytest.mark.parametrize(
    "change",
    ["value = x'00'", "key = x'61'", "namespace = x'73'", "expires_at = 99999999999999999"],
)
async def test_a_damaged_entry_is_reported_and_not_returned(tmp_path: Path, change: str) -> None:
    async with await open_sqlite_kv(tmp_path) as store:
        await store.set("space", "key", b"value")
        await store.set("space", "other", b"value")
        await store.set("s", "kept", b"value")
    with closing(sqlite3.connect(tmp_path / "laser.db")) as connection, connection:
        connection.execute(f"UPDATE kv SET {change} WHERE key = ?", (b"key",))
    async with await open_sqlite_kv(tmp_path) as store:
        namespace, key = "s" if "namespace" in change else "space", "a" if change.startswith("key") else "key"
        for call in (lambda: store.get(namespace, key), lambda: store.scan(namespace)):
            with pytest.raises(StorageError, match="damaged") as caught:
                await call()
            assert caught.value.path == str(tmp_path / "laser.db")
            assert repr(key) in str(caught.value)
            assert repr(namespace) in str(caught.value)
        assert await store.get("space", "other") is not None
        await store.set(namespace, key, b"mended")
        assert await store.get(namespace, key) is not None


async def test_expired_rows_are_removed_by_later_writes(tmp_path: Path) -> None:
    clock = SetClock(1_700_000_000_000_000)
    async with await open_sqlite_kv(tmp_path, clock=clock) as store:
        for number in range(100):
            clock.micros += 1
            await store.set("space", f"{number}", b"value", ttl_micros=1)
    with closing(sqlite3.connect(tmp_path / "laser.db")) as connection:
        assert connection.execute("SELECT count(*) FROM kv").fetchone()[0] < 5


async def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    async with await open_sqlite_kv(directory) as store:
        await store.set("space", "key", b"value")
        assert directory.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}


async def test_nothing_of_a_deleted_value_is_left_in_the_file(tmp_path: Path) -> None:
    secret = b"c4n4ry-value-to-be-gone" * 50
    async with await open_sqlite_kv(tmp_path) as store:
        await store.set("space", "deleted", secret)
        await store.set("space", "replaced", secret)
        await store.delete("space", "deleted")
        await store.set("space", "replaced", b"another")
    assert b"c4n4ry" not in (tmp_path / "laser.db").read_bytes()
