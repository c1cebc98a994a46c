"""Content: putting and getting 4 KiB and 10 MiB, beside plain SQLite and plain files, and a stream's memory."""

from __future__ import annotations

import hashlib
import itertools
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

import laser as ls
from benchmarks.bench import FULL, Bench
from benchmarks.child import memory
from benchmarks.figures import LASER, PLAIN, Line, make_line
from benchmarks.measuring import Measured, Side, compare

__all__ = ["run"]

_SMALL = 4_096
_LARGE = 10 << 20
_BLOCK = 50
_ROOT = Path(__file__).resolve().parents[2]

_Put = Callable[[bytes], str]
_Get = Callable[[str], bytes]


async def run(bench: Bench) -> list[Line]:
    """Measures where catalog and objects are in one directory."""
    if "embedded" not in bench.engines:
        return []
    directory = await bench.new_directory("content")
    lines: list[Line] = []
    async with ls.Laser.connect(f"embedded:{directory / 'laser'}") as laser:
        content = laser.content("bench")
        rows = _Rows(directory / "plain.db")
        files = _Files(directory / "plain")
        lines += await _both(content, rows.put, rows.get, _SMALL, _BLOCK, bench.size.slow_rounds)
        lines += await _both(content, files.put, files.get, _LARGE, 1, bench.size.slow_rounds)
        rows.close()
    if memory():
        size = 1 << 30 if bench.size == FULL else 64 << 20
        samples = await compare({LASER: Side(partial(_stream, directory, size))}, 1, warm_up=0)
        lines.append(
            make_line(
                "content.memory", "memory of a process that puts and reads a stream", "embedded", samples,
                scale=1e-6, unit="MB", content_bytes=size,
            )
        )  # fmt: skip
    else:
        bench.skipped["content memory"] = "resident memory is read from /proc, which this system does not have"
    return lines


async def _both(
    content: ls.Content, put_plain: _Put, get_plain: _Get, size: int, block: int, rounds: int
) -> list[Line]:
    """A line for putting and one for getting, in milliseconds for each content."""
    fresh = _contents(size)

    async def put() -> list[str]:
        return [(await content.put(next(fresh))).digest[:0] for _ in range(block)]

    async def put_beside() -> list[str]:
        return [(await anyio.to_thread.run_sync(put_plain, next(fresh)))[:0] for _ in range(block)]

    kept = [next(fresh) for _ in range(block)]
    refs = [await content.put(data) for data in kept]
    names = [await anyio.to_thread.run_sync(put_plain, data) for data in kept]

    async def get() -> list[bytes]:
        return [await content.get(ref) for ref in refs]

    async def get_beside() -> list[bytes]:
        return [await anyio.to_thread.run_sync(get_plain, name) for name in names]

    samples = await compare({LASER: Side(put), PLAIN: Side(put_beside)}, rounds)
    lines = [_line("content.put", "`content.put`", samples, block, size)]
    samples = await compare({LASER: Side(get), PLAIN: Side(get_beside)}, rounds)
    return [*lines, _line("content.get", "`content.get`", samples, block, size)]


def _line(name: str, title: str, samples: dict[str, list[float]], block: int, size: int) -> Line:
    return make_line(name, title, "embedded", samples, scale=1e3 / block, content_bytes=size)


def _contents(size: int) -> Iterator[bytes]:
    """Bytes that were never there before, and cost nothing to make."""
    rest = os.urandom(size - 8)
    return (number.to_bytes(8, "big") + rest for number in itertools.count())


class _Rows:
    """What one would write without laser: rows by hash, committed one by one, as durable as laser's."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("CREATE TABLE content (digest BLOB PRIMARY KEY, data BLOB NOT NULL)")

    def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data)
        self._db.execute("INSERT OR IGNORE INTO content VALUES (?, ?)", (digest.digest(), data))
        return digest.hexdigest()

    def get(self, name: str) -> bytes:
        (data,) = self._db.execute("SELECT data FROM content WHERE digest = ?", (bytes.fromhex(name),)).fetchone()
        return bytes(data)

    def close(self) -> None:
        self._db.close()


class _Files:
    """Files by hash, brought to the disk before they get their names. Nothing is checked when they are read."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory

    def put(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        part = self._directory / f"{name}.part"
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.rename(self._directory / name)
        return name

    def get(self, name: str) -> bytes:
        return (self._directory / name).read_bytes()


async def _stream(directory: Path, size: int) -> Measured:
    done = await anyio.run_process(
        [sys.executable, "-m", "benchmarks.streaming", f"embedded:{directory / 'streams'}", str(size)], cwd=_ROOT
    )
    return Measured(int(done.stdout))
