"""Compare-and-set, alone and in a crowd."""

from __future__ import annotations

import anyio
import pytest

from laser.errors import ConflictError
from laser.ports.kv import ABSENT
from laser.testing.kv_cases.base import KvCases, Place

__all__ = ["ComparingCases"]

_TASKS = 16


class ComparingCases(KvCases):
    """``expect``, of ``set`` and ``delete``."""

    async def test_set_where_nothing_may_be(self) -> None:
        async with self.place() as place:
            version = await place.set("key", b"first", expect=ABSENT)
            with pytest.raises(ConflictError, match=f"version {version}"):
                await place.set("key", b"second", expect=ABSENT)
            entry = await place.get("key")
            assert entry is not None
            assert (entry.value, entry.version) == (b"first", version)

    async def test_set_over_the_expected_version(self) -> None:
        async with self.place() as place:
            first = await place.set("key", b"first")
            second = await place.set("key", b"second", expect=first)
            assert second > first
            with pytest.raises(ConflictError):
                await place.set("key", b"third", expect=first)
            assert await place.value("key") == b"second"

    async def test_set_expecting_a_version_where_nothing_is(self) -> None:
        async with self.place() as place:
            with pytest.raises(ConflictError, match="nothing"):
                await place.set("key", expect=1)
            assert await place.get("key") is None
            assert await place.keys() == []

    async def test_a_version_is_not_expected_again_after_a_delete(self) -> None:
        async with self.place() as place:
            first = await place.set("key", b"same")
            await place.delete("key")
            with pytest.raises(ConflictError):
                await place.set("key", expect=first)
            second = await place.set("key", b"same")
            with pytest.raises(ConflictError):
                await place.set("key", expect=first)
            await place.set("key", expect=second)

    async def test_set_where_nothing_may_be_after_a_delete(self) -> None:
        async with self.place() as place:
            first = await place.set("key")
            await place.delete("key")
            assert await place.set("key", expect=ABSENT) > first

    async def test_a_refused_set_leaves_the_expiry(self) -> None:
        async with self.place() as place:
            await place.set("key", b"first", ttl_micros=3_600_000_000)
            before = await place.get("key")
            with pytest.raises(ConflictError):
                await place.set("key", b"second", expect=ABSENT)
            assert await place.get("key") == before

    async def test_delete_of_the_expected_version(self) -> None:
        async with self.place() as place:
            first = await place.set("key")
            second = await place.set("key", b"second")
            with pytest.raises(ConflictError):
                await place.delete("key", expect=first)
            assert await place.value("key") == b"second"
            assert await place.delete("key", expect=second) is True
            with pytest.raises(ConflictError):
                await place.delete("key", expect=second)

    async def test_delete_where_nothing_may_be(self) -> None:
        async with self.place() as place:
            assert await place.delete("key", expect=ABSENT) is False
            await place.set("key")
            with pytest.raises(ConflictError):
                await place.delete("key", expect=ABSENT)
            assert await place.value("key") == b"value"

    async def test_tasks_counting_by_compare_and_set_lose_nothing(self) -> None:
        turns = 5
        async with self.two_places() as places:

            async def count(place: Place) -> None:
                for _ in range(turns):
                    await _increment(place)

            async with anyio.create_task_group() as tasks:
                for number in range(_TASKS):
                    tasks.start_soon(count, places[number % 2])
            assert await places[0].value("key") == b"%d" % (_TASKS * turns)

    async def test_one_of_many_sets_what_nothing_may_be_at(self) -> None:
        async with self.two_places() as places:
            won: list[int] = []

            async def take(place: Place, number: int) -> None:
                try:
                    await place.set("key", b"%d" % number, expect=ABSENT)
                except ConflictError:
                    return
                won.append(number)

            async with anyio.create_task_group() as tasks:
                for number in range(_TASKS):
                    tasks.start_soon(take, places[number % 2], number)
            assert [await places[1].value("key")] == [b"%d" % number for number in won]

    async def test_one_of_many_deletes_the_expected_version(self) -> None:
        async with self.two_places() as places:
            version = await places[0].set("key")
            removed: list[bool] = []

            async def remove(place: Place) -> None:
                try:
                    removed.append(await place.delete("key", expect=version))
                except ConflictError:
                    return

            async with anyio.create_task_group() as tasks:
                for number in range(_TASKS):
                    tasks.start_soon(remove, places[number % 2])
            assert removed == [True]

    async def test_the_last_of_many_writes_has_the_highest_version(self) -> None:
        async with self.two_places() as places:
            written: dict[int, bytes] = {}

            async def write(place: Place, number: int) -> None:
                version = await place.set("key", b"%d" % number)
                written[version] = b"%d" % number

            async with anyio.create_task_group() as tasks:
                for number in range(2 * _TASKS):
                    tasks.start_soon(write, places[number % 2], number)
            assert len(written) == 2 * _TASKS, "each write has a version of its own"
            assert await places[0].value("key") == written[max(written)]

    async def test_versions_never_fall_while_others_set_and_delete(self) -> None:
        async with self.two_places() as places:
            seen: list[int] = []

            async def write(place: Place) -> None:
                for turn in range(10):
                    await place.set("key")
                    if turn % 2:
                        await place.delete("key")

            async def watch() -> None:
                while True:
                    entry = await places[1].get("key")
                    if entry is not None:
                        seen.append(entry.version)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                async with anyio.create_task_group() as writers:
                    for number in range(6):
                        writers.start_soon(write, places[number % 2])
                tasks.cancel_scope.cancel()
            assert seen == sorted(seen)
            last = await places[0].set("key")
            assert not seen or last > seen[-1]


async def _increment(place: Place) -> None:
    while True:
        entry = await place.get("key")
        number, version = (0, ABSENT) if entry is None else (int(entry.value), entry.version)
        try:
            await place.set("key", b"%d" % (number + 1), expect=version)
        except ConflictError:
            continue
        return
