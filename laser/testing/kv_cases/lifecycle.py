"""Opening, closing, other clients, other event loops, cancelled calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from laser.errors import ClosedError
from laser.ports.kv import KeyValue
from laser.testing.kv_cases.base import KvCases, Place

__all__ = ["LifecycleCases"]


class LifecycleCases(KvCases):
    """What the port says of every method."""

    async def test_closing_again_does_nothing(self) -> None:
        async with self.open_store() as store:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(store.aclose)
                tasks.start_soon(store.aclose)
            await store.aclose()

    async def test_a_closed_store_refuses_every_call(self) -> None:
        async with self.place() as place:
            await place.store.aclose()
            for call in _calls(place.store, place.namespace):
                with pytest.raises(ClosedError):
                    await call()

    async def test_another_event_loop_is_refused(self) -> None:
        async with self.place() as place:
            calls = [*_calls(place.store, place.namespace), place.store.aclose]

            async def visit() -> int:
                refused = 0
                for call in calls:
                    with pytest.raises(ClosedError):
                        await call()
                    refused += 1
                return refused

            assert await anyio.to_thread.run_sync(anyio.run, visit) == len(calls)
            await place.set("key")

    async def test_writes_under_way_end_before_it_closes(self) -> None:
        if not self.shares_data:
            pytest.skip("two of these stores do not share data")
        async with self.place() as place:
            done: list[str] = []

            async def write(key: str) -> None:
                await place.set(key)
                done.append(key)

            async with anyio.create_task_group() as tasks:
                for number in range(8):
                    tasks.start_soon(write, f"{number}")
                await anyio.wait_all_tasks_blocked()
                await place.store.aclose()
            assert len(done) == 8
            async with self.open_store() as store:
                assert sorted(await Place(store, place.namespace).keys()) == sorted(done)

    async def test_what_was_written_is_there_after_reopening(self) -> None:
        if not self.shares_data:
            pytest.skip("two of these stores do not share data")
        async with self.place() as place:
            await place.set("key", b"value")
            await place.set("expiring", b"value", ttl_micros=3_600_000_000)
            gone = await place.set("gone")
            await place.delete("gone")
            before = await place.all()
        async with self.open_store() as store:
            again = Place(store, place.namespace)
            assert await again.all() == before
            assert await again.set("gone") > gone

    async def test_a_write_is_seen_by_another_client_at_once(self) -> None:
        async with self.two_places() as (one, other):
            for turn in range(20):
                version = await one.set("key", b"%d" % turn)
                entry = await other.get("key")
                assert entry is not None
                assert (entry.value, entry.version) == (b"%d" % turn, version)
                assert [found.value for found in await other.all()] == [b"%d" % turn]
                await other.delete("key", expect=version)
                assert await one.get("key") is None

    async def test_a_cancelled_write_is_whole_or_absent(self) -> None:
        async with self.place() as place:
            for turn in range(20):
                value = b"%d" % turn * 1_000
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(place.set, f"key-{turn}", value)
                        for _ in range(turn % 5):
                            await anyio.lowlevel.checkpoint()
                        scope.cancel()
                # Behind it in every queue, so what it did is done by now, or will never be seen in part.
                await place.set("after", b"%d" % turn)
                assert await place.value(f"key-{turn}") in (None, value)
            assert await place.value("after") == b"19"

    async def test_a_cancelled_read_leaves_it_usable(self) -> None:
        async with self.place() as place:
            await place.fill(f"{number}" for number in range(20))
            for turn in range(10):
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(place.keys)
                        for _ in range(turn % 4):
                            await anyio.lowlevel.checkpoint()
                        scope.cancel()
            assert len(await place.keys()) == 20

    async def test_a_call_in_a_cancelled_scope_ends(self) -> None:
        async with self.place() as place:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await place.get("key")
            assert scope.cancelled_caught
            await place.set("key")

    async def test_other_tasks_run_meanwhile(self) -> None:
        async with self.place() as place:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    ticks += 1
                    await anyio.lowlevel.checkpoint()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tick)
                for _ in range(10):
                    await place.set("key")
                    await place.get("key")
                    await place.keys()
                tasks.cancel_scope.cancel()
            # Thirty calls; an event loop that mixes up the order may take some of their turns together.
            assert ticks >= 20, "each call must give other tasks a turn"


def _calls(store: KeyValue, namespace: str) -> list[Callable[[], Awaitable[object]]]:
    return [
        lambda: store.get(namespace, "key"),
        lambda: store.set(namespace, "key", b"value"),
        lambda: store.delete(namespace, "key"),
        lambda: store.scan(namespace),
    ]
