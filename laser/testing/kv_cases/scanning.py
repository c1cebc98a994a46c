"""Scans: order, prefixes, pages."""

from __future__ import annotations

import anyio
import pytest

from laser.limits import MAX_KV_VALUE_BYTES, MAX_SCAN_BYTES, MAX_SCAN_LIMIT
from laser.testing.kv_cases.base import HARD_KEYS, KvCases, by_bytes

__all__ = ["ScanningCases"]


class ScanningCases(KvCases):
    """``scan``."""

    async def test_nothing_to_scan(self) -> None:
        async with self.place() as place:
            page = await place.store.scan(place.namespace)
            assert (page.entries, page.next) == ([], None)

    async def test_entries_are_as_got_one_by_one(self) -> None:
        async with self.place() as place:
            await place.set("a", b"1")
            await place.set("b", b"2", ttl_micros=3_600_000_000)
            await place.set("a", b"3")
            assert await place.all() == [await place.get("a"), await place.get("b")]

    async def test_the_order_is_that_of_utf8_bytes(self) -> None:
        async with self.place() as place:
            await place.fill(HARD_KEYS)
            assert await place.keys(limit=MAX_SCAN_LIMIT) == by_bytes(HARD_KEYS)

    async def test_a_prefix_is_taken_literally(self) -> None:
        async with self.place() as place:
            await place.fill(HARD_KEYS)
            prefixes = {key[:length] for key in HARD_KEYS for length in (1, 2, 3)} | {"absent", "a" * 511, "%%", "\\\\"}
            for prefix in sorted(prefixes):
                wanted = by_bytes(key for key in HARD_KEYS if key.startswith(prefix))
                assert await place.keys(prefix=prefix) == wanted, f"prefix {prefix!r}"

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 64])
    async def test_pages_join_without_gap_or_repeat(self, limit: int) -> None:
        async with self.place() as place:
            await place.fill(HARD_KEYS)
            assert await place.keys(limit=limit) == by_bytes(HARD_KEYS)
            assert await place.keys(limit=limit, prefix="a") == by_bytes(key for key in HARD_KEYS if key[0] == "a")

    async def test_a_page_of_every_entry_is_the_last(self) -> None:
        async with self.place() as place:
            await place.fill(["a", "b", "c"])
            page = await place.store.scan(place.namespace, limit=3)
            assert [entry.key for entry in page.entries] == ["a", "b", "c"]
            assert page.next is None

    async def test_after_is_exclusive_and_need_not_exist(self) -> None:
        async with self.place() as place:
            await place.fill(["a", "b", "ba", "bb", "bb\0", "c"])
            assert await place.keys(after="b") == ["ba", "bb", "bb\0", "c"]
            assert await place.keys(after="b!") == ["ba", "bb", "bb\0", "c"]
            assert await place.keys(after="c") == []
            assert await place.keys(after="\U0010ffff") == []
            assert await place.keys(after="\0") == ["a", "b", "ba", "bb", "bb\0", "c"]

    async def test_after_and_prefix_together(self) -> None:
        async with self.place() as place:
            await place.fill(["a", "b", "ba", "bb", "bb\0", "c"])
            assert await place.keys(prefix="b", after="a") == ["b", "ba", "bb", "bb\0"]
            assert await place.keys(prefix="b", after="b") == ["ba", "bb", "bb\0"]
            assert await place.keys(prefix="b", after="bb") == ["bb\0"]
            assert await place.keys(prefix="b", after="c") == []
            assert await place.keys(prefix="bb", after="b") == ["bb", "bb\0"]

    async def test_a_scan_goes_on_behind_a_deleted_key(self) -> None:
        async with self.place() as place:
            await place.fill("abcdef")
            page = await place.store.scan(place.namespace, limit=3)
            assert page.next == "c"
            await place.delete("c")
            await place.delete("d")
            assert await place.keys(after=page.next) == ["e", "f"]

    async def test_the_largest_page(self) -> None:
        keys = [f"{number:05}" for number in range(MAX_SCAN_LIMIT + 5)]
        async with self.place() as place:
            await place.fill(keys)
            page = await place.store.scan(place.namespace, limit=MAX_SCAN_LIMIT)
            assert [entry.key for entry in page.entries] == keys[:MAX_SCAN_LIMIT]
            assert page.next == keys[MAX_SCAN_LIMIT - 1]
            assert await place.keys(limit=MAX_SCAN_LIMIT) == keys

    async def test_a_page_of_large_values_ends_early(self) -> None:
        fitting = MAX_SCAN_BYTES // MAX_KV_VALUE_BYTES
        async with self.place() as place:
            for number in range(fitting + 1):
                await place.set(f"{number}", b"%d" % number * MAX_KV_VALUE_BYTES)
            page = await place.store.scan(place.namespace)
            assert 0 < len(page.entries) <= fitting + 1
            assert sum(len(entry.value) for entry in page.entries[:-1]) < MAX_SCAN_BYTES
            found = [entry.value[:1] for entry in page.entries]
            while page.next is not None:
                page = await place.store.scan(place.namespace, after=page.next)
                found += [entry.value[:1] for entry in page.entries]
            assert found == [b"%d" % number for number in range(fitting + 1)]

    async def test_what_stays_is_scanned_once_while_others_write(self) -> None:
        staying = [f"{number:03}" for number in range(0, 60, 2)]
        async with self.two_places() as (reader, writer):
            await reader.fill(staying)

            async def write() -> None:
                while True:
                    for number in range(1, 60, 2):
                        await writer.set(f"{number:03}")
                        await writer.delete(f"{number:03}")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write)
                for limit in (1, 4, 9):
                    keys = await reader.keys(limit=limit)
                    assert keys == by_bytes(set(keys))
                    assert [key for key in keys if key in staying] == staying
                tasks.cancel_scope.cancel()
