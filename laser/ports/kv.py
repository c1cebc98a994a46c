"""Point state: small values by key, with compare-and-set and expiry."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

__all__ = ["ABSENT", "ANY", "KeyValue", "KvEntry", "KvPage"]

ANY: Final = -1
"""``expect``: whatever is there."""

ABSENT: Final = 0
"""``expect``: nothing may be there."""


class KvEntry(msgspec.Struct, frozen=True, gc=False):
    """A value as stored.

    Attributes:
        key: text. value: bytes.
        version: 1 or more; every write of the key gives it a higher one, also after a delete.
        expires_at_micros: when it goes, microseconds since 1970 UTC; ``None`` stays.
    """

    key: str
    value: bytes
    version: int
    expires_at_micros: int | None = None


class KvPage(msgspec.Struct, frozen=True):
    """A part of a scan.

    Attributes:
        entries: ascending by the key's UTF-8 bytes. Fewer than asked for, even none, say nothing about the end: a page
            also ends when its values reach ``MAX_SCAN_BYTES``.
        next: pass it as ``after`` for the next page; ``None`` at the end.
    """

    entries: list[KvEntry]
    next: str | None


class KeyValue(Protocol):
    """A durable map from (namespace, key) to bytes.

    Every write is atomic, survives the death of the process when it returns, and is seen by every later read of
    every process. Namespaces are apart: no operation on one touches or shows another. An expired entry is absent
    from every operation from its moment on, by the store's own clock. Names and sizes have been checked by the
    caller (``laser.limits``: keys 1 to 512 bytes, values to 8 MiB, namespaces 1 to 128 bytes, times to live to 100
    years).

    **Errors of every method.** ``ClosedError`` after ``aclose``, in another event loop than the one that opened the
    store, or in a forked child; ``DisconnectedError``, ``AuthenticationError``, ``DeadlineError`` and, where a server
    answers that it cannot, plain ``TransportError`` from a remote store; ``StorageError`` from a local one. After
    ``DeadlineError`` or ``DisconnectedError`` of a write, or when it was cancelled, it may or may not have happened:
    read to find out.

    Every method may be called by many tasks at once; none blocks the event loop.
    """

    async def get(self, namespace: str, key: str) -> KvEntry | None:
        """The entry, ``None`` where absent or expired."""
        ...

    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = ANY, ttl_micros: int | None = None
    ) -> int:
        """Writes a value and returns its version.

        Args:
            expect: the version that must be there now, ``ABSENT`` for none, ``ANY`` for whatever.
            ttl_micros: how long it stays, 1 microsecond or more; ``None`` for ever. A write replaces an earlier one.

        Raises:
            ConflictError: something else is there than ``expect``; nothing was written.
        """
        ...

    async def delete(self, namespace: str, key: str, *, expect: int = ANY) -> bool:
        """Removes an entry. Returns whether there was one.

        Raises:
            ConflictError: something else is there than ``expect``, or nothing; nothing was removed.
        """
        ...

    async def scan(self, namespace: str, *, prefix: str = "", after: str | None = None, limit: int = 100) -> KvPage:
        """Entries whose key begins with a prefix, ascending by the key's UTF-8 bytes.

        Args:
            after: only keys greater than this one. limit: entries of the page, 1 to ``MAX_SCAN_LIMIT``.
        """
        ...

    async def aclose(self) -> None:
        """Closes the store. Calling it again does nothing."""
        ...
