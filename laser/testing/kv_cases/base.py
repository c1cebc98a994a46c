"""What all cases share: opening the store under test, keys that are hard to hold, and reading a namespace whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar, Final
from uuid import uuid4

import anyio
import pytest

from laser.ports.kv import ANY, KeyValue, KvEntry

__all__ = ["HARD_KEYS", "KvCases", "Place", "by_bytes"]

HARD_KEYS: Final[tuple[str, ...]] = (
    *("a", "ab", "abc", "b", "A", "Z", "0", "00", "1", "10", "9", "-1", "null", "None"),
    *("a\0", "a\0b", "\0", "\0\0", "\x01", "\x7f", "\n", "a\n", " ", " a", "a ", "\t"),
    *("%", "%a", "a%", "a%b", "_", "a_", "a_b", "\\", "\\a", "a\\", "a\\b", "\\%", "*", "?", "[a]", "a*"),
    *("'", '"', "''", "a'b", ";", "--", "$1", ":a", "{a}", "{", "}", "[", "(", "(a", "+", "a:b:c", "../a", "/"),
    # Equal to the eye, or to a careless comparison, but not the same bytes.
    *("é", "e\u0301", "É", "ß", "ss", "\u212a", "K", "k", "\ufb01", "fi", "\u0131", "I", "a\u200b", "\ufeffa"),
    # UTF-16 would have these in another order than UTF-8.
    *("\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "日", "日本", "日本語"),
    *("😀", "😀😀", "\U0001f468\u200d\U0001f469"),
    *("a" * 512, "é" * 256, "😀" * 128),
)
"""Keys of 1 to 512 bytes, many of them the beginning of another."""

_PATIENCE_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.005


class Place:
    """A namespace of the store under test, with the port's methods bound to it."""

    def __init__(self, store: KeyValue, namespace: str) -> None:
        self.store = store
        self.namespace = namespace

    def beside(self, namespace: str) -> Place:
        """Another namespace of the same store."""
        return Place(self.store, namespace)

    async def get(self, key: str) -> KvEntry | None:
        return await self.store.get(self.namespace, key)

    async def value(self, key: str) -> bytes | None:
        """The value alone."""
        entry = await self.get(key)
        return None if entry is None else entry.value

    async def set(self, key: str, value: bytes = b"value", *, expect: int = ANY, ttl_micros: int | None = None) -> int:
        return await self.store.set(self.namespace, key, value, expect=expect, ttl_micros=ttl_micros)

    async def fill(self, keys: Iterable[str]) -> None:
        """Sets several keys, each to its own name."""
        waiting = iter(keys)

        async def work() -> None:
            for key in waiting:
                await self.set(key, key.encode())

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(work)

    async def delete(self, key: str, *, expect: int = ANY) -> bool:
        return await self.store.delete(self.namespace, key, expect=expect)

    async def all(self, *, prefix: str = "", after: str | None = None, limit: int = 100) -> list[KvEntry]:
        """Every entry of a scan, page by page. Checks that pages keep their bound and go forward."""
        entries: list[KvEntry] = []
        while True:
            page = await self.store.scan(self.namespace, prefix=prefix, after=after, limit=limit)
            assert len(page.entries) <= limit
            entries += page.entries
            if page.next is None:
                return entries
            assert after is None or page.next.encode() > after.encode(), "a page must go forward"
            after = page.next

    async def keys(self, *, prefix: str = "", after: str | None = None, limit: int = 100) -> list[str]:
        """The keys of ``all``."""
        return [entry.key for entry in await self.all(prefix=prefix, after=after, limit=limit)]

    async def until_absent(self, key: str) -> None:
        """Waits until an entry has expired."""
        with anyio.fail_after(_PATIENCE_SECONDS):
            while await self.get(key) is not None:  # noqa: ASYNC110 - a store tells nobody of an expiry
                await anyio.sleep(_POLL_SECONDS)


class KvCases(ABC):
    """See ``KeyValueConformance``, which documents what a subclass sets."""

    pytestmark: ClassVar = pytest.mark.anyio

    shares_data: ClassVar[bool] = True
    rounds: ClassVar[int] = 60

    @abstractmethod
    def open_store(self) -> AbstractAsyncContextManager[KeyValue]:
        """Opens the store under test, and closes it at the end.

        Called again in the same test it opens the same data once more, where ``shares_data`` says so.
        """

    def set_clock(self, micros: int) -> None:
        """Sets the store's clock, microseconds since 1970 UTC. Left as it is, cases that need it are skipped."""
        pytest.skip("the store's clock cannot be set")

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Place]:
        """A new namespace."""
        async with self.open_store() as store:
            yield Place(store, f"suite-{uuid4().hex}")

    @asynccontextmanager
    async def two_places(self) -> AsyncIterator[tuple[Place, Place]]:
        """A new namespace, seen by two clients where the store can have them."""
        async with self.place() as one:
            if not self.shares_data:
                yield one, one
                return
            async with self.open_store() as store:
                yield one, Place(store, one.namespace)


def by_bytes(keys: Iterable[str]) -> list[str]:
    """Keys in the order of a scan."""
    return sorted(keys, key=str.encode)
