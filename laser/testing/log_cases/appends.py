"""Appending: order, partitions, time, all or none, retries, many writers at once."""

from __future__ import annotations

import hashlib

import anyio
import pytest

from laser.errors import NotFoundError
from laser.model.topics import TopicConfig
from laser.testing.log_cases.base import LogCases
from laser.testing.log_cases.records import (
    CONVERSATIONS,
    FOREIGN_BLOCKS,
    GARBAGE_BLOCKS,
    batch,
    enveloped,
    record,
    stray,
)

__all__ = ["AppendCases"]

_CONV = CONVERSATIONS[0]


class AppendCases(LogCases):
    """What ``Log.append`` promises."""

    async def test_offsets_start_at_zero_and_grow_by_one(self) -> None:
        async with self.place() as place:
            placed = [(await place.append(record(_CONV)))[0] for _ in range(5)]
            assert placed == [(0, offset) for offset in range(5)]

    async def test_a_batch_lands_in_one_partition_in_its_order(self) -> None:
        async with self.place(partitions=4) as place:
            records = batch(_CONV, 50)
            placed = await place.append(*records)
            partition, first = placed[0]
            assert placed == [(partition, first + index) for index in range(50)]
            held = await place.read(partition)
            assert [(held_one.id, held_one.payload) for held_one in held] == [(one.id, one.payload) for one in records]

    async def test_records_come_back_as_they_were(self) -> None:
        async with self.place() as place:
            records = [record(_CONV), enveloped(_CONV), stray(), *[stray(block) for block in FOREIGN_BLOCKS]]
            await place.append(*records)
            held = await place.read()
            assert [(one.id, one.headers, one.payload) for one in held] == [
                (one.id, one.headers, one.payload) for one in records
            ]
            assert [one.partition for one in held] == [0] * len(records)
            assert [one.offset for one in held] == list(range(len(records)))

    async def test_headers_that_are_garbage_come_back_as_they_were(self) -> None:
        if not self.keeps_any_headers:
            pytest.skip("this log refuses headers that are not sound")
        async with self.place() as place:
            await place.append(*[stray(block) for block in GARBAGE_BLOCKS])
            assert tuple(one.headers for one in await place.read()) == GARBAGE_BLOCKS

    @pytest.mark.parametrize("size", [1, 2, 4_095, 4_096, 65_537, 4 << 20])
    async def test_payloads_of_any_size_and_byte_come_back(self, size: int) -> None:
        payload = (bytes(range(256)) * (size // 256 + 1))[:size]
        async with self.place() as place:
            await place.append(record(_CONV, payload))
            (held,) = await place.read()
            assert len(held.payload) == size
            assert hashlib.sha256(held.payload).digest() == hashlib.sha256(payload).digest()

    async def test_ids_of_the_full_range_come_back(self) -> None:
        async with self.place() as place:
            for number in (1, 2**64, 2**127, 2**128 - 1):
                await place.append(type(record(_CONV))(number, b"x"))
            assert [one.id for one in await place.read()] == [1, 2**64, 2**127, 2**128 - 1]

    async def test_one_key_one_partition(self) -> None:
        async with self.place(partitions=4) as place:
            used: dict[str, set[int]] = {}
            for _ in range(3):
                for index in range(32):
                    key = f"key-{index}"
                    placed = await place.append(record(_CONV), key=key)
                    used.setdefault(key, set()).add(placed[0][0])
            assert all(len(partitions) == 1 for partitions in used.values())
            assert len(set.union(*used.values())) > 1, "32 keys all went to one of 4 partitions"

    async def test_a_key_can_be_any_text_of_255_bytes(self) -> None:
        async with self.place(partitions=4) as place:
            for key in ("k", "日本語", "a" * 255, "key with blanks", "-"):
                first, again = await place.append(record(_CONV), key=key), await place.append(record(_CONV), key=key)
                assert first[0][0] == again[0][0]

    async def test_records_have_the_brokers_time(self) -> None:
        async with self.place() as place:
            await place.append(*batch(_CONV, 3))
            await place.append(record(_CONV))
            times = [one.timestamp_micros for one in await place.read()]
            assert times[0] > 0
            assert times[0] == times[1] == times[2], "records of one batch have one time"
            if not self.clock_can_step_back:
                assert times[3] >= times[2]

    async def test_what_was_appended_is_seen_by_every_later_read(self) -> None:
        async with self.place(partitions=2) as place:
            for number in range(20):
                ((partition, offset),) = await place.append(record(_CONV), key=f"key-{number}")
                page = await place.log.read(place.stream, place.topic, partition, start=offset, limit=1)
                assert [one.offset for one in page.records] == [offset]
                assert page.end == offset + 1

    async def test_another_client_sees_it_too(self) -> None:
        if not self.shares_data:
            pytest.skip("two of these logs do not share data")
        async with self.place(partitions=4) as place, self.open_log() as other:
            ((partition, offset),) = await place.append(record(_CONV))
            page = await other.read(place.stream, place.topic, partition, start=offset, limit=1)
            assert [one.offset for one in page.records] == [offset]
            done = await other.append(place.stream, place.topic, [record(_CONV)], key="key")
            assert (done.partition, done.offsets) == (partition, (offset + 1,)), "one key, one partition, in any client"

    async def test_an_absent_topic_is_refused_and_not_made(self) -> None:
        async with self.place() as place:
            for stream, topic in ((place.stream, "absent"), (place.stream + "-absent", place.topic)):
                with pytest.raises(NotFoundError) as caught:
                    await place.log.append(stream, topic, [record(_CONV)], key="key")
                assert (caught.value.stream, caught.value.topic) == (stream, topic)
                assert topic in str(caught.value)
                assert await place.log.topic(stream, topic) is None

    async def test_find_first_writes_only_what_is_missing(self) -> None:
        async with self.place(partitions=2) as place:
            before, records, after = batch(_CONV, 2), batch(_CONV, 4), batch(_CONV, 3)
            await place.append(*before)
            first = await place.append(*records[:2])
            await place.append(*after)
            again = await place.append(*records, find_first=True)
            assert again[:2] == first
            partition = first[0][0]
            assert again[2:] == [(partition, 7), (partition, 8)]
            assert await place.append(*records, find_first=True) == again
            held = [one.id for one in await place.read(partition)]
            assert held == [one.id for one in [*before, *records[:2], *after, *records[2:]]]

    async def test_find_first_answers_in_the_order_of_the_call(self) -> None:
        async with self.place() as place:
            records = batch(_CONV, 5)
            placed = dict(zip(records, await place.append(*records), strict=True))
            shuffled = [records[index] for index in (3, 0, 4, 1, 2)]
            assert await place.append(*shuffled, find_first=True) == [placed[one] for one in shuffled]

    async def test_find_first_goes_by_id_and_conversation(self) -> None:
        async with self.place() as place:
            records = [record(_CONV), stray()]
            first = await place.append(*records)
            changed = [type(one)(one.id, b"other", one.headers) for one in records]
            assert await place.append(*changed, find_first=True) == first
            # Another conversation may choose the same id: its record is another one.
            other = record(CONVERSATIONS[1])
            others = [type(other)(one.id, b"other", other.headers) for one in records]
            assert await place.append(*others, find_first=True) != first
            assert await place.append(*records, find_first=True) == first
            assert [one.payload for one in await place.read()] == [
                *(one.payload for one in records),
                b"other",
                b"other",
            ]

    async def test_find_first_looks_where_the_key_was_before_partitions_were_added(self) -> None:
        async with self.place(partitions=1) as place:
            keys = {f"key-{index}": batch(_CONV, 2) for index in range(16)}
            placed = {key: await place.append(*records, key=key) for key, records in keys.items()}
            await place.log.add_partitions(place.stream, place.topic, 3)
            for key, records in keys.items():
                assert await place.append(*records, key=key, find_first=True) == placed[key]
            assert len(await place.read(0)) == 32

    async def test_without_find_first_an_id_can_stand_twice(self) -> None:
        async with self.place() as place:
            one = record(_CONV)
            assert await place.append(one) != await place.append(one)

    async def test_eight_tasks_on_a_new_topic_lose_nothing(self) -> None:
        async with self.open_log() as log:
            stream = f"suite-{record(_CONV).id:032x}"
            placed: list[tuple[int, int, bytes]] = []

            async def write(task: int) -> None:
                await log.ensure_topic(stream, "events", TopicConfig(4))
                for number in range(10):
                    one = record(CONVERSATIONS[task % 6], f"{task}:{number}".encode())
                    done = await log.append(stream, "events", [one], key=f"task-{task}")
                    placed.append((done.partition, done.offsets[0], one.payload))

            async with anyio.create_task_group() as tasks:
                for task in range(8):
                    tasks.start_soon(write, task)
            held: list[tuple[int, int, bytes]] = []
            for partition in range(4):
                page = await log.read(stream, "events", partition, start=0, limit=100)
                assert [one.offset for one in page.records] == list(range(page.end))
                held += [(partition, one.offset, one.payload) for one in page.records]
            assert sorted(held) == sorted(placed)
            for task in range(8):
                own = [payload for _, _, payload in sorted(held) if payload.startswith(b"%d:" % task)]
                assert own == [b"%d:%d" % (task, number) for number in range(10)]

    async def test_batches_of_many_tasks_are_not_mixed(self) -> None:
        async with self.place() as place:

            async def write(task: int) -> None:
                for _ in range(5):
                    await place.append(*[record(_CONV, b"%d" % task) for _ in range(7)])

            async with anyio.create_task_group() as tasks:
                for task in range(8):
                    tasks.start_soon(write, task)
            payloads = [one.payload for one in await place.read()]
            assert len(payloads) == 8 * 5 * 7
            assert all(len(set(payloads[at : at + 7])) == 1 for at in range(0, len(payloads), 7))
