"""The embedded engine's content catalog: the conformance suite, and what is its own."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from laser.engines.sqlite import SqliteCatalog, SqliteLog, open_sqlite_catalog, open_sqlite_log
from laser.engines.sqlite.schema import MIGRATIONS, prepare
from laser.errors import NotFoundError, StorageError
from laser.model.topics import TopicConfig, TopicRetention
from laser.ports.catalog import Catalog
from laser.testing import CatalogConformance
from laser.testing.catalog_cases.base import Place, digest_of
from laser.testing.clock import SetClock
from tests.engines.sqlite_worker import STREAM, TOPIC, record

pytestmark = pytest.mark.anyio

TENANT = "acme"


class TestSqliteCatalog(CatalogConformance):
    clock: SetClock | None = None

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path / "data"

    def set_clock(self, micros: int) -> None:
        if self.clock is None:
            self.clock = SetClock(micros)
        self.clock.micros = micros

    @asynccontextmanager
    async def open_catalog(self) -> AsyncIterator[Catalog]:
        catalog = await open_sqlite_catalog(self.directory, clock=self.clock)
        try:
            yield catalog
        finally:
            await catalog.aclose()


@asynccontextmanager
async def both(
    directory: Path, config: TopicConfig | None = None, clock: SetClock | None = None
) -> AsyncIterator[tuple[SqliteLog, SqliteCatalog, Place]]:
    async with (
        await open_sqlite_log(directory, clock=clock) as log,
        await open_sqlite_catalog(directory, clock=clock) as catalog,
    ):
        await log.ensure_topic(STREAM, TOPIC, config or TopicConfig(1))
        yield log, catalog, Place(catalog, TENANT)


async def append(catalog: SqliteCatalog, holder: str, *data: bytes, topic: str = TOPIC) -> int:
    digests = [digest_of(each) for each in data]
    done = await catalog.append_holding(TENANT, holder, digests, STREAM, topic, record(holder.encode()), key="k")
    return done.offsets[0]


async def records(log: SqliteLog) -> list[bytes]:
    return [each.payload for each in (await log.read(STREAM, TOPIC, 0, start=0, limit=100)).records]


async def test_a_record_and_its_hold_are_one(tmp_path: Path) -> None:
    async with both(tmp_path) as (log, catalog, place):
        await place.put(b"a")
        assert await append(catalog, "one", b"a") == 0
        for data, topic in ((b"absent", TOPIC), (b"a", "no-such-topic")):
            with pytest.raises(NotFoundError):
                await append(catalog, "two", b"a", data, topic=topic)
        assert await records(log) == [b"one"]
        assert await catalog.held(TENANT, "one") == [digest_of(b"a")]
        assert await catalog.held(TENANT, "two") == []
        assert await place.collect() == 0


async def test_records_of_both_have_one_order(tmp_path: Path) -> None:
    async with both(tmp_path) as (log, catalog, place):
        await place.put(b"a")
        offsets = []
        for number in range(10):
            if number % 2:
                offsets.append(await append(catalog, f"{number}", b"a"))
            else:
                offsets += (await log.append(STREAM, TOPIC, [record(b"%d" % number)], key="k")).offsets
        assert offsets == list(range(10))
        read = (await log.read(STREAM, TOPIC, 0, start=0, limit=100)).records
        assert [each.payload for each in read] == [b"%d" % number for number in range(10)]
        stamps = [each.timestamp_micros for each in read]
        assert stamps == sorted(set(stamps))


async def test_a_record_found_again_is_held_once(tmp_path: Path) -> None:
    async with both(tmp_path) as (log, catalog, place):
        await place.put(b"a")
        same = record(b"same")
        for _ in range(2):
            done = await catalog.append_holding(
                TENANT, "one", [digest_of(b"a")], STREAM, TOPIC, same, key="k", find_first=True
            )
            assert done.offsets == (0,)
        assert await records(log) == [b"same"]
        assert await place.counts(b"a") == (1, 0, 0)


async def _until_free(place: Place, data: bytes) -> None:
    with anyio.fail_after(60):
        while (await place.counts(data))[0]:
            await anyio.sleep(0.01)


@pytest.mark.parametrize("way", ["purge", "delete", "age", "size"])
async def test_the_hold_goes_with_its_record(tmp_path: Path, way: str) -> None:
    retention = {
        "age": TopicRetention(expire_after=timedelta(seconds=1)),
        "size": TopicRetention(max_size=4_096),
    }.get(way)
    clock = SetClock(1_700_000_000_000_000)
    async with both(tmp_path, TopicConfig(1, retention), clock) as (log, catalog, place):
        await log.ensure_topic(STREAM, "other", TopicConfig(1))
        await place.put(b"a")
        await place.put(b"kept")
        await append(catalog, "one", b"a", b"kept")
        await append(catalog, "two", b"kept", topic="other")
        assert await place.collect() == 0
        if way == "purge":
            await log.purge(STREAM, TOPIC)
        elif way == "delete":
            await log.delete_topic(STREAM, TOPIC)
        else:
            clock.micros += 2_000_000
            for _ in range(8):
                await log.append(STREAM, TOPIC, [record(bytes(1_024))], key="k")
        await _until_free(place, b"a")
        assert await place.collect() == 1
        assert await place.counts(b"kept") == (1, 0, 0)


async def test_a_file_from_before_there_was_content(tmp_path: Path) -> None:
    path = tmp_path / "laser.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        prepare(connection, str(path), MIGRATIONS[:2])
        connection.execute("INSERT INTO streams (name, created_at) VALUES (?, 1)", (STREAM,))
    async with await open_sqlite_catalog(tmp_path) as catalog:
        place = Place(catalog, TENANT)
        await place.put(b"a")
        assert await place.has(b"a")


@pytest.mark.parametrize("change", ["size = size + 1", "key = 'x'", "parts = x'00'", "digest = x'{other}'"])
async def test_a_damaged_entry_is_reported(tmp_path: Path, change: str) -> None:
    async with await open_sqlite_catalog(tmp_path) as catalog:
        await Place(catalog, TENANT).put_object(b"a")
    with closing(sqlite3.connect(tmp_path / "laser.db")) as connection, connection:
        connection.execute("UPDATE contents SET " + change.format(other=digest_of(b"b")))
    data = b"b" if "digest" in change else b"a"
    async with await open_sqlite_catalog(tmp_path) as catalog:
        place = Place(catalog, TENANT)
        for call in (place.get(data), place.hold("holder", data), place.put(data)):
            with pytest.raises(StorageError, match="damaged") as caught:
                await call
            assert caught.value.path == str(tmp_path / "laser.db")


async def test_nothing_of_removed_bytes_is_left_in_the_file(tmp_path: Path) -> None:
    secret = b"c4n4ry-content-to-be-gone" * 50
    async with await open_sqlite_catalog(tmp_path) as catalog:
        place = Place(catalog, TENANT)
        await place.put(secret)
        assert await place.collect() == 1
    assert b"c4n4ry" not in (tmp_path / "laser.db").read_bytes()
