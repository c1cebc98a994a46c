"""Entries that go by themselves."""

from __future__ import annotations

import time

import pytest

from laser.errors import ConflictError
from laser.limits import MAX_KV_TTL_MICROS
from laser.ports.kv import ABSENT, KvEntry
from laser.testing.kv_cases.base import KvCases, Place

__all__ = ["ExpiringCases"]

_HOUR = 3_600_000_000
_SOON = 20_000
_SOMETIME = 1_700_000_000_000_000


class ExpiringCases(KvCases):
    """Times to live. Cases without a clock to set wait for short ones to pass."""

    async def test_an_entry_stays_for_its_time(self) -> None:
        seconds = 0.25
        async with self.place() as place:
            begun = time.monotonic()
            await place.set("key", ttl_micros=int(seconds * 1e6))
            await place.until_absent("key")
            # The store's clock and this one need not run at quite the same speed.
            assert time.monotonic() - begun >= seconds - 0.01

    async def test_an_expired_entry_is_absent_from_every_operation(self) -> None:
        async with self.place() as place:
            version = await place.set("key", ttl_micros=_SOON)
            await place.set("stays", ttl_micros=_HOUR)
            await place.until_absent("key")
            assert await place.keys() == ["stays"]
            assert await place.keys(prefix="key") == []
            assert await place.delete("key") is False
            assert await place.delete("key", expect=ABSENT) is False
            with pytest.raises(ConflictError, match="nothing"):
                await place.set("key", expect=version)
            with pytest.raises(ConflictError, match="nothing"):
                await place.delete("key", expect=version)
            assert await place.set("key", b"new", expect=ABSENT) > version
            assert await place.value("key") == b"new"

    async def test_versions_grow_over_an_expiry(self) -> None:
        async with self.place() as place:
            first = await place.set("key", ttl_micros=1)
            await place.until_absent("key")
            assert await place.set("key") > first

    async def test_a_write_replaces_the_time_to_live(self) -> None:
        async with self.place() as place:
            await place.set("key", ttl_micros=_SOON)
            await place.set("other", ttl_micros=_SOON)
            await place.set("key", b"stays")
            await place.until_absent("other")
            entry = await place.get("key")
            assert entry is not None
            assert (entry.value, entry.expires_at_micros) == (b"stays", None)
            assert await place.keys() == ["key"]
            await place.set("key", ttl_micros=_SOON)
            await place.until_absent("key")
            assert await place.keys() == []

    async def test_the_end_is_told_by_the_clock_of_the_store(self) -> None:
        async with self.place() as place:
            begun = time.monotonic()
            ends = [await _end(place, f"{hours}", hours * _HOUR) for hours in (1, 2, 4)]
            # Two milliseconds for stores that keep whole ones.
            slack = int((time.monotonic() - begun) * 1e6) + 2_000
            assert 0 <= ends[1] - ends[0] - _HOUR <= slack
            assert 0 <= ends[2] - ends[1] - 2 * _HOUR <= slack

    async def test_the_longest_time_to_live(self) -> None:
        async with self.place() as place:
            hour, longest = await _end(place, "hour", _HOUR), await _end(place, "longest", MAX_KV_TTL_MICROS)
            # A minute for the calls between the two.
            assert 0 <= longest - hour - (MAX_KV_TTL_MICROS - _HOUR) <= 60_000_000

    async def test_a_scan_passes_over_many_expired_entries(self) -> None:
        async with self.place() as place:
            for number in range(40):
                ttl = None if number % 10 == 9 else 1
                await place.set(f"{number:02}", ttl_micros=ttl)
            await place.until_absent("38")
            for limit in (1, 3, 100):
                assert await place.keys(limit=limit) == ["09", "19", "29", "39"]
            assert await place.keys(prefix="1") == ["19"]

    async def test_the_moment_is_exact(self) -> None:
        self.set_clock(_SOMETIME)
        async with self.place() as place:
            version = await place.set("key", ttl_micros=10)
            entry = KvEntry("key", b"value", version, _SOMETIME + 10)
            self.set_clock(_SOMETIME + 9)
            assert await place.get("key") == entry
            assert await place.all() == [entry]
            self.set_clock(_SOMETIME + 10)
            assert await place.get("key") is None
            assert await place.all() == []
            assert await place.delete("key") is False

    async def test_expired_entries_do_not_come_back_to_a_counter(self) -> None:
        self.set_clock(_SOMETIME)
        async with self.place() as place:
            versions = []
            for turn in range(5):
                self.set_clock(_SOMETIME + turn * 10)
                versions.append(await place.set("key", expect=ABSENT, ttl_micros=10))
            assert versions == sorted(set(versions))

    async def test_a_clock_that_jumps_moves_only_expiry(self) -> None:
        self.set_clock(_SOMETIME)
        async with self.place() as place:
            first = await place.set("stays")
            await place.set("goes", ttl_micros=_HOUR)
            self.set_clock(_SOMETIME + 10 * 365 * 24 * _HOUR)
            assert await place.keys() == ["stays"]
            second = await place.set("stays", expect=first)
            self.set_clock(_SOMETIME - _HOUR)
            assert await place.set("stays", expect=second) > second


async def _end(place: Place, key: str, ttl_micros: int) -> int:
    await place.set(key, ttl_micros=ttl_micros)
    entry = await place.get(key)
    assert entry is not None
    assert entry.expires_at_micros is not None
    return entry.expires_at_micros
