"""The tables of the file, and how an older file becomes a newer one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from laser.errors import StorageError

__all__ = ["APPLICATION_ID", "MIGRATIONS", "prepare"]

APPLICATION_ID: Final = 0x4C415352  # "LASR"

_V1: Final = """
CREATE TABLE catalog (
    only INTEGER PRIMARY KEY CHECK (only = 0),
    created_at INTEGER NOT NULL -- the newest creation time given out, so that the next one is later
);
INSERT INTO catalog VALUES (0, 0);

CREATE TABLE streams (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
);

CREATE TABLE topics (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    stream_id INTEGER NOT NULL REFERENCES streams (id),
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expire_micros INTEGER,
    max_size INTEGER,
    durability TEXT NOT NULL,
    partitions INTEGER NOT NULL,
    UNIQUE (stream_id, name)
);

-- What a partition is lies in its last record: end, bytes, newest time. Only what records cannot tell is here.
CREATE TABLE partitions (
    topic_id INTEGER NOT NULL,
    id INTEGER NOT NULL,
    key INTEGER NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    first INTEGER NOT NULL,       -- the first offset held; records below it wait to be swept
    first_total INTEGER NOT NULL, -- "total" of the record before it
    last_ts INTEGER NOT NULL,     -- no record may be older
    PRIMARY KEY (topic_id, id)
) WITHOUT ROWID;

CREATE TABLE records (
    pos INTEGER PRIMARY KEY,  -- partition key << 40 | offset
    ts INTEGER NOT NULL,      -- microseconds since 1970 UTC
    total INTEGER NOT NULL,   -- payload and header bytes of the partition so far, this record's included
    id BLOB NOT NULL,         -- 16 bytes, big-endian
    crc INTEGER NOT NULL,
    conv BLOB NOT NULL,       -- 16 bytes; none when the record cannot be attributed
    parent BLOB,
    root BLOB,
    headers BLOB NOT NULL,
    payload BLOB NOT NULL
);
CREATE INDEX records_conv ON records (conv);
CREATE INDEX records_parent ON records (parent) WHERE parent IS NOT NULL;
CREATE INDEX records_root ON records (root) WHERE root IS NOT NULL;
CREATE INDEX records_id ON records (id);

-- Records that no partition shows any more, to be deleted a few at a time.
CREATE TABLE sweeps (
    key INTEGER PRIMARY KEY,
    below INTEGER NOT NULL -- offset
);
"""

_V2: Final = """
CREATE TABLE kv (
    version INTEGER PRIMARY KEY AUTOINCREMENT, -- grows over all writes, and is not used again after a delete
    namespace BLOB NOT NULL,                   -- UTF-8
    key BLOB NOT NULL,
    expires_at INTEGER,
    crc INTEGER NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (namespace, key)
);
CREATE INDEX kv_expires_at ON kv (expires_at) WHERE expires_at IS NOT NULL;
"""

_V3: Final = """
CREATE TABLE contents (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant BLOB NOT NULL,         -- UTF-8
    digest BLOB NOT NULL,         -- SHA-256
    size INTEGER NOT NULL,
    admitted_at INTEGER NOT NULL, -- microseconds since 1970 UTC; never set back
    key TEXT,                     -- of the object; none when the bytes are in content_data
    crc INTEGER NOT NULL,
    parts BLOB NOT NULL,
    UNIQUE (tenant, digest)
);

-- Apart from the rest, which is written anew at each admission.
CREATE TABLE content_data (
    content INTEGER PRIMARY KEY,
    data BLOB NOT NULL
);

CREATE TABLE content_holds (
    tenant BLOB NOT NULL,
    holder BLOB NOT NULL, -- UTF-8
    content INTEGER NOT NULL,
    pos INTEGER,          -- of the record that holds it, with which the hold goes
    PRIMARY KEY (tenant, holder, content)
) WITHOUT ROWID;
CREATE INDEX content_holds_content ON content_holds (content);
CREATE INDEX content_holds_pos ON content_holds (pos) WHERE pos IS NOT NULL;

CREATE TABLE content_children (
    parent INTEGER NOT NULL,
    child INTEGER NOT NULL,
    PRIMARY KEY (parent, child)
) WITHOUT ROWID;
CREATE INDEX content_children_child ON content_children (child);

-- Keys that may have an object and that no content names.
CREATE TABLE loose_objects (
    key TEXT PRIMARY KEY,
    since INTEGER NOT NULL,
    uploading INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;
"""

_V4: Final = """
-- Where a message is that holds content on another log than this file's; for a message of this file pos says it.
ALTER TABLE content_holds ADD COLUMN place TEXT;
CREATE INDEX content_holds_place ON content_holds (tenant, holder, content) WHERE place IS NOT NULL;
"""

MIGRATIONS: Final[tuple[str, ...]] = (_V1, _V2, _V3, _V4)
"""Scripts: the one at index n turns version n into n + 1. A released one never changes."""


def prepare(connection: sqlite3.Connection, path: str, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Makes the tables of a new file, or brings an older file up to date. The caller holds the write lock.

    Raises:
        StorageError: the file is another program's, or a newer laser's.
    """
    version = _pragma(connection, "user_version")
    application = _pragma(connection, "application_id")
    if application != APPLICATION_ID:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application or version or tables:
            raise StorageError(
                f"{path}: is an SQLite database of another program; give another directory, or move the file away",
                path=path,
            )
    if version > len(migrations):
        raise StorageError(
            f"{path}: has schema version {version}, this release of laser knows {len(migrations)}; "
            "use the release that wrote it, or a newer one",
            path=path,
        )
    for target in range(version + 1, len(migrations) + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in _statements(migrations[target - 1]):
                connection.execute(statement)
            # A pragma takes no parameters; both are whole numbers of our own.
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
            connection.execute(f"PRAGMA user_version = {target:d}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def _statements(script: str) -> list[str]:
    # executescript() would commit: the steps of a migration belong into one transaction with its version.
    found, part = [], ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    if part.strip():
        found.append(part)
    return found
