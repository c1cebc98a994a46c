"""The read window, against a model in plain lists."""

from __future__ import annotations

import random

import pytest

from laser.limits import CONTEXT_READ_WINDOW
from laser.model.records import NewRecord
from laser.model.window import Match, WindowQuery
from laser.testing.log_cases.base import LogCases, Place
from laser.testing.log_cases.model import TopicModel
from laser.testing.log_cases.records import (
    CONVERSATIONS,
    FOREIGN_BLOCKS,
    batch,
    child,
    enveloped,
    record,
    stray,
)

__all__ = ["WindowCases"]

_ONE, _TWO, _THREE = CONVERSATIONS[:3]


class WindowCases(LogCases):
    """What ``Log.window`` promises."""

    async def test_an_absent_topic_has_no_window(self) -> None:
        async with self.place() as place:
            query = WindowQuery(Match(_ONE))
            assert await place.log.window(place.stream, "absent", query) is None
            assert await place.log.window(place.stream + "-absent", place.topic, query) is None

    async def test_an_empty_topic_has_an_empty_one(self) -> None:
        async with self.place(partitions=3) as place:
            window = await place.log.window(place.stream, place.topic, WindowQuery(Match(_ONE)))
            assert window is not None
            assert window.records == []
            assert [(part.first, part.end) for part in window.topic.partitions] == [(0, 0)] * 3

    async def test_it_tells_of_the_topic_at_the_same_time(self) -> None:
        async with self.place(partitions=2) as place:
            ((partition, _),) = await place.append(record(_ONE))
            window = await place.log.window(place.stream, place.topic, WindowQuery(Match(_ONE)))
            assert window is not None
            assert (window.topic.stream, window.topic.name) == (place.stream, place.topic)
            assert window.topic.partitions[partition].end == 1
            assert [(one.partition, one.offset) for one in window.records] == [(partition, 0)]

    async def test_records_come_back_as_they_were(self) -> None:
        async with self.place() as place:
            records = [record(_ONE), enveloped(_ONE), stray(FOREIGN_BLOCKS[0])]
            await place.append(*records)
            window = await place.log.window(place.stream, place.topic, WindowQuery(Match(_ONE)))
            assert window is not None
            assert [(one.id, one.headers, one.payload) for one in window.records] == [
                (one.id, one.headers, one.payload) for one in records
            ]
            assert window.records == await place.read()

    async def test_the_newest_raw_records_count_whosever_they_are(self) -> None:
        async with self.place() as place:
            await _fill(place, [*batch(_ONE, 3), *batch(_TWO, 5), record(_ONE)])
            assert await self._offsets(place, WindowQuery(Match(_ONE), size=7)) == [2, 8]
            assert await self._offsets(place, WindowQuery(Match(_ONE), size=6)) == [8]
            assert await self._offsets(place, WindowQuery(Match(_ONE), size=1)) == [8]

    async def test_the_window_is_ten_thousand_records_by_default(self) -> None:
        assert CONTEXT_READ_WINDOW == 10_000
        async with self.place() as place:
            await _fill(place, [record(_ONE), record(_ONE), *batch(_TWO, 5_000)])
            await _fill(place, batch(_TWO, 4_999))
            assert await self._offsets(place, WindowQuery(Match(_ONE))) == [1]
            await _fill(place, [record(_TWO)])
            assert await self._offsets(place, WindowQuery(Match(_ONE))) == []
            # Not less with a start, not more: a start never reaches behind the newest records.
            assert await self._offsets(place, WindowQuery(Match(_ONE), starts={0: 0})) == []
            assert await self._offsets(place, WindowQuery(Match(_ONE), stops={0: 10_001})) == [1]

    async def test_stops_end_it(self) -> None:
        async with self.place() as place:
            await _fill(place, batch(_ONE, 10))
            assert await self._offsets(place, WindowQuery(Match(_ONE), stops={0: 4})) == [0, 1, 2, 3]
            assert await self._offsets(place, WindowQuery(Match(_ONE), stops={0: 4}, size=2)) == [2, 3]
            assert await self._offsets(place, WindowQuery(Match(_ONE), stops={0: 0})) == []
            assert await self._offsets(place, WindowQuery(Match(_ONE), stops={})) == []
            assert await self._offsets(place, WindowQuery(Match(_ONE), stops={0: 99})) == list(range(10))

    async def test_starts_begin_it(self) -> None:
        async with self.place() as place:
            await _fill(place, batch(_ONE, 10))
            assert await self._offsets(place, WindowQuery(Match(_ONE), starts={0: 7})) == [7, 8, 9]
            assert await self._offsets(place, WindowQuery(Match(_ONE), starts={0: 2}, size=3)) == [7, 8, 9]
            assert await self._offsets(place, WindowQuery(Match(_ONE), starts={})) == list(range(10))
            assert await self._offsets(place, WindowQuery(Match(_ONE), starts={0: 10})) == []
            assert await self._offsets(place, WindowQuery(Match(_ONE), starts={0: 2**63})) == []
            assert await self._offsets(place, WindowQuery(Match(_ONE), starts={0: 5}, stops={0: 3})) == []
            assert await self._offsets(place, WindowQuery(Match(_ONE), starts={0: 3}, stops={0: 5})) == [3, 4]

    async def test_strays_are_shown_with_any_conversation(self) -> None:
        async with self.place() as place:
            await _fill(place, [stray(), record(_ONE), stray(FOREIGN_BLOCKS[1]), record(_ONE), record(_TWO), stray()])
            assert await self._offsets(place, WindowQuery(Match(_ONE))) == [0, 1, 2, 3, 5]
            assert await self._offsets(place, WindowQuery(Match(_THREE))) == [0, 2, 5]
            # Of the newest one, all that come after it; older ones may be left out.
            offsets = set(await self._offsets(place, WindowQuery(Match(_ONE), newest=1)))
            assert {3, 5} <= offsets <= {0, 1, 2, 3, 5}

    async def test_children_by_parent_or_root(self) -> None:
        async with self.place() as place:
            await _fill(
                place,
                [
                    record(_ONE),
                    record(_TWO, parent=_ONE),
                    record(_TWO, root=_ONE),
                    record(_TWO),
                    child(_ONE, _ONE),
                    record(_THREE, parent=_TWO, root=_ONE),
                    stray(FOREIGN_BLOCKS[3]),
                ],
            )
            assert await self._offsets(place, WindowQuery(Match(_ONE))) == [0, 4, 6]
            assert await self._offsets(place, WindowQuery(Match(_ONE, children=True))) == [0, 1, 2, 4, 5, 6]
            assert await self._offsets(place, WindowQuery(Match(_TWO, children=True))) == [1, 2, 3, 5, 6]

    @pytest.mark.parametrize("seed", range(3))
    async def test_it_is_what_a_list_says(self, seed: int) -> None:
        """Random appends, purges, added partitions and queries. ``rounds`` sets how many."""
        rng = random.Random(f"window-{seed}")
        partitions = rng.choice([1, 2, 3])
        model = TopicModel(partitions)
        async with self.place(partitions) as place:
            for _ in range(self.rounds):
                step = rng.random()
                if step < 0.04:
                    await place.log.purge(place.stream, place.topic)
                    model.purge()
                elif step < 0.08:
                    info = await place.log.add_partitions(place.stream, place.topic, 1)
                    model.partitions.append([])
                    assert len(info.partitions) == len(model.partitions)
                else:
                    records = [_any_record(rng) for _ in range(rng.choice([1, 1, 2, 5, 30]))]
                    model.add(records, await place.append(*records, key=f"key-{rng.randrange(6)}"))
                for _ in range(3):
                    await _check_query(place, model, _any_query(rng, model))
                await _check_read(place, model, rng)

    async def _offsets(self, place: Place, query: WindowQuery) -> list[int]:
        window = await place.log.window(place.stream, place.topic, query)
        assert window is not None
        return [one.offset for one in window.records]


async def _fill(place: Place, records: list[NewRecord]) -> None:
    await place.append(*records)


async def _check_query(place: Place, model: TopicModel, query: WindowQuery) -> None:
    window = await place.log.window(place.stream, place.topic, query)
    assert window is not None
    assert [(part.first, part.end) for part in window.topic.partitions] == [(0, len(p)) for p in model.partitions]
    held = [one for number in range(len(model.partitions)) for one in await place.read(number)]
    model.check_window(query, window.records, {(one.partition, one.offset): one.timestamp_micros for one in held})


async def _check_read(place: Place, model: TopicModel, rng: random.Random) -> None:
    partition = rng.randrange(len(model.partitions))
    start, limit = rng.randrange(40), rng.choice([1, 3, 50])
    match = rng.choice([None, Match(rng.choice(CONVERSATIONS), rng.random() < 0.5)])
    wanted = model.matching(partition, start, match)
    page = await place.log.read(place.stream, place.topic, partition, start=start, limit=limit, match=match)
    got = [(one.offset, one.id) for one in page.records]
    assert got == wanted[: len(got)]
    assert len(got) <= limit
    assert page.end == len(model.partitions[partition])
    if page.next >= page.end:
        assert got == wanted
    else:
        assert [place for place in wanted if place[0] < page.next] == got


def _any_record(rng: random.Random) -> NewRecord:
    conversation = rng.choice(CONVERSATIONS)
    kind = rng.random()
    if kind < 0.1:
        return stray(rng.choice([b"", *FOREIGN_BLOCKS]))
    if kind < 0.2:
        return enveloped(conversation)
    parent, root = (rng.choice([None, *CONVERSATIONS]) for _ in range(2))
    return record(conversation, parent=parent, root=root) if kind < 0.5 else record(conversation)


def _any_query(rng: random.Random, model: TopicModel) -> WindowQuery:
    longest = max(len(partition) for partition in model.partitions)

    def offsets() -> dict[int, int] | None:
        if rng.random() < 0.5:
            return None
        some = [number for number in range(len(model.partitions) + 1) if rng.random() < 0.8]
        return {number: rng.randrange(longest + 3) for number in some}

    return WindowQuery(
        Match(rng.choice(CONVERSATIONS), rng.random() < 0.4),
        offsets(),
        offsets(),
        rng.choice([None, None, 0, 1, 3, 100]),
        rng.choice([CONTEXT_READ_WINDOW, CONTEXT_READ_WINDOW, 1, 5, 20]),
    )
