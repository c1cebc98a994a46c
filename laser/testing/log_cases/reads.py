"""Reading a stretch of a partition."""

from __future__ import annotations

import pytest

from laser.errors import NotFoundError
from laser.model.window import Match
from laser.testing.log_cases.base import LogCases, Place
from laser.testing.log_cases.records import CONVERSATIONS, FOREIGN_BLOCKS, batch, child, enveloped, record, stray

__all__ = ["ReadCases"]

_ONE, _TWO, _THREE = CONVERSATIONS[:3]


class ReadCases(LogCases):
    """What ``Log.read`` promises."""

    @pytest.mark.parametrize("start", [0, 3, 9, 10, 1_000])
    async def test_a_look_is_a_topic_and_a_page(self, start: int) -> None:
        async with self.place(partitions=2) as place:
            for _ in range(3):
                await place.append(*batch(_ONE, 3), *batch(_TWO, 4))
                for partition in (0, 1):
                    for limit in (1, 5, 100):
                        info, page = await place.log.look(
                            place.stream, place.topic, partition, start=start, limit=limit
                        )
                        assert info == await place.log.topic(place.stream, place.topic)
                        read = await place.log.read(place.stream, place.topic, partition, start=start, limit=limit)
                        assert page is not None
                        assert list(page.records) == list(read.records)
                        assert (page.next, page.end) == (read.next, read.end)
                        assert page.first in (0, start)

    async def test_a_look_at_what_is_absent(self) -> None:
        async with self.place(partitions=2) as place:
            info, page = await place.log.look(place.stream, place.topic, 2, start=0, limit=1)
            assert info == await place.log.topic(place.stream, place.topic)
            assert page is None
            assert await place.log.look(place.stream, "absent", 0, start=0, limit=1) == (None, None)
            assert await place.log.look("absent", place.topic, 0, start=0, limit=1) == (None, None)
            await place.log.delete_topic(place.stream, place.topic)
            assert await place.log.look(place.stream, place.topic, 0, start=0, limit=1) == (None, None)

    async def test_an_empty_partition(self) -> None:
        async with self.place(partitions=2) as place:
            page = await place.log.read(place.stream, place.topic, 1, start=0, limit=10)
            assert (page.records, page.first, page.end) == ([], 0, 0)
            assert page.next >= page.end

    async def test_from_an_offset_on(self) -> None:
        async with self.place() as place:
            records = batch(_ONE, 10)
            await place.append(*records)
            for start in range(10):
                page = await place.log.read(place.stream, place.topic, 0, start=start, limit=3)
                offsets = [one.offset for one in page.records]
                assert offsets == list(range(start, start + len(offsets)))
                assert 1 <= len(offsets) <= 3
                assert page.next == offsets[-1] + 1
                assert page.first in (0, start)
                assert page.end == 10

    @pytest.mark.parametrize("start", [3, 4, 1_000, 2**63])
    async def test_at_and_past_the_end_a_page_is_empty(self, start: int) -> None:
        async with self.place() as place:
            await place.append(*batch(_ONE, 3))
            page = await place.log.read(place.stream, place.topic, 0, start=start, limit=10)
            assert (page.records, page.end) == ([], 3)
            assert page.next >= page.end

    @pytest.mark.parametrize("limit", [1, 2, 7, 1_000])
    async def test_pages_together_are_the_partition(self, limit: int) -> None:
        async with self.place() as place:
            records = batch(_ONE, 20)
            await place.append(*records)
            assert await _pages(place, limit, None) == [one.id for one in records]

    @pytest.mark.parametrize("limit", [1, 3, 100])
    async def test_a_match_leaves_out_other_conversations_only(self, limit: int) -> None:
        async with self.place() as place:
            own = [record(_ONE), enveloped(_ONE), child(_ONE, _THREE)]
            strays = [stray(), *[stray(block) for block in FOREIGN_BLOCKS]]
            others = [record(_TWO), enveloped(_TWO), child(_TWO, _ONE)]
            mixed = [one for group in zip(own, strays, others, strict=False) for one in group] + strays[3:]
            await place.append(*mixed)
            wanted = [one.id for one in mixed if one in own or one in strays]
            assert await _pages(place, limit, Match(_ONE)) == wanted

    @pytest.mark.parametrize("limit", [1, 3, 100])
    async def test_a_match_can_take_children(self, limit: int) -> None:
        async with self.place() as place:
            wanted = [
                record(_ONE),
                child(_TWO, _ONE),
                record(_TWO, parent=_ONE),
                record(_TWO, root=_ONE),
                record(_THREE, parent=_TWO, root=_ONE),
                stray(),
                child(_ONE, _ONE),
            ]
            others = [record(_TWO), child(_THREE, _TWO), child(_TWO, _THREE)]
            mixed = [others[0], wanted[0], wanted[1], others[1], *wanted[2:5], others[2], *wanted[5:]]
            await place.append(*mixed)
            assert await _pages(place, limit, Match(_ONE, children=True)) == [one.id for one in wanted]

    async def test_a_match_with_nothing_to_show_still_moves_on(self) -> None:
        async with self.place() as place:
            await place.append(*batch(_TWO, 30))
            assert await _pages(place, 4, Match(_ONE)) == []

    async def test_absent_things_are_refused(self) -> None:
        async with self.place(partitions=2) as place:
            for stream, topic, partition in (
                (place.stream, "absent", 0),
                (place.stream + "-absent", place.topic, 0),
                (place.stream, place.topic, 2),
                (place.stream, place.topic, 4_000_000_000),
            ):
                with pytest.raises(NotFoundError) as caught:
                    await place.log.read(stream, topic, partition, start=0, limit=1)
                assert (caught.value.stream, caught.value.topic) == (stream, topic)


async def _pages(place: Place, limit: int, match: Match | None) -> list[int]:
    found: list[int] = []
    start, end = 0, 1
    while start < end:
        page = await place.log.read(place.stream, place.topic, 0, start=start, limit=limit, match=match)
        assert len(page.records) <= limit
        assert all(start <= one.offset < page.next for one in page.records)
        assert page.next > start, "a page must move on"
        found += [one.id for one in page.records]
        start, end = page.next, page.end
    return found
