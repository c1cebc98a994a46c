"""The Redis engine's key-value store."""

from __future__ import annotations

from urllib.parse import quote

from laser.engines._kv import AFTER_ALL, conflict
from laser.engines._remote_store import RemoteStore
from laser.engines.redis.config import RedisConfig
from laser.engines.redis.driver import Connection, RedisDriver, command
from laser.engines.redis.scripts import DELETE, SCAN, SET
from laser.errors import CodecError
from laser.limits import MAX_SCAN_BYTES
from laser.ports.kv import ANY, KvEntry, KvPage

__all__ = ["RedisKeyValue"]


class RedisKeyValue(RemoteStore[Connection]):
    """A ``KeyValue`` on Redis or Valkey. Made by ``open_redis_kv``; close it, or use ``async with``.

    **Durability** is the server's: an acknowledged write survives the server's death only with ``appendonly yes``, and
    a power cut only with ``appendfsync always`` too. Replicas follow later, so a failover may lose the newest writes.
    The server must not evict keys (``maxmemory-policy noeviction``, its default): it would take entries that do not
    expire, or the counter that lets versions grow.

    **Expiry** is by the server's clock, in whole milliseconds, rounded up by at most two.
    """

    def __init__(self, config: RedisConfig, *, timeout: float) -> None:
        super().__init__(RedisDriver(config, timeout), config.address, timeout)

    async def check(self) -> None:
        """Makes sure that the server answers and runs scripts; does not wait for one that is down."""
        names = _Names("laser")
        # A page of no bytes: nothing is read.
        args: list[bytes | int] = [b"-", b"+", 1, 0, names.prefix]
        await self._remote.call(
            lambda connection: SCAN.run(connection, [names.keys, names.ends], args), repeatable=True, patient=False
        )

    async def get(self, namespace: str, key: str) -> KvEntry | None:
        """See ``KeyValue.get``."""
        name = _Names(namespace).entry(key.encode())
        raw = await self._remote.call(lambda connection: command(connection, "GET", name), repeatable=True)
        return None if raw is None else _entry(key, raw)

    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = ANY, ttl_micros: int | None = None
    ) -> int:
        """See ``KeyValue.set``."""
        names, member = _Names(namespace), key.encode()
        keys = [names.entry(member), names.keys, names.ends, names.versions]
        args: list[bytes | int] = [member, value, expect, ttl_micros or 0, names.prefix]
        answer: list[int] = await self._remote.call(
            lambda connection: SET.run(connection, keys, args), repeatable=False
        )
        version, found = answer
        if not version:
            raise conflict(namespace, key, expect, found)
        return version

    async def delete(self, namespace: str, key: str, *, expect: int = ANY) -> bool:
        """See ``KeyValue.delete``."""
        names, member = _Names(namespace), key.encode()
        keys = [names.entry(member), names.keys, names.ends]
        answer: list[int] = await self._remote.call(
            lambda connection: DELETE.run(connection, keys, [member, expect]), repeatable=False
        )
        removed, found = answer
        if removed < 0:
            raise conflict(namespace, key, expect, found)
        return removed > 0

    async def scan(self, namespace: str, *, prefix: str = "", after: str | None = None, limit: int = 100) -> KvPage:
        """See ``KeyValue.scan``."""
        names, begin = _Names(namespace), prefix.encode()
        start = None if after is None else after.encode()
        lower = b"[" + begin if start is None or start < begin else b"(" + start
        args: list[bytes | int] = [lower, b"(" + begin + AFTER_ALL, limit, MAX_SCAN_BYTES, names.prefix]
        answer: list[bytes | int] = await self._remote.call(
            lambda connection: SCAN.run(connection, [names.keys, names.ends], args), repeatable=True
        )
        more, last, *rest = answer
        found: list[bytes] = rest  # type: ignore[assignment]
        entries = [_entry(key.decode(), raw) for key, raw in zip(found[::2], found[1::2], strict=True)]
        return KvPage(entries, last.decode() if more and isinstance(last, bytes) else None)


class _Names:
    """The server's keys of one namespace; see ``scripts``."""

    def __init__(self, namespace: str) -> None:
        # Percent-encoded: a brace in the namespace would end the tag, and with it the promise of one slot.
        base = b"laser:kv1:{" + quote(namespace, safe="").encode() + b"}:"
        self.prefix = base + b"v:"
        self.keys = base + b"keys"
        self.ends = base + b"ends"
        self.versions = base + b"versions"

    def entry(self, key: bytes) -> bytes:
        return self.prefix + key


def _entry(key: str, raw: bytes) -> KvEntry:
    head = raw.split(b":", 2)
    try:
        version, ends, value = head
        return KvEntry(key, value, int(version), int(ends) or None)
    except ValueError as error:
        raise CodecError(f"key {key!r}: what is stored was not written by laser") from error
