"""Random operations, compared with a model in a plain dict."""

from __future__ import annotations

import random
from typing import Final

import pytest

from laser.errors import ConflictError
from laser.ports.kv import ABSENT, ANY
from laser.testing.kv_cases.base import HARD_KEYS, KvCases, Place, by_bytes

__all__ = ["ModelCases"]

_KEYS: Final = ("a", "ab", "abc", "a\0", "a%", "a_", "a\\", "aé", "b", "é", "éa", "😀", "\0")
_PREFIXES: Final = ("", "", "a", "ab", "a%", "a_", "a\\", "é", "c", *HARD_KEYS[:4])


class ModelCases(KvCases):
    """The store does what a dict does."""

    @pytest.mark.parametrize("seed", range(3))
    async def test_random_operations(self, seed: int) -> None:
        rng = random.Random(f"kv-{seed}")
        async with self.two_places() as places:
            model = _Model(rng)
            for _ in range(self.rounds):
                await model.step(rng.choice(places))


class _Model:
    """What must be there: value and version by key; ``None`` where a version was, and nothing is now."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.entries: dict[str, tuple[bytes, int]] = {}
        self.versions: dict[str, int] = {}

    async def step(self, place: Place) -> None:
        key = self.rng.choice(_KEYS)
        await self.rng.choice([self.get, self.set, self.set, self.set, self.expire, self.delete, self.scan])(place, key)

    async def get(self, place: Place, key: str) -> None:
        entry = await place.get(key)
        assert (None if entry is None else (entry.value, entry.version)) == self.entries.get(key)

    async def set(self, place: Place, key: str, *, ttl_micros: int | None = None) -> None:
        value = self.rng.randbytes(self.rng.randrange(8))
        expect = self.expected(key)
        if expect not in (ANY, self.found(key)):
            with pytest.raises(ConflictError):
                await place.set(key, value, expect=expect, ttl_micros=ttl_micros)
            return
        version = await place.set(key, value, expect=expect, ttl_micros=ttl_micros or self.rng.choice([None, 10**12]))
        assert version > self.versions.get(key, 0)
        self.versions[key] = version
        self.entries[key] = (value, version)

    async def expire(self, place: Place, key: str) -> None:
        before = self.entries.get(key)
        await self.set(place, key, ttl_micros=1)
        if self.entries.get(key) != before:
            await place.until_absent(key)
            del self.entries[key]

    async def delete(self, place: Place, key: str) -> None:
        expect = self.expected(key)
        if expect not in (ANY, self.found(key)):
            with pytest.raises(ConflictError):
                await place.delete(key, expect=expect)
            return
        assert await place.delete(key, expect=expect) == (key in self.entries)
        self.entries.pop(key, None)

    async def scan(self, place: Place, key: str) -> None:
        prefix, limit = self.rng.choice(_PREFIXES), self.rng.choice([1, 2, 5, 100])
        after = self.rng.choice([None, key])
        wanted = [
            (name, *self.entries[name])
            for name in by_bytes(self.entries)
            if name.startswith(prefix) and (after is None or name.encode() > after.encode())
        ]
        found = await place.all(prefix=prefix, after=after, limit=limit)
        assert [(entry.key, entry.value, entry.version) for entry in found] == wanted

    def expected(self, key: str) -> int:
        """What a caller may expect: rightly, wrongly, or what was right once."""
        return self.rng.choice([ANY, ANY, ABSENT, self.found(key), self.versions.get(key, 7), 10**9])

    def found(self, key: str) -> int:
        return self.entries[key][1] if key in self.entries else ABSENT
