"""The directory, its files and the connections to them."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Final

from laser.engines.sqlite.errors import DRIVER_ERRORS, locked, translate
from laser.engines.sqlite.lockfile import LockFile
from laser.engines.sqlite.schema import prepare
from laser.errors import StorageError

__all__ = ["connect", "open_files"]

_DATABASE: Final = "laser.db"
_LOCK: Final = "laser.lock"
_CACHE_KIB: Final = 8_192
_LOG_BYTES: Final = 64 << 20


def open_files(directory: str, timeout: float) -> tuple[str, LockFile, sqlite3.Connection]:
    """Opens the store in a directory, making what is absent. Safe in several processes at once.

    Returns:
        The database file's path, the write lock, and the writer's connection.

    Raises:
        StorageError: it cannot be opened, or is not laser's. DeadlineError: another process kept the lock.
    """
    path = os.path.join(directory, _DATABASE)
    try:
        _make_directory(directory)
        lock = LockFile(os.path.join(directory, _LOCK))
    except OSError as error:
        raise StorageError(f"{directory}: cannot be used as a directory for data: {error}", path=directory) from error
    try:
        patience = time.monotonic() + timeout
        if not lock.acquire(lambda: time.monotonic() < patience):
            raise locked(path, timeout)
        try:
            # SQLite gives its other files the mode of this one.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))
            connection = connect(path, timeout)
            try:
                _begin_log(connection, path)
                prepare(connection, path)
            except BaseException:
                connection.close()
                raise
        finally:
            lock.release()
    except (*DRIVER_ERRORS, OSError) as error:
        lock.close()
        raise translate(error, path, timeout) from error
    except BaseException:
        lock.close()
        raise
    return path, lock, connection


def connect(path: str, timeout: float) -> sqlite3.Connection:
    """A connection in autocommit mode, for one thread at a time."""
    connection = sqlite3.connect(
        path, timeout=timeout, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        # Deletes reach every copy: freed pages and cells are overwritten.
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB:d}")
        # A cheap look at each page as it is read finds damage before it is taken for data.
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        # Where fsync does not reach the disk by itself (macOS).
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        # Checkpoints are the writer's business, see Checkpoints.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        # One large commit must not leave a log of its size behind for ever.
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES:d}")
    except BaseException:
        connection.close()
        raise
    return connection


def _make_directory(directory: str) -> None:
    if os.path.isdir(directory):
        return
    os.makedirs(directory, mode=0o700, exist_ok=True)
    if os.name == "posix":
        # The entry in the parent must survive a power cut as much as what is in the directory.
        parent = os.open(os.path.dirname(directory) or ".", os.O_RDONLY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)


def _begin_log(connection: sqlite3.Connection, path: str) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StorageError(
            f"{path}: the file system cannot share memory between processes, which SQLite's WAL mode needs; "
            "choose a directory on a local disk",
            path=path,
        )
