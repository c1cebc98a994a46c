"""A namespace of the key-value store, as users see it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final

from laser.context.connection import Connection
from laser.errors import InvalidError, LimitError
from laser.limits import (
    MAX_KV_KEY_BYTES,
    MAX_KV_NAMESPACE_BYTES,
    MAX_KV_TTL_MICROS,
    MAX_KV_VALUE_BYTES,
    MAX_SCAN_LIMIT,
)
from laser.ports.kv import ANY, KvEntry, KvPage

__all__ = ["KvNamespace"]

_PAGE_ENTRIES: Final = 100
# What every store and every JSON reader can hold exactly; no counter of writes gets there.
_MAX_VERSION: Final = 2**53 - 1


class KvNamespace:
    """Small values by key. ``Laser.kv`` makes it, without any I/O; the store is opened at the first call.

    Keys are text of 1 to ``MAX_KV_KEY_BYTES`` UTF-8 bytes, any characters; two keys are one when their bytes are the
    same. Values are bytes. Namespaces are apart, and are the store's: every stream whose client uses the store has the
    same ones, so tenants need namespaces or stores of their own. Writes are atomic and seen by every later read of
    every process. What they survive is the store's to say: see ``Laser.connect``.

    **Errors of every method.** ``InvalidError`` and ``LimitError`` name a bad argument; nothing was read or written.
    ``ClosedError``, ``ConfigError``, ``StorageError`` and ``TransportError`` come from the store. After
    ``DeadlineError`` or ``DisconnectedError`` a write may or may not have happened: read to find out, or make it a
    compare-and-set and try again.

    Args:
        laser: an open client. namespace: 1 to ``MAX_KV_NAMESPACE_BYTES`` UTF-8 bytes, any characters.
    """

    def __init__(self, laser: Connection, namespace: str) -> None:
        self._laser = laser
        self._namespace = _check_text(namespace, "namespace", MAX_KV_NAMESPACE_BYTES)

    @property
    def namespace(self) -> str:
        """The namespace's name."""
        return self._namespace

    async def get(self, key: str) -> bytes | None:
        """The value, ``None`` where absent or expired."""
        entry = await self.get_entry(key)
        return None if entry is None else entry.value

    async def get_entry(self, key: str) -> KvEntry | None:
        """The value with its version and expiry, ``None`` where absent or expired."""
        _check_text(key, "key", MAX_KV_KEY_BYTES)
        return await (await self._laser.open_kv()).get(self._namespace, key)

    async def set(
        self,
        key: str,
        value: bytes | str,
        *,
        expect: int | None = None,
        ttl: timedelta | float | None = None,
    ) -> int:
        """Writes a value and returns its version, which is higher than any that the key had.

        Args:
            value: bytes, or text that becomes UTF-8; 0 to ``MAX_KV_VALUE_BYTES`` bytes.
            expect: the version that must be there now, ``ABSENT`` (0) for none; ``None`` overwrites whatever is there.
            ttl: how long it stays, as a ``timedelta`` or in seconds, above 0 and up to 100 years; ``None`` for ever,
                also where an earlier value was to expire.

        Raises:
            ConflictError: something else is there than ``expect``; nothing was written.
        """
        _check_text(key, "key", MAX_KV_KEY_BYTES)
        data = _check_value(value)
        wanted, micros = _check_expect(expect), _check_ttl(ttl)
        store = await self._laser.open_kv()
        return await store.set(self._namespace, key, data, expect=wanted, ttl_micros=micros)

    async def delete(self, key: str, *, expect: int | None = None) -> bool:
        """Removes an entry. Returns whether there was one.

        Args:
            expect: the version that must be there now; ``None`` for whatever is there.

        Raises:
            ConflictError: something else is there than ``expect``, or nothing; nothing was removed.
        """
        _check_text(key, "key", MAX_KV_KEY_BYTES)
        wanted = _check_expect(expect)
        return await (await self._laser.open_kv()).delete(self._namespace, key, expect=wanted)

    def scan(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> AsyncIterator[KvEntry]:
        """Entries whose key begins with a prefix, ascending by the key's UTF-8 bytes, for ``async for``.

        They are read page by page, each as of its own moment: an entry written or removed meanwhile may or may not be
        among them, and all others are, once.

        Args:
            prefix: taken literally. after: only keys greater than this one.
            limit: the most entries in all, from 0; ``None`` for all.
        """
        _check_text(prefix, "prefix", MAX_KV_KEY_BYTES, empty=True)
        if after is not None:
            _check_text(after, "after", MAX_KV_KEY_BYTES, empty=True)
        if limit is not None and (type(limit) is not int or limit < 0):
            raise InvalidError(f"limit: {limit!r} is not a whole number from 0, or None for all", argument="limit")
        return _Scan(self._laser, self._namespace, prefix, after, limit)

    async def page(self, prefix: str = "", *, after: str | None = None, limit: int = _PAGE_ENTRIES) -> KvPage:
        """One page of a scan, for callers that go on elsewhere or later.

        Args:
            prefix: taken literally. after: ``next`` of the page before. limit: entries, 1 to ``MAX_SCAN_LIMIT``.

        Returns:
            A page; ``next`` is ``None`` at the end. Large values can make it shorter than ``limit``.
        """
        _check_text(prefix, "prefix", MAX_KV_KEY_BYTES, empty=True)
        if after is not None:
            _check_text(after, "after", MAX_KV_KEY_BYTES, empty=True)
        if type(limit) is not int or not 1 <= limit <= MAX_SCAN_LIMIT:
            raise InvalidError(f"limit: {limit!r} is not a whole number from 1 to {MAX_SCAN_LIMIT}", argument="limit")
        store = await self._laser.open_kv()
        return await store.scan(self._namespace, prefix=prefix, after=after, limit=limit)

    def __repr__(self) -> str:
        return f"KvNamespace({self._namespace!r})"


class _Scan(AsyncIterator[KvEntry]):
    # Not a generator: leaving a loop over one early would need aclosing().

    def __init__(self, laser: Connection, namespace: str, prefix: str, after: str | None, limit: int | None) -> None:
        self._laser = laser
        self._namespace = namespace
        self._prefix = prefix
        self._after = after
        self._left = limit
        self._entries: deque[KvEntry] = deque()
        self._ended = limit == 0

    async def __anext__(self) -> KvEntry:
        while not self._entries:
            if self._ended:
                raise StopAsyncIteration
            await self._read()
        return self._entries.popleft()

    async def _read(self) -> None:
        store = await self._laser.open_kv()
        count = _PAGE_ENTRIES if self._left is None else min(_PAGE_ENTRIES, self._left)
        page = await store.scan(self._namespace, prefix=self._prefix, after=self._after, limit=count)
        self._entries.extend(page.entries)
        self._after = page.next
        if self._left is not None:
            self._left -= len(page.entries)
        self._ended = page.next is None or self._left == 0


def _check_text(value: str, argument: str, limit: int, *, empty: bool = False) -> str:
    if not isinstance(value, str):
        raise InvalidError(f"{argument}: expected text, got {type(value).__name__}", argument=argument)
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidError(
            f"{argument}: holds a lone surrogate at character {error.start}, which UTF-8 cannot", argument=argument
        ) from error
    if not size and not empty:
        raise InvalidError(f"{argument}: is empty", argument=argument)
    if size > limit:
        raise LimitError(
            f"{argument}: has {size} bytes, allowed are {limit}", argument=argument, size=size, limit=limit
        )
    return value


def _check_value(value: bytes | str) -> bytes:
    if isinstance(value, str):
        try:
            data = value.encode()
        except UnicodeEncodeError as error:
            raise InvalidError(
                f"value: holds a lone surrogate at character {error.start}, which UTF-8 cannot; "
                "encode it yourself, for example with errors='replace'",
                argument="value",
            ) from error
    elif isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
    else:
        raise InvalidError(
            f"value: expected bytes or text, got {type(value).__name__}; for an object, set its JSON", argument="value"
        )
    if len(data) > MAX_KV_VALUE_BYTES:
        raise LimitError(
            f"value: has {len(data)} bytes, allowed are {MAX_KV_VALUE_BYTES}",
            argument="value",
            size=len(data),
            limit=MAX_KV_VALUE_BYTES,
        )
    return data


def _check_expect(expect: int | None) -> int:
    if expect is None:
        return ANY
    if type(expect) is not int or not 0 <= expect <= _MAX_VERSION:
        raise InvalidError(
            f"expect: {expect!r} is not a version; give one that a read or write returned, ABSENT (0) for none, "
            "or None for whatever is there",
            argument="expect",
        )
    return expect


def _check_ttl(ttl: timedelta | float | None) -> int | None:
    if ttl is None:
        return None
    if isinstance(ttl, timedelta):
        micros = ttl // timedelta(microseconds=1)
    elif isinstance(ttl, bool) or not isinstance(ttl, int | float) or not math.isfinite(ttl):
        raise InvalidError(f"ttl: {ttl!r} is neither a timedelta nor a number of seconds", argument="ttl")
    else:
        micros = max(round(ttl * 1_000_000), int(ttl > 0))
    if micros <= 0:
        raise InvalidError(f"ttl: {ttl!r} is not above 0; to remove an entry, delete it", argument="ttl")
    if micros > MAX_KV_TTL_MICROS:
        raise LimitError(
            f"ttl: is more than {MAX_KV_TTL_MICROS} microseconds (100 years); None keeps an entry for ever",
            argument="ttl",
            size=micros,
            limit=MAX_KV_TTL_MICROS,
        )
    return micros
