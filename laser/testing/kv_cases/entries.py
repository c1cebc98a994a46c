"""Getting, setting and deleting."""

from __future__ import annotations

import pytest

from laser.limits import MAX_KV_KEY_BYTES, MAX_KV_VALUE_BYTES
from laser.ports.kv import KvEntry
from laser.testing.kv_cases.base import HARD_KEYS, KvCases, by_bytes

__all__ = ["EntryCases"]


class EntryCases(KvCases):
    """One entry at a time."""

    async def test_what_was_set_is_got(self) -> None:
        async with self.place() as place:
            version = await place.set("key", b"value")
            assert version >= 1
            assert await place.get("key") == KvEntry("key", b"value", version, None)

    async def test_what_was_never_set_is_absent(self) -> None:
        async with self.place() as place:
            assert await place.get("key") is None
            assert await place.delete("key") is False

    async def test_a_write_replaces_the_value_and_raises_the_version(self) -> None:
        async with self.place() as place:
            versions = [await place.set("key", b"%d" % turn) for turn in range(5)]
            assert versions == sorted(set(versions))
            assert await place.get("key") == KvEntry("key", b"4", versions[-1], None)

    async def test_a_deleted_entry_is_absent(self) -> None:
        async with self.place() as place:
            await place.set("key")
            await place.set("other")
            assert await place.delete("key") is True
            assert await place.get("key") is None
            assert await place.keys() == ["other"]
            assert await place.delete("key") is False

    async def test_versions_grow_over_deletes(self) -> None:
        async with self.place() as place:
            versions = []
            for _ in range(5):
                versions.append(await place.set("key"))
                await place.delete("key")
            assert versions == sorted(set(versions))

    @pytest.mark.parametrize(
        "value",
        [
            b"",
            b"\0",
            b"a\0b",
            bytes(range(256)),
            b"\xff\xfe",
            b"\\x41",
            b"'",
            b"1:0:",
            b"::",
            b"\r\n",
            b"%b",
            "é".encode(),
        ],
        ids=repr,
    )
    async def test_any_bytes_are_a_value(self, value: bytes) -> None:
        async with self.place() as place:
            await place.set("key", value)
            assert await place.value("key") == value
            assert [entry.value for entry in await place.all()] == [value]

    async def test_the_largest_value(self) -> None:
        value = bytes(range(256)) * (MAX_KV_VALUE_BYTES // 256)
        assert len(value) == MAX_KV_VALUE_BYTES
        async with self.place() as place:
            version = await place.set("key", value)
            # Compared by truth: a failure must not print eight million bytes.
            same = await place.get("key") == KvEntry("key", value, version, None)
            assert same
            with_scan = await place.all() == [KvEntry("key", value, version, None)]
            assert with_scan

    async def test_hard_keys_are_kept_apart(self) -> None:
        assert len(set(HARD_KEYS)) == len(HARD_KEYS)
        assert max(len(key.encode()) for key in HARD_KEYS) == MAX_KV_KEY_BYTES
        async with self.place() as place:
            await place.fill(HARD_KEYS)
            for key in HARD_KEYS:
                assert await place.value(key) == key.encode()
            gone, kept = HARD_KEYS[::2], HARD_KEYS[1::2]
            for key in gone:
                assert await place.delete(key) is True
            assert [entry.value.decode() for entry in await place.all()] == by_bytes(kept)
            for key in gone:
                assert await place.get(key) is None
