"""SQLite's errors as laser's, in one table."""

from __future__ import annotations

import sqlite3
from typing import Final

from laser.errors import DeadlineError, LaserError, StorageError

__all__ = ["DRIVER_ERRORS", "damaged", "translate"]

DRIVER_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""What a call of the driver raises. The second: SQLite quotes a name of a damaged schema, no text any more."""

# Primary result codes (the low byte of an extended one) and what they mean to a user.
_MEANINGS: Final = {
    sqlite3.SQLITE_FULL: "the disk is full; free space there, then call again: nothing of this call was written",
    sqlite3.SQLITE_IOERR: "reading or writing failed; check the disk",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a backup",
    sqlite3.SQLITE_NOTADB: "the file is not a laser database; give another directory, or move the file away",
    sqlite3.SQLITE_READONLY: "the file cannot be written; check its owner and mode",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; check its owner, its mode and the limit of open files",
    sqlite3.SQLITE_PERM: "access is denied; check the file's owner and mode",
    sqlite3.SQLITE_AUTH: "access is denied; check the file's owner and mode",
    sqlite3.SQLITE_NOMEM: "out of memory",
    sqlite3.SQLITE_NOLFS: "the file system does not take files of this size",
    sqlite3.SQLITE_TOOBIG: "a value is larger than SQLite takes",
}
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


_OF_VIEWS: Final = {
    sqlite3.SQLITE_CORRUPT: "the file is damaged; delete it: it is made anew from the log",
    sqlite3.SQLITE_NOTADB: "the file is not a laser database; delete it: it is made anew from the log",
}


def translate(
    error: sqlite3.Error | UnicodeDecodeError | OSError, path: str, seconds: float, *, views: bool = False
) -> LaserError:
    """The laser error for a failure of the store.

    Args:
        path: the database file. seconds: the deadline of the call. views: whether the file can be folded anew.
    """
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _BUSY:
        return locked(path, seconds)
    if isinstance(error, UnicodeDecodeError):
        code = sqlite3.SQLITE_CORRUPT
    meanings = _MEANINGS | _OF_VIEWS if views else _MEANINGS
    meaning = "the store failed" if code is None else meanings.get(code & 0xFF, "the store failed")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return StorageError(f"{path}: {meaning} ({name}: {error})", path=path)


def locked(path: str, seconds: float) -> DeadlineError:
    """Another process kept the store for itself until the deadline."""
    return DeadlineError(
        f"{path}: another process held the write lock for {seconds:g} s; nothing of this call was written",
        seconds=seconds,
    )


def removed(path: str) -> StorageError:
    """The files have no names any more: a commit would go where no other process, and no later one, finds it."""
    return StorageError(
        f"{path}: was removed while it was in use; nothing of this call was written. Put the directory back, or choose "
        "another, and connect again",
        path=path,
    )


def damaged(path: str, topic: str, partition: int, offset: int, what: str) -> StorageError:
    """A record is not what was written."""
    return StorageError(
        f"{path}: topic {topic!r}, partition {partition}, offset {offset}: {what}; the file is damaged, "
        "restore it from a backup",
        path=path,
    )
