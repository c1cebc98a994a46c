"""Windows and pages of the local engines against a model in lists, on histories that hypothesis looks for."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laser.engines.memory import MemoryLog
from laser.engines.sqlite import open_sqlite_log
from laser.model.records import NewRecord
from laser.model.topics import TopicConfig
from laser.model.window import Match, WindowQuery
from laser.ports.log import Log
from laser.testing.log_cases.base import contents
from laser.testing.log_cases.model import TopicModel
from laser.testing.log_cases.records import CONVERSATIONS, FOREIGN_BLOCKS, GARBAGE_BLOCKS, enveloped, record, stray

_conversations = st.sampled_from(CONVERSATIONS[:3])
_records = st.one_of(
    st.builds(record, _conversations, parent=st.none() | _conversations, root=st.none() | _conversations),
    st.builds(record, _conversations),
    st.builds(enveloped, _conversations),
    st.builds(stray, st.sampled_from([b"", *FOREIGN_BLOCKS, *GARBAGE_BLOCKS])),
)
_appends = st.tuples(st.lists(_records, min_size=1, max_size=6), st.sampled_from(["a", "b", "c", "d"]))
_steps = st.lists(st.one_of(_appends, _appends, _appends, st.just("purge"), st.just("grow")), max_size=12)
_offsets = st.none() | st.dictionaries(st.integers(0, 3), st.integers(0, 20), max_size=4)
_queries = st.builds(
    WindowQuery,
    st.builds(Match, _conversations, st.booleans()),
    _offsets,
    _offsets,
    st.none() | st.integers(0, 6),
    st.integers(1, 12) | st.just(10_000),
)
_reads = st.tuples(
    st.integers(0, 3),
    st.integers(0, 20),
    st.integers(1, 6),
    st.none() | st.builds(Match, _conversations, st.booleans()),
)


@asynccontextmanager
async def _open(engine: str) -> AsyncIterator[Log]:
    if engine == "memory":
        memory = MemoryLog()
        yield memory
        await memory.aclose()
        return
    with tempfile.TemporaryDirectory() as directory:
        async with await open_sqlite_log(directory) as log:
            yield log


async def _compare(
    engine: str,
    steps: list[tuple[list[NewRecord], str] | str],
    queries: list[WindowQuery],
    reads: list[tuple[int, int, int, Match | None]],
) -> None:
    model = TopicModel(2)
    async with _open(engine) as log:
        await log.ensure_topic("s", "t", TopicConfig(2))
        for step in steps:
            if step == "purge":
                await log.purge("s", "t")
                model.purge()
            elif step == "grow":
                await log.add_partitions("s", "t", 1)
                model.partitions.append([])
            else:
                assert not isinstance(step, str)
                records, key = step
                done = await log.append("s", "t", records, key=key)
                model.add(records, [(done.partition, offset) for offset in done.offsets])
        held = [one for number in range(len(model.partitions)) for one in await contents(log, "s", "t", number)]
        times = {(one.partition, one.offset): one.timestamp_micros for one in held}
        for query in queries:
            window = await log.window("s", "t", query)
            assert window is not None
            model.check_window(query, window.records, times)
            if query.newest is not None:
                # Both engines keep to the hint: their clocks do not step back.
                for partition in range(len(model.partitions)):
                    own = [one for one in window.records if one.partition == partition and _attributed(one.headers)]
                    assert len(own) <= query.newest
        for partition, start, limit, match in reads:
            if partition >= len(model.partitions):
                continue
            page = await log.read("s", "t", partition, start=start, limit=limit, match=match)
            wanted = model.matching(partition, start, match)
            assert [(one.offset, one.id) for one in page.records] == wanted[:limit]
            assert page.next >= page.end or len(page.records) == limit


def _attributed(headers: bytes) -> bool:
    return headers not in (b"", *FOREIGN_BLOCKS, *GARBAGE_BLOCKS)


@pytest.mark.parametrize("engine", ["memory", "embedded"])
@settings(max_examples=80, deadline=None)
@given(steps=_steps, queries=st.lists(_queries, min_size=1, max_size=6), reads=st.lists(_reads, max_size=4))
def test_windows_and_pages_are_what_a_list_says(
    engine: str,
    steps: list[tuple[list[NewRecord], str] | str],
    queries: list[WindowQuery],
    reads: list[tuple[int, int, int, Match | None]],
) -> None:
    anyio.run(_compare, engine, steps, queries, reads)
