"""Stores of one machine against a model in a plain dict, with a clock that the test moves."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laser.engines.memory import MemoryKeyValue
from laser.engines.sqlite import open_sqlite_kv
from laser.errors import ConflictError
from laser.ports.kv import ABSENT, ANY, KeyValue, KvEntry
from laser.testing.clock import SetClock
from tests.properties import examples

_NOW = 1_700_000_000_000_000

_SPACES = st.sampled_from(["a", "ab", "a\0"])
_KEYS = st.sampled_from(["a", "ab", "a\0", "a%", "a_", "b", "é", "😀"])
_PREFIXES = st.sampled_from(["", "a", "a%", "a_", "a\0", "é", "c"])
_TTLS = st.sampled_from([None, 1, 10, 1_000])
# What is expected is said in words, and becomes a version when the step is taken.
_EXPECTED = st.sampled_from(["any", "absent", "right", "old"])

_STEPS = st.one_of(
    st.tuples(st.just("set"), _SPACES, _KEYS, st.binary(max_size=4), _EXPECTED, _TTLS),
    st.tuples(st.just("set"), _SPACES, _KEYS, st.binary(max_size=4), st.just("any"), _TTLS),
    st.tuples(st.just("delete"), _SPACES, _KEYS, _EXPECTED),
    st.tuples(st.just("get"), _SPACES, _KEYS),
    st.tuples(st.just("scan"), _SPACES, _PREFIXES, st.none() | _KEYS, st.integers(1, 5)),
    st.tuples(st.just("wait"), st.sampled_from([1, 9, 10, 999])),
    st.tuples(st.just("reopen")),
)


class Model:
    """Entries by namespace and key, and the newest version that each was ever given."""

    def __init__(self, clock: SetClock) -> None:
        self.clock = clock
        self.entries: dict[tuple[str, str], KvEntry] = {}
        self.newest: dict[tuple[str, str], int] = {}

    def get(self, space: str, key: str) -> KvEntry | None:
        entry = self.entries.get((space, key))
        if entry is not None and entry.expires_at_micros is not None and entry.expires_at_micros <= self.clock.micros:
            del self.entries[space, key]
            return None
        return entry

    def expect(self, space: str, key: str, word: str) -> tuple[int, bool]:
        """The version that the word means, and whether it is the right one."""
        entry = self.get(space, key)
        found = ABSENT if entry is None else entry.version
        version = {"any": ANY, "absent": ABSENT, "right": found, "old": self.newest.get((space, key), 99) - 1}[word]
        return version, version in (ANY, found)

    def scan(self, space: str, prefix: str, after: str | None) -> list[KvEntry]:
        names = [key for one, key in list(self.entries) if one == space and self.get(one, key) is not None]
        return [
            self.entries[space, key]
            for key in sorted(names, key=str.encode)
            if key.startswith(prefix) and (after is None or key.encode() > after.encode())
        ]


async def _step(store: KeyValue, model: Model, step: tuple[Any, ...]) -> None:
    match step:
        case ("set", space, key, value, word, ttl):
            version, right = model.expect(space, key, word)
            if not right:
                with pytest.raises(ConflictError):
                    await store.set(space, key, value, expect=version, ttl_micros=ttl)
                return
            given_version = await store.set(space, key, value, expect=version, ttl_micros=ttl)
            assert given_version > model.newest.get((space, key), 0)
            model.newest[space, key] = given_version
            ends = None if ttl is None else model.clock.micros + ttl
            model.entries[space, key] = KvEntry(key, value, given_version, ends)
        case ("delete", space, key, word):
            version, right = model.expect(space, key, word)
            if not right:
                with pytest.raises(ConflictError):
                    await store.delete(space, key, expect=version)
                return
            there = model.get(space, key) is not None
            assert await store.delete(space, key, expect=version) is there
            model.entries.pop((space, key), None)
        case ("get", space, key):
            assert await store.get(space, key) == model.get(space, key)
        case ("scan", space, prefix, after, limit):
            wanted = model.scan(space, prefix, after)
            page = await store.scan(space, prefix=prefix, after=after, limit=limit)
            assert page.entries == wanted[:limit]
            assert page.next == (wanted[limit - 1].key if len(wanted) > limit else None)
        case ("wait", micros):
            model.clock.micros += micros


@examples(150)
@given(st.lists(_STEPS, max_size=40))
def test_memory(steps: list[tuple[Any, ...]]) -> None:
    async def run() -> None:
        clock = SetClock(_NOW)
        store, model = MemoryKeyValue(clock=clock), Model(clock)
        for step in steps:
            await _step(store, model, step)
        await store.aclose()

    anyio.run(run)


@examples(60)
@given(st.lists(_STEPS, max_size=40))
def test_sqlite(steps: list[tuple[Any, ...]]) -> None:
    async def run(directory: Path) -> None:
        clock = SetClock(_NOW)
        store: KeyValue = await open_sqlite_kv(directory, clock=clock)
        model = Model(clock)
        for step in steps:
            if step[0] == "reopen":
                await store.aclose()
                store = await open_sqlite_kv(directory, clock=clock)
            await _step(store, model, step)
        await store.aclose()

    directory = Path(tempfile.mkdtemp())
    try:
        anyio.run(run, directory)
    finally:
        shutil.rmtree(directory)
