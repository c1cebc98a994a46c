"""The conformance suite of key-value stores finds planted bugs."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase

import pytest
from anyio.lowlevel import checkpoint

from laser.engines.memory import MemoryKeyValue
from laser.errors import ConflictError
from laser.ports.clock import Clock
from laser.ports.kv import ANY, KeyValue, KvEntry, KvPage
from laser.testing import KeyValueConformance
from laser.testing.clock import SetClock

pytestmark = pytest.mark.anyio


class _Right(MemoryKeyValue):
    async def everything(self, namespace: str) -> list[KvEntry]:
        return list((await super().scan(namespace, limit=10_000)).entries)


class _VersionsBeginAgain(_Right):
    """A version is a count of writes since the entry was made."""

    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = ANY, ttl_micros: int | None = None
    ) -> int:
        there = await self.get(namespace, key)
        await super().set(namespace, key, value, expect=expect, ttl_micros=ttl_micros)
        home = self._namespaces[namespace]
        version = 1 if there is None else there.version + 1
        home.entries[key] = KvEntry(key, value, version, home.entries[key].expires_at_micros)
        return version


class _ComparesTooEarly(_Right):
    """Somebody else may write between the comparison and the write."""

    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = ANY, ttl_micros: int | None = None
    ) -> int:
        self._check(namespace, key, expect)
        await checkpoint()
        return await super().set(namespace, key, value, ttl_micros=ttl_micros)

    async def delete(self, namespace: str, key: str, *, expect: int = ANY) -> bool:
        self._check(namespace, key, expect)
        await checkpoint()
        return await super().delete(namespace, key)


class _WritesBeforeItRefuses(_Right):
    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = ANY, ttl_micros: int | None = None
    ) -> int:
        try:
            return await super().set(namespace, key, value, expect=expect, ttl_micros=ttl_micros)
        except ConflictError:
            await super().set(namespace, key, value, ttl_micros=ttl_micros)
            raise


class _KeepsTheOldExpiry(_Right):
    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = ANY, ttl_micros: int | None = None
    ) -> int:
        there = await self.get(namespace, key)
        if ttl_micros is None and there is not None and there.expires_at_micros is not None:
            ttl_micros = there.expires_at_micros - self._clock.now_micros()
        return await super().set(namespace, key, value, expect=expect, ttl_micros=ttl_micros)


class _OrdersByUtf16(_Right):
    async def scan(self, namespace: str, *, prefix: str = "", after: str | None = None, limit: int = 100) -> KvPage:
        entries = sorted(await self.everything(namespace), key=lambda entry: entry.key.encode("utf-16-be"))
        return KvPage([entry for entry in entries if entry.key.startswith(prefix)], None)


class _TakesPatterns(_Right):
    async def scan(self, namespace: str, *, prefix: str = "", after: str | None = None, limit: int = 100) -> KvPage:
        entries = await self.everything(namespace)
        return KvPage([entry for entry in entries if fnmatchcase(entry.key, f"{prefix}*")], None)


class _RepeatsTheLastOfAPage(_Right):
    async def scan(self, namespace: str, *, prefix: str = "", after: str | None = None, limit: int = 100) -> KvPage:
        page = await super().scan(namespace, prefix=prefix, after=after, limit=limit)
        last = None if after is None else await self.get(namespace, after)
        return page if last is None else KvPage([last, *page.entries][:limit], page.next)


class _EndsAtAShortPage(_Right):
    async def scan(self, namespace: str, *, prefix: str = "", after: str | None = None, limit: int = 100) -> KvPage:
        page = await super().scan(namespace, prefix=prefix, after=after, limit=limit)
        return KvPage(page.entries, page.next if len(page.entries) == limit else None)


class _ReadsAnySize(_Right):
    async def scan(self, namespace: str, *, prefix: str = "", after: str | None = None, limit: int = 100) -> KvPage:
        home = self._namespaces.get(namespace)
        return KvPage([] if home is None else [home.entries[key] for key in home.keys(prefix, after)], None)


class _ForgetsToExpire(_Right):
    async def get(self, namespace: str, key: str) -> KvEntry | None:
        home = self._namespaces.get(namespace)
        return None if home is None else home.entries.get(key)


class _JoinsNames(_Right):
    async def get(self, namespace: str, key: str) -> KvEntry | None:
        return await super().get("", f"{namespace}:{key}")

    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = ANY, ttl_micros: int | None = None
    ) -> int:
        return await super().set("", f"{namespace}:{key}", value, expect=expect, ttl_micros=ttl_micros)


class _NormalisesKeys(_Right):
    async def get(self, namespace: str, key: str) -> KvEntry | None:
        return await super().get(namespace, unicodedata.normalize("NFC", key))

    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = ANY, ttl_micros: int | None = None
    ) -> int:
        name = unicodedata.normalize("NFC", key)
        return await super().set(namespace, name, value, expect=expect, ttl_micros=ttl_micros)


class _CutsAtNul(_Right):
    async def get(self, namespace: str, key: str) -> KvEntry | None:
        return await super().get(namespace, key.partition("\0")[0])

    async def set(
        self, namespace: str, key: str, value: bytes, *, expect: int = ANY, ttl_micros: int | None = None
    ) -> int:
        return await super().set(namespace, key.partition("\0")[0], value, expect=expect, ttl_micros=ttl_micros)


class _ComesBackAfterClosing(_Right):
    async def get(self, namespace: str, key: str) -> KvEntry | None:
        self._closed = False
        return await super().get(namespace, key)


class _NeverGivesATurn(_Right):
    async def _enter(self) -> None:
        self._home.check()


BUGS = [
    (_VersionsBeginAgain, "test_versions_grow_over_deletes"),
    (_VersionsBeginAgain, "test_a_version_is_not_expected_again_after_a_delete"),
    (_VersionsBeginAgain, "test_versions_never_fall_while_others_set_and_delete"),
    (_ComparesTooEarly, "test_tasks_counting_by_compare_and_set_lose_nothing"),
    (_ComparesTooEarly, "test_one_of_many_sets_what_nothing_may_be_at"),
    (_WritesBeforeItRefuses, "test_set_where_nothing_may_be"),
    (_WritesBeforeItRefuses, "test_set_expecting_a_version_where_nothing_is"),
    (_WritesBeforeItRefuses, "test_a_refused_set_leaves_the_expiry"),
    (_KeepsTheOldExpiry, "test_a_write_replaces_the_time_to_live"),
    (_OrdersByUtf16, "test_the_order_is_that_of_utf8_bytes"),
    (_TakesPatterns, "test_a_prefix_is_taken_literally"),
    (_RepeatsTheLastOfAPage, "test_pages_join_without_gap_or_repeat"),
    (_RepeatsTheLastOfAPage, "test_after_is_exclusive_and_need_not_exist"),
    (_EndsAtAShortPage, "test_a_page_of_large_values_ends_early"),
    (_ReadsAnySize, "test_a_page_of_large_values_ends_early"),
    (_ReadsAnySize, "test_the_largest_page"),
    (_ForgetsToExpire, "test_the_moment_is_exact"),
    (_JoinsNames, "test_namespace_and_key_do_not_run_into_each_other"),
    (_NormalisesKeys, "test_hard_keys_are_kept_apart"),
    (_CutsAtNul, "test_hard_keys_are_kept_apart"),
    (_ComesBackAfterClosing, "test_a_closed_store_refuses_every_call"),
    (_NeverGivesATurn, "test_other_tasks_run_meanwhile"),
    (_NeverGivesATurn, "test_a_call_in_a_cancelled_scope_ends"),
]


FOUND = (AssertionError, ConflictError, pytest.fail.Exception)
"""How a case says that a promise was broken."""


class _Suite(KeyValueConformance):
    shares_data = False

    def __init__(self, kind: type[_Right]) -> None:
        self.kind = kind
        self.clock: SetClock | None = None

    def set_clock(self, micros: int) -> None:
        if self.clock is None:
            self.clock = SetClock(micros)
        self.clock.micros = micros

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[KeyValue]:
        clock: Clock | None = self.clock
        store = self.kind(clock=clock)
        try:
            yield store
        finally:
            await store.aclose()


@pytest.mark.parametrize(("bug", "case"), BUGS, ids=[f"{bug.__name__[1:]}-{case[5:]}" for bug, case in BUGS])
async def test_a_planted_bug_is_found(bug: type[_Right], case: str) -> None:
    arguments = {"limit": 3} if case == "test_pages_join_without_gap_or_repeat" else {}
    await getattr(_Suite(_Right), case)(**arguments)
    with pytest.raises(BaseException) as caught:
        await getattr(_Suite(bug), case)(**arguments)
    assert any(isinstance(error, FOUND) for error in _parts(caught.value)), "it failed, but not for the bug"


def _parts(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _parts(part)
    else:
        yield error
