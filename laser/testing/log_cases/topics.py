"""Topics: creating, growing, emptying, removing, time and retention."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from laser.errors import LimitError, NotFoundError, UnsupportedError
from laser.limits import MAX_PARTITIONS
from laser.model.topics import DURABILITIES, TopicConfig, TopicInfo, TopicRetention
from laser.model.window import Match, WindowQuery
from laser.testing.log_cases.base import LogCases
from laser.testing.log_cases.records import CONVERSATIONS, batch, record

__all__ = ["TopicCases"]

_CONV = CONVERSATIONS[0]
_HOUR = 3_600_000_000


class TopicCases(LogCases):
    """What the methods about topics promise."""

    async def test_a_new_topic(self) -> None:
        async with self.place(partitions=3) as place:
            info = await place.log.topic(place.stream, place.topic)
            assert info is not None
            assert (info.stream, info.name, info.records) == (place.stream, place.topic, 0)
            assert [(part.id, part.first, part.end) for part in info.partitions] == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
            assert 0 <= info.stream_id < 2**32
            assert 0 <= info.topic_id < 2**32
            times = [info.stream_created_at_micros, info.created_at_micros, *_created(info)]
            assert min(times) > 0
            assert info.retention is None

    async def test_an_existing_topic_is_left_as_it_is(self) -> None:
        async with self.place(partitions=2) as place:
            await place.append(record(_CONV))
            before = await place.log.topic(place.stream, place.topic)
            other = TopicConfig(5, TopicRetention(expire_after=timedelta(days=1)))
            assert await place.log.ensure_topic(place.stream, place.topic, other) == before
            assert await place.log.topic(place.stream, place.topic) == before

    async def test_eight_tasks_make_one_topic(self) -> None:
        async with self.place() as place:
            infos: list[TopicInfo] = []

            async def ensure() -> None:
                infos.append(await place.log.ensure_topic(place.stream, "shared", TopicConfig(2)))

            async with anyio.create_task_group() as tasks:
                for _ in range(8):
                    tasks.start_soon(ensure)
            assert len(infos) == 8
            assert len({(info.topic_id, info.created_at_micros) for info in infos}) == 1

    async def test_absent_topics(self) -> None:
        async with self.place() as place:
            assert await place.log.topic(place.stream, "absent") is None
            assert await place.log.topic(place.stream + "-absent", place.topic) is None
            assert await place.log.topics(place.stream + "-absent") == ()
            for call in (place.log.purge, place.log.delete_topic):
                with pytest.raises(NotFoundError) as caught:
                    await call(place.stream, "absent")
                assert (caught.value.stream, caught.value.topic) == (place.stream, "absent")
                with pytest.raises(NotFoundError):
                    await call(place.stream + "-absent", place.topic)
            with pytest.raises(NotFoundError):
                await place.log.add_partitions(place.stream, "absent", 1)

    async def test_topics_by_name(self) -> None:
        async with self.place() as place:
            for name in ("zeta", "alpha", "Beta"):
                await place.log.ensure_topic(place.stream, name, TopicConfig(1))
            found = await place.log.topics(place.stream)
            assert [info.name for info in found] == sorted(["zeta", "alpha", "Beta", place.topic])
            assert len({info.topic_id for info in found}) == 4
            assert found == tuple([await place.log.topic(place.stream, info.name) for info in found])
            assert await place.log.topics(place.stream, ["zeta", "absent", "alpha", "zeta"]) == (found[1], found[3])
            assert await place.log.topics(place.stream, []) == ()
            assert await place.log.topics(place.stream + "-absent", ["zeta"]) == ()

    async def test_topics_and_streams_are_apart(self) -> None:
        async with self.place() as place:
            await place.log.ensure_topic(place.stream, "other", TopicConfig(1))
            await place.log.ensure_topic(place.stream + "-2", place.topic, TopicConfig(1))
            await place.append(*batch(_CONV, 3))
            for stream, topic in ((place.stream, "other"), (place.stream + "-2", place.topic)):
                info = await place.log.topic(stream, topic)
                assert info is not None
                assert info.records == 0
                window = await place.log.window(stream, topic, WindowQuery(Match(_CONV)))
                assert window is not None
                assert window.records == []

    async def test_names_can_be_any_text(self) -> None:
        names = ["x", "日本語.topic", "a b", "../up", "semi;colon'quote\"--", "n" * 255, "UPPER", "upper"]
        async with self.place() as place:
            for name in names:
                await place.log.ensure_topic(place.stream, name, TopicConfig(1))
                await place.log.append(place.stream, name, [record(_CONV, name.encode())], key="key")
            for name in names:
                page = await place.log.read(place.stream, name, 0, start=0, limit=2)
                assert [one.payload for one in page.records] == [name.encode()]

    async def test_each_durability_that_it_names(self) -> None:
        async with self.place() as place:
            about = await place.log.describe()
            assert about.default_durability in about.durabilities
            for durability in DURABILITIES:
                config = TopicConfig(1, durability=durability)
                if durability not in about.durabilities:
                    with pytest.raises(UnsupportedError):
                        await place.log.ensure_topic(place.stream, durability, config)
                    assert await place.log.topic(place.stream, durability) is None
                    continue
                info = await place.log.ensure_topic(place.stream, durability, config)
                assert info.durability in (durability, None)
                await place.log.append(place.stream, durability, batch(_CONV, 3), key="key")
                page = await place.log.read(place.stream, durability, 0, start=0, limit=5)
                assert len(page.records) == 3

    async def test_retention_is_kept_as_asked(self) -> None:
        async with self.place() as place:
            retention = TopicRetention(expire_after=timedelta(days=30))
            info = await place.log.ensure_topic(place.stream, "bounded", TopicConfig(1, retention))
            assert info.retention == retention
            await place.log.append(place.stream, "bounded", batch(_CONV, 3), key="key")
            page = await place.log.read(place.stream, "bounded", 0, start=0, limit=5)
            assert len(page.records) == 3

    async def test_size_grows_with_what_is_appended(self) -> None:
        async with self.place() as place:
            await place.append(record(_CONV, bytes(10_000)))
            info = await place.log.topic(place.stream, place.topic)
            assert info is not None
            assert info.size_bytes >= 10_000

    async def test_added_partitions(self) -> None:
        async with self.place(partitions=1) as place:
            await place.append(*batch(_CONV, 4))
            before = await place.log.topic(place.stream, place.topic)
            info = await place.log.add_partitions(place.stream, place.topic, 3)
            assert before is not None
            assert [part.id for part in info.partitions] == [0, 1, 2, 3]
            assert info.partitions[0] == before.partitions[0]
            assert min(_created(info)[1:]) > before.partitions[0].created_at_micros
            assert info == await place.log.topic(place.stream, place.topic)
            used = {(await place.append(record(_CONV), key=f"key-{index}"))[0][0] for index in range(32)}
            assert used - {0}, "32 keys and none in an added partition"
            assert len((await place.read(0))[:4]) == 4

    async def test_no_more_partitions_than_the_limit(self) -> None:
        async with self.place(partitions=2) as place:
            with pytest.raises(LimitError) as caught:
                await place.log.add_partitions(place.stream, place.topic, MAX_PARTITIONS - 1)
            assert caught.value.limit == MAX_PARTITIONS
            info = await place.log.topic(place.stream, place.topic)
            assert info is not None
            assert len(info.partitions) == 2

    async def test_purge_begins_anew(self) -> None:
        async with self.place(partitions=2) as place:
            first = await place.append(*batch(_CONV, 5))
            before = await place.log.topic(place.stream, place.topic)
            await place.log.purge(place.stream, place.topic)
            info = await place.log.topic(place.stream, place.topic)
            assert info is not None
            assert before is not None
            assert info.topic_id == before.topic_id
            assert [(part.first, part.end) for part in info.partitions] == [(0, 0), (0, 0)]
            window = await place.log.window(place.stream, place.topic, WindowQuery(Match(_CONV)))
            assert window is not None
            assert window.records == []
            records = batch(_CONV, 2)
            assert await place.append(*records) == first[:2]
            assert [one.id for one in await place.read(first[0][0])] == [one.id for one in records]
            await place.log.purge(place.stream, place.topic)
            await place.log.purge(place.stream, place.topic)

    async def test_purged_records_are_not_found_again(self) -> None:
        async with self.place() as place:
            records = batch(_CONV, 3)
            await place.append(*records)
            await place.log.purge(place.stream, place.topic)
            assert await place.append(records[1], find_first=True) == [(0, 0)]

    async def test_a_deleted_topic_is_absent(self) -> None:
        async with self.place() as place:
            await place.append(*batch(_CONV, 3))
            await place.log.delete_topic(place.stream, place.topic)
            assert await place.log.topic(place.stream, place.topic) is None
            assert await place.log.topics(place.stream) == ()
            with pytest.raises(NotFoundError):
                await place.append(record(_CONV))

    async def test_a_recreated_topic_is_another_one(self) -> None:
        async with self.place(partitions=2) as place:
            first = await place.append(*batch(_CONV, 3))
            before = await place.log.topic(place.stream, place.topic)
            await place.log.delete_topic(place.stream, place.topic)
            info = await place.log.ensure_topic(place.stream, place.topic, TopicConfig(2))
            assert before is not None
            assert (info.topic_id, info.created_at_micros) != (before.topic_id, before.created_at_micros)
            assert info.created_at_micros > before.created_at_micros
            assert info.records == 0
            assert await place.append(record(_CONV)) == first[:1]

    # ------------------------------------------------------------------------------------- where the clock can be set

    async def test_time_is_the_clocks_but_never_goes_back(self) -> None:
        self.set_clock(10 * _HOUR)
        async with self.place() as place:
            for now in (10, 11, 3, 11, 12, 12):
                self.set_clock(now * _HOUR)
                await place.append(*batch(_CONV, 2))
            times = [one.timestamp_micros // _HOUR for one in await place.read()]
            assert times == [10, 10, 11, 11, 11, 11, 11, 11, 12, 12, 12, 12]

    async def test_time_does_not_go_back_over_a_purge(self) -> None:
        self.set_clock(10 * _HOUR)
        async with self.place() as place:
            await place.append(record(_CONV))
            await place.log.purge(place.stream, place.topic)
            self.set_clock(9 * _HOUR)
            await place.append(record(_CONV))
            (after,) = await place.read()
            assert after.timestamp_micros >= 10 * _HOUR

    async def test_records_of_age_are_not_shown(self) -> None:
        self.set_clock(10 * _HOUR)
        async with self.place(retention=TopicRetention(expire_after=timedelta(hours=2))) as place:
            for now in (10, 11, 12):
                self.set_clock(now * _HOUR)
                await place.append(*batch(_CONV, 2))
            assert len(await place.read()) == 6, "an age of exactly two hours is allowed"
            self.set_clock(12 * _HOUR + 1)
            page = await place.log.read(place.stream, place.topic, 0, start=0, limit=10)
            assert ([one.offset for one in page.records], page.first, page.end) == ([2, 3, 4, 5], 2, 6)
            window = await place.log.window(place.stream, place.topic, WindowQuery(Match(_CONV)))
            assert window is not None
            assert [one.offset for one in window.records] == [2, 3, 4, 5]
            info = await place.log.topic(place.stream, place.topic)
            assert info is not None
            assert info.records == 4
            self.set_clock(20 * _HOUR)
            info = await place.log.topic(place.stream, place.topic)
            assert info is not None
            assert [(part.first, part.end) for part in info.partitions] == [(6, 6)]
            assert info.size_bytes == 0
            assert await place.append(record(_CONV)) == [(0, 6)], "offsets go on where they were"

    async def test_a_topic_of_bounded_size_drops_its_oldest(self) -> None:
        self.set_clock(10 * _HOUR)
        async with self.place(retention=TopicRetention(max_size=10_000)) as place:
            for number in range(40):
                self.set_clock(10 * _HOUR + number)
                await place.append(record(_CONV, bytes(1_000)))
            newest = None
            with anyio.fail_after(60):
                # A log may drop records a moment after the append that made it due.
                while newest is None or newest.size_bytes > 10_000:
                    newest = await place.log.topic(place.stream, place.topic)
            assert newest.partitions[0].end == 40
            assert 5 <= newest.records <= 10
            offsets = [one.offset for one in await place.read()]
            assert offsets == list(range(newest.partitions[0].first, 40))

    async def test_one_record_over_the_size_stays(self) -> None:
        self.set_clock(10 * _HOUR)
        async with self.place(retention=TopicRetention(max_size=100)) as place:
            for _ in range(3):
                ((_, offset),) = await place.append(record(_CONV, bytes(1_000)))
                page = await place.log.read(place.stream, place.topic, 0, start=offset, limit=1)
                assert [one.offset for one in page.records] == [offset]


def _created(info: TopicInfo) -> list[int]:
    return [part.created_at_micros for part in info.partitions]
