"""The PostgreSQL engine's key-value store."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from laser.engines._kv import AFTER_ALL, conflict
from laser.engines._remote_store import RemoteStore
from laser.engines.postgres.config import PostgresConfig
from laser.engines.postgres.driver import Connection, PostgresDriver
from laser.engines.postgres.schema import KV_MIGRATIONS, prepare
from laser.limits import MAX_SCAN_BYTES
from laser.ports.kv import ANY, KvEntry, KvPage

__all__ = ["PostgresKeyValue"]

_COLUMNS: Final = "key, value, version, (extract(epoch FROM expires_at) * 1000000)::bigint"
_LIVING: Final = "(expires_at IS NULL OR expires_at > now())"
_GET: Final = f"SELECT {_COLUMNS} FROM laser.kv WHERE namespace = %b AND key = %b AND {_LIVING}"  # noqa: S608
_SET: Final = "SELECT given, there FROM laser.kv_set_1(%b, %b, %b, %s::bigint, %s::bigint, %s::bigint)"
_DELETE: Final = "SELECT removed, there FROM laser.kv_delete_1(%b, %b, %s::bigint, %s::bigint)"
# One entry more than asked for tells whether there are more. A row's value is fetched only if it is on the page: until
# then only its size is looked at, which PostgreSQL knows without reading it.
_SCAN: Final = f"""
SELECT {_COLUMNS}, found FROM (
    SELECT *, row_number() OVER by_key AS place, count(*) OVER () AS found,
        sum(octet_length(value)) OVER by_key - octet_length(value) AS before
    FROM (
        SELECT * FROM laser.kv
        WHERE namespace = %b AND key >= %b AND key > %b AND key < %b AND {_LIVING}
        ORDER BY key LIMIT %s::bigint + 1
    ) AS nearest WINDOW by_key AS (ORDER BY key)
) AS counted WHERE place <= %s::bigint AND before < %s::bigint ORDER BY key
"""  # noqa: S608


class PostgresKeyValue(RemoteStore[Connection]):
    """A ``KeyValue`` in table ``laser.kv``. Made by ``open_postgres_kv``; close it, or use ``async with``.

    **Durability** is the server's: with its defaults (``fsync`` and ``synchronous_commit`` on) an acknowledged write
    survives a power cut.

    **Expiry** is by the server's clock. Expired entries are removed by later writes that expire too, a few each.

    **Versions** come from one sequence: they grow over all keys together, and have gaps.
    """

    def __init__(self, config: PostgresConfig, *, timeout: float) -> None:
        super().__init__(PostgresDriver(config, timeout), config.address, timeout)

    async def prepare(self) -> None:
        """Makes sure that the server answers and the tables are there; does not wait for one that is down."""
        await self._remote.call(
            lambda connection: prepare(connection, "kv", KV_MIGRATIONS), repeatable=True, patient=False
        )

    async def get(self, namespace: str, key: str) -> KvEntry | None:
        """See ``KeyValue.get``."""
        rows = await self._query(_GET, (namespace.encode(), key.encode()), repeatable=True)
        return _entry(*rows[0]) if rows else None

    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = ANY, ttl_micros: int | None = None
    ) -> int:
        """See ``KeyValue.set``."""
        home, name = namespace.encode(), key.encode()
        args = (home, name, value, expect, ttl_micros or 0, _lock(home, name))
        rows = await self._query(_SET, args, repeatable=False)
        version, found = rows[0]
        if not version:
            raise conflict(namespace, key, expect, found)
        return int(version)

    async def delete(self, namespace: str, key: str, *, expect: int = ANY) -> bool:
        """See ``KeyValue.delete``."""
        home, name = namespace.encode(), key.encode()
        rows = await self._query(_DELETE, (home, name, expect, _lock(home, name)), repeatable=False)
        removed, found = rows[0]
        if removed < 0:
            raise conflict(namespace, key, expect, found)
        return bool(removed)

    async def scan(self, namespace: str, *, prefix: str = "", after: str | None = None, limit: int = 100) -> KvPage:
        """See ``KeyValue.scan``."""
        begin, start = prefix.encode(), b"" if after is None else after.encode()
        args = (namespace.encode(), begin, start, begin + AFTER_ALL, limit, limit, MAX_SCAN_BYTES)
        rows = await self._query(_SCAN, args, repeatable=True)
        entries = [_entry(*row[:4]) for row in rows]
        more = bool(rows) and rows[0][4] > len(rows)
        return KvPage(entries, entries[-1].key if more else None)

    async def _query(self, statement: str, args: tuple[Any, ...], *, repeatable: bool) -> list[tuple[Any, ...]]:
        # Binary both ways: as text each byte of a value would take two.
        return await self._remote.call(
            lambda connection: connection.cursor(binary=True).execute(statement, args).fetchall(),
            repeatable=repeatable,
        )


def _lock(namespace: bytes, key: bytes) -> int:
    """The number of the lock that all writers of a key take; two keys may share one."""
    digest = hashlib.blake2b(namespace + AFTER_ALL + key, digest_size=8, person=b"laser-kv").digest()
    return int.from_bytes(digest, "big", signed=True)


def _entry(key: bytes, value: bytes, version: int, expires_at_micros: int | None) -> KvEntry:
    return KvEntry(bytes(key).decode(), bytes(value), version, expires_at_micros)
