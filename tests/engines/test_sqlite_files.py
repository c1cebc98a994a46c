"""The embedded engine's files: modes, versions, other programs' files, damage, full disks."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

import laser as ls
from laser.engines.sqlite import open_sqlite_log
from laser.engines.sqlite.schema import APPLICATION_ID, MIGRATIONS, prepare
from laser.errors import StorageError
from laser.model.ids import derive_conversation_id
from laser.model.topics import Durability, TopicConfig
from laser.model.window import Match, WindowQuery
from laser.testing.log_cases.base import contents
from tests.engines.sqlite_worker import STREAM, TOPIC, record
from tests.engines.test_sqlite_processes import finish, start

pytestmark = pytest.mark.anyio
_CONV = derive_conversation_id("worker")


async def make(directory: Path, payloads: list[bytes]) -> Path:
    """A closed log with these payloads in one partition; returns its file."""
    async with await open_sqlite_log(directory) as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))
        for payload in payloads:
            await log.append(STREAM, TOPIC, [record(payload)], key="k")
    return directory / "laser.db"


async def test_the_directory_and_files_are_the_owners_alone(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "data"
    umask = os.umask(0)
    try:
        async with await open_sqlite_log(directory) as log:
            await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))
            await log.append(STREAM, TOPIC, [record(b"x")], key="k")
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700
            files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
            assert files == dict.fromkeys(["laser.db", "laser.db-wal", "laser.db-shm", "laser.lock"], 0o600)
    finally:
        os.umask(umask)


async def test_a_relative_directory_stays_the_same_after_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with await open_sqlite_log("data") as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(1))
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        # The first read opens a connection of its own.
        assert len(await log.topics(STREAM)) == 1
        assert str(tmp_path / "data") in repr(log)


async def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "laser.db"
    path.write_bytes(b"this is no database, but somebody's notes\n" * 100)
    before = path.read_bytes()
    with pytest.raises(StorageError, match="not a laser database") as caught:
        await open_sqlite_log(tmp_path)
    assert caught.value.path == str(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "laser.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE notes (text)")
    other.close()
    with pytest.raises(StorageError, match="another program") as caught:
        await open_sqlite_log(tmp_path)
    assert caught.value.path == str(path)


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = await make(tmp_path, [b"x"])
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(StorageError, match=f"schema version {len(MIGRATIONS) + 1}") as caught:
        await open_sqlite_log(tmp_path)
    assert str(path) in str(caught.value)


async def test_an_older_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    path = await make(tmp_path, [b"x"])
    connection = sqlite3.connect(path, isolation_level=None)
    later = [*MIGRATIONS, "CREATE TABLE extra (a INTEGER);\nINSERT INTO extra VALUES (7);\n"]
    prepare(connection, str(path), later)
    prepare(connection, str(path), later)
    assert connection.execute("SELECT a FROM extra").fetchall() == [(7,)]
    assert connection.execute("PRAGMA user_version").fetchone() == (len(later),)
    assert connection.execute("SELECT count(*) FROM records").fetchone() == (1,)

    # A step that fails leaves the version before it.
    with pytest.raises(sqlite3.OperationalError):
        prepare(connection, str(path), [*later, "CREATE TABLE more (a);\nINSERT INTO nowhere VALUES (1);\n"])
    assert connection.execute("PRAGMA user_version").fetchone() == (len(later),)
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'more'").fetchone() == (0,)
    connection.close()


async def test_an_empty_file_is_a_new_log(tmp_path: Path) -> None:
    (tmp_path / "laser.db").touch()
    path = await make(tmp_path, [b"x"])
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


async def test_a_place_that_cannot_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError) as caught:
            await open_sqlite_log(directory)
        assert str(directory) in str(caught.value)
    (tmp_path / "laser.db").mkdir()
    with pytest.raises(StorageError):
        await open_sqlite_log(tmp_path)


async def test_no_file_descriptors_left(tmp_path: Path) -> None:
    lines = await finish(start("no_descriptors", tmp_path))
    assert lines[0][1], "opened a log without a descriptor"
    assert any("open files" in line[1] for line in lines)
    assert lines[-1] == ["after", "embedded"]


async def test_a_full_disk_is_reported_and_survived(tmp_path: Path) -> None:
    full, held, after = await finish(start("fill", tmp_path))
    _, placed, text, path = full
    assert path == str(tmp_path / "laser.db")
    assert path in text
    assert held[1:] == [placed, placed], "an append that failed is half there"
    assert after[1] == placed


# ---------------------------------------------------------------------------------------------------------- power cut


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("tail", [b"", b"\xa5" * 512, bytes(4_096)])
async def test_a_lost_tail_of_the_write_ahead_log_leaves_a_prefix(
    tmp_path: Path, durability: Durability, tail: bytes
) -> None:
    """A power cut can take the newest pages of the log, or leave rubbish in their place."""
    payloads = [b"%d " % number * 60 for number in range(40)]
    async with await open_sqlite_log(tmp_path / "live") as log:
        await log.ensure_topic(STREAM, TOPIC, TopicConfig(1, durability=durability))
        at_first = (tmp_path / "live" / "laser.db-wal").stat().st_size
        for payload in payloads:
            await log.append(STREAM, TOPIC, [record(payload)], key="k")
        copies = {name: (tmp_path / "live" / name).read_bytes() for name in ("laser.db", "laser.db-wal")}
    whole = copies["laser.db-wal"]
    lengths = set()
    for number, cut in enumerate(range(at_first, len(whole), max(1, (len(whole) - at_first) // 12))):
        after = tmp_path / str(number)
        after.mkdir()
        (after / "laser.db").write_bytes(copies["laser.db"])
        (after / "laser.db-wal").write_bytes(whole[:cut] + tail)
        async with await open_sqlite_log(after) as log:
            held = await contents(log, STREAM, TOPIC, 0)
            assert [one.payload for one in held] == payloads[: len(held)]
            lengths.add(len(held))
            done = await log.append(STREAM, TOPIC, [record(b"next")], key="k")
            assert done.offsets == (len(held),)
    assert len(lengths) > 6, "the cuts were to take different numbers of records"


# ------------------------------------------------------------------------------------------------------------- damage


async def test_a_changed_payload_is_reported_with_its_place(tmp_path: Path) -> None:
    path = await make(tmp_path, [b"%d-" % number * 40 for number in range(9)])
    data = path.read_bytes()
    at = data.index(b"5-5-5-5-")
    path.write_bytes(data[:at] + b"6" + data[at + 1 :])
    async with await open_sqlite_log(tmp_path) as log:
        for read in (
            log.read(STREAM, TOPIC, 0, start=0, limit=100),
            log.read(STREAM, TOPIC, 0, start=5, limit=1, match=Match(_CONV)),
            log.window(STREAM, TOPIC, WindowQuery(Match(_CONV))),
        ):
            with pytest.raises(StorageError, match=r"events.*partition 0, offset 5.*checksum") as caught:
                await read
            assert caught.value.path == str(path)
        page = await log.read(STREAM, TOPIC, 0, start=6, limit=100)
        assert [one.offset for one in page.records] == [6, 7, 8], "what is sound is still read"


@pytest.mark.parametrize("column", ["ts", "id", "headers", "pos", "crc"])
async def test_a_change_anywhere_in_a_record_is_reported(tmp_path: Path, column: str) -> None:
    path = await make(tmp_path, [b"a", b"b", b"c"])
    changes = {
        "ts": "ts = ts + 1",
        "id": "id = X'00000000000000000000000000000001'",
        "headers": "headers = X''",
        "pos": "pos = pos + 1000",
        "crc": "crc = 'text'",
    }
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE records SET {changes[column]} WHERE payload = ?", (b"c",))
    connection.close()
    async with await open_sqlite_log(tmp_path) as log:
        with pytest.raises(StorageError, match="damaged"):
            await contents(log, STREAM, TOPIC, 0)


async def test_a_missing_record_is_reported(tmp_path: Path) -> None:
    path = await make(tmp_path, [b"a", b"b", b"c", b"d"])
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM records WHERE payload = ?", (b"b",))
    connection.close()
    async with await open_sqlite_log(tmp_path) as log:
        with pytest.raises(StorageError, match="offset 1: the record is missing"):
            await contents(log, STREAM, TOPIC, 0)


@pytest.mark.parametrize("page", range(1, 40, 3))
async def test_damaged_pages_never_pass_for_data(tmp_path: Path, page: int) -> None:
    payloads = [b"%d " % number * 100 for number in range(120)]
    path = await make(tmp_path, payloads)
    data = bytearray(path.read_bytes())
    at = page * 4_096 % len(data)
    for offset in range(at, at + 4_096, 7):
        data[offset] ^= 0x55
    path.write_bytes(data)
    # Whatever was hit, a call tells the truth or raises StorageError.
    with contextlib.suppress(StorageError):
        async with await open_sqlite_log(tmp_path) as log:
            info = await log.topic(STREAM, TOPIC)
            held = [] if info is None else await contents(log, STREAM, TOPIC, 0)
            assert [one.payload for one in held] == payloads[: len(held)]
            assert len(held) in (0, len(payloads))


async def test_a_truncated_file_is_reported(tmp_path: Path) -> None:
    payloads = [bytes([number]) * 3_000 for number in range(60)]
    path = await make(tmp_path, payloads)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2 // 4_096 * 4_096)
    with pytest.raises(StorageError) as caught:
        async with await open_sqlite_log(tmp_path) as log:
            await contents(log, STREAM, TOPIC, 0)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("file", "advice"),
    [("laser.db", "restore it from a backup"), ("views.db", "delete it: it is made anew from the log")],
)
async def test_a_damaged_schema_is_reported(tmp_path: Path, file: str, advice: str) -> None:
    """SQLite quotes the damaged part in its message, and the driver cannot make text of it."""
    async with ls.Laser.connect(f"embedded:{tmp_path}") as laser:
        await laser.memory("notes").remember("tea")
        await laser.memory("notes").search("tea")
    with sqlite3.connect(tmp_path / file) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        damage = "UPDATE sqlite_master SET sql = CAST(X'4352454154452054ff' AS TEXT) WHERE type = 'table'"
        assert connection.execute(damage).rowcount
    connection.close()
    with pytest.raises(StorageError, match=f"{file}: the file is damaged; {advice}"):
        async with ls.Laser.connect(f"embedded:{tmp_path}") as laser:
            await laser.memory("notes").search("tea")
    if file == "views.db":
        (tmp_path / file).unlink()
        async with ls.Laser.connect(f"embedded:{tmp_path}") as laser:
            assert [item.text for item in await laser.memory("notes").search("tea")] == ["tea"]


async def test_a_directory_removed_while_it_is_open(tmp_path: Path) -> None:
    """Nothing is acknowledged that nobody will find."""
    place = tmp_path / "data"
    async with ls.Laser.connect(f"embedded:{place}") as laser:
        await laser.ensure_topic(TOPIC)
        scope = laser.context(_CONV)
        await scope.append(TOPIC, b"before")
        assert await laser.kv("settings").get("tone") is None
        shutil.rmtree(place)
        with pytest.raises(StorageError, match="was removed while it was in use") as caught:
            await scope.append(TOPIC, b"after")
        assert caught.value.path == str(place / "laser.db")
        with pytest.raises(StorageError, match="was removed"):
            await laser.kv("settings").set("tone", "formal")
    assert not place.exists()
    async with ls.Laser.connect(f"embedded:{place}") as laser:
        await laser.ensure_topic(TOPIC)
        await laser.context(_CONV).append(TOPIC, b"anew")
        assert [one.payload for one in await laser.context(_CONV).fetch(topics=[TOPIC])] == [b"anew"]
