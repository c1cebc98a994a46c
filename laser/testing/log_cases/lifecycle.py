"""Opening, closing, other event loops, cancelled calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec
import pytest

from laser.errors import ClosedError
from laser.model.records import NewRecord
from laser.model.topics import TopicConfig
from laser.model.window import Match, WindowQuery
from laser.ports.log import Log
from laser.testing.log_cases.base import LogCases, contents
from laser.testing.log_cases.records import CONVERSATIONS, batch, record

__all__ = ["LifecycleCases"]

_CONV = CONVERSATIONS[0]


class LifecycleCases(LogCases):
    """What the port says of every method."""

    async def test_it_describes_itself(self) -> None:
        async with self.open_log() as log:
            about = await log.describe()
            assert about.engine
            assert about.version
            assert about.durabilities

    async def test_closing_again_does_nothing(self) -> None:
        async with self.open_log() as log:
            await log.aclose()
            await log.aclose()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(log.aclose)
                tasks.start_soon(log.aclose)

    async def test_closing_twice_at_once(self) -> None:
        async with self.place() as place, anyio.create_task_group() as tasks:
            tasks.start_soon(place.log.aclose)
            tasks.start_soon(place.log.aclose)

    async def test_a_closed_log_refuses_every_call(self) -> None:
        async with self.place() as place:
            await place.log.aclose()
            for call in _calls(place.log, place.stream, place.topic):
                with pytest.raises(ClosedError):
                    await call()

    async def test_another_event_loop_is_refused(self) -> None:
        async with self.place() as place:

            async def visit() -> list[type[BaseException]]:
                errors: list[type[BaseException]] = []
                for call in [*_calls(place.log, place.stream, place.topic), place.log.aclose]:
                    try:
                        await call()
                    except ClosedError as error:
                        errors.append(type(error))
                return errors

            errors = await anyio.to_thread.run_sync(anyio.run, visit)
            assert len(errors) == len(_calls(place.log, "", "")) + 1
            await place.append(record(_CONV))

    async def test_appends_under_way_finish_before_it_closes(self) -> None:
        if not self.shares_data:
            pytest.skip("two of these logs do not share data")
        async with self.place() as place:
            done: list[tuple[int, int]] = []

            async def write() -> None:
                done.extend(await place.append(*batch(_CONV, 5)))

            async with anyio.create_task_group() as tasks:
                for _ in range(8):
                    tasks.start_soon(write)
                await anyio.wait_all_tasks_blocked()
                await place.log.aclose()
            async with self.open_log() as log:
                held = await contents(log, place.stream, place.topic, 0)
                assert sorted((0, one.offset) for one in held) == sorted(done)
                assert len(done) == 40

    async def test_what_was_acknowledged_is_there_after_reopening(self) -> None:
        if not self.shares_data:
            pytest.skip("two of these logs do not share data")
        async with self.place(partitions=2) as place:
            records = batch(_CONV, 20)
            placed = await place.append(*records)
            before = await place.log.topic(place.stream, place.topic)
        async with self.open_log() as log:
            again = await log.topic(place.stream, place.topic)
            assert before is not None
            assert again is not None
            # The epoch counts the connections of one client.
            assert msgspec.structs.replace(again, epoch=before.epoch) == before
            held = await contents(log, place.stream, place.topic, placed[0][0])
            assert [(one.offset, one.id, one.payload) for one in held] == [
                (offset, one.id, one.payload) for (_, offset), one in zip(placed, records, strict=True)
            ]
            done = await log.append(place.stream, place.topic, [record(_CONV)], key="key")
            assert (done.partition, done.offsets) == (placed[0][0], (20,))

    async def test_a_cancelled_append_is_whole_or_absent(self) -> None:
        async with self.place() as place:
            sent: list[list[int]] = []
            for turn in range(20):
                records = batch(_CONV, 3)
                sent.append([one.id for one in records])
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(_append, place.log, place.stream, place.topic, records)
                        for _ in range(turn % 4):
                            await anyio.lowlevel.checkpoint()
                        scope.cancel()
            last = batch(_CONV, 2)
            await place.append(*last)
            held = [one.id for one in await place.read()]
            assert held[-2:] == [one.id for one in last]
            for ids in sent:
                found = [number for number in held if number in ids]
                assert found in ([], ids)

    async def test_a_cancelled_read_leaves_it_usable(self) -> None:
        async with self.place() as place:
            await place.append(*batch(_CONV, 200))
            for turn in range(10):
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(place.log.window, place.stream, place.topic, WindowQuery(Match(_CONV)))
                        for _ in range(turn % 3):
                            await anyio.lowlevel.checkpoint()
                        scope.cancel()
            assert len(await place.read()) == 200

    async def test_a_call_in_a_cancelled_scope_ends(self) -> None:
        async with self.place() as place:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await place.log.topics(place.stream)
            assert scope.cancelled_caught
            assert len(await place.log.topics(place.stream)) == 1

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
                    await place.append(*batch(_CONV, 20))
                    await place.log.window(place.stream, place.topic, WindowQuery(Match(_CONV)))
                tasks.cancel_scope.cancel()
            assert ticks >= 10, "each call must give other tasks a turn"


async def _append(log: Log, stream: str, topic: str, records: list[NewRecord]) -> None:
    await log.append(stream, topic, records, key="key")


def _calls(log: Log, stream: str, topic: str) -> list[Callable[[], Awaitable[object]]]:
    return [
        lambda: log.ensure_topic(stream, topic, TopicConfig(1)),
        lambda: log.topic(stream, topic),
        lambda: log.topics(stream),
        lambda: log.append(stream, topic, [record(_CONV)], key="key"),
        lambda: log.read(stream, topic, 0, start=0, limit=1),
        lambda: log.window(stream, topic, WindowQuery(Match(_CONV))),
        lambda: log.add_partitions(stream, topic, 1),
        lambda: log.purge(stream, topic),
        lambda: log.delete_topic(stream, topic),
        lambda: log.describe(),
    ]
