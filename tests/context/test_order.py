"""The order of messages: by broker time, then topic, partition and offset; never against a partition's own order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.context.history import HistoryQuery, read_history
from laser.engines.memory import MemoryLog
from laser.engines.sqlite import open_sqlite_log
from laser.model.records import LogRecord
from laser.model.window import Window, WindowQuery
from laser.ports.log import Log
from laser.testing.clock import SetClock
from laser.wire.provenance import encode_provenance
from tests.context.logs import SESSIONS, client_on, places
from tests.context.making import payloads
from tests.properties import examples

pytestmark = pytest.mark.anyio

A = ls.derive_conversation_id("a")
HEADERS = encode_provenance(ls.Provenance(conversation_id=A))


class Recorded:
    """Windows as a cluster gave them, with timestamps that step back. It only plays them."""

    def __init__(self, windows: dict[str, list[LogRecord]]) -> None:
        self._windows = windows

    async def window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        if topic not in self._windows:
            return None
        return Window(ls.TopicInfo(stream, 1, 0, topic, 2, 0, None, None, 0, ()), self._windows[topic])


async def _read(windows: dict[str, list[LogRecord]], topics: Sequence[str], newest: int | None = None) -> ls.Messages:
    query = HistoryQuery(A, list(topics), newest=newest)
    return await read_history(cast("Log", Recorded(windows)), "s", query)


def _records(partition: int, times: Sequence[int]) -> list[LogRecord]:
    return [
        LogRecord(partition, offset, (partition << 32) + offset + 1, time, HEADERS, b"%d:%d" % (partition, offset))
        for offset, time in enumerate(times)
    ]


_times = st.lists(st.lists(st.integers(0, 6), max_size=8), max_size=4)


@given(st.lists(_times, min_size=1, max_size=3))
@examples(400)
async def test_c6_a_clock_that_steps_back_never_reorders_a_partition(topics: list[list[list[int]]]) -> None:
    names = [f"t{number}" for number in range(len(topics))]
    windows = {
        name: [record for partition, times in enumerate(parts) for record in _records(partition, times)]
        for name, parts in zip(names, topics, strict=True)
    }
    messages = await _read(windows, names)
    assert len(messages) == sum(map(len, windows.values()))
    seen: dict[tuple[str, int], int] = {}
    for message in messages:
        part = (message.topic, message.partition)
        assert message.offset == seen.get(part, -1) + 1
        seen[part] = message.offset
    # Where no clock stepped back it is the plain rule.
    if all(list(times) == sorted(times) for parts in topics for times in parts):
        plain = sorted(
            messages, key=lambda one: (one.timestamp_micros, names.index(one.topic), one.partition, one.offset)
        )
        assert list(messages) == plain
    # The newest n are the end of the whole, however few are asked for.
    for newest in range(len(messages) + 1):
        assert places(await _read(windows, names, newest)) == places(messages)[len(messages) - newest :]


async def test_c6_the_highest_time_so_far_places_a_message_among_other_partitions() -> None:
    windows = {"t": [*_records(0, [10, 2, 3]), *_records(1, [5, 11])]}
    messages = await _read(windows, ["t"])
    assert [message.id for message in messages] == ["1:0", "0:0", "0:1", "0:2", "1:1"]
    # What is shown is the time as stored.
    assert [message.timestamp_micros for message in messages] == [5, 10, 2, 3, 11]


async def test_c2_equal_times_are_ordered_by_topic_then_partition_then_offset() -> None:
    windows = {name: [*_records(0, [7, 7]), *_records(1, [7])] for name in ("x", "y")}
    for topics in (["x", "y"], ["y", "x"], ["y", "x", "y"], ["absent", "y", "x"]):
        named = [topic for topic in dict.fromkeys(topics) if topic != "absent"]
        wanted = [(topic, partition, offset) for topic in named for partition, offset in ((0, 0), (0, 1), (1, 0))]
        assert places(await _read(windows, list(dict.fromkeys(topics)))) == wanted


async def test_d6_copies_of_an_append_are_shown_once() -> None:
    first, second = _records(0, [1, 2])
    copy = LogRecord(0, 2, first.id, 3, first.headers, first.payload)
    messages = await _read({"t": [first, second, copy]}, ["t"])
    assert [message.id for message in messages] == ["0:0", "0:1"]
    # Records without an id of their own, as other writers leave them, are no copies of each other.
    plain = [LogRecord(0, offset, 0, offset, HEADERS, b"x") for offset in range(3)]
    assert len(await _read({"t": plain}, ["t"])) == 3


async def test_d9_equal_ids_of_two_conversations_are_no_copies() -> None:
    own, _ = _records(0, [1, 2])
    child = encode_provenance(ls.Provenance(conversation_id=ls.derive_conversation_id("b"), parent_conversation_id=A))
    other = LogRecord(0, 1, own.id, 2, child, b"other")
    assert payloads(await _read({"t": [own, other]}, ["t"])) == [b"0:0", b"other"]


@pytest.fixture(params=["memory", "embedded"])
async def clocked(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A client whose broker clock the test sets, and the clock."""
    clock = SetClock(1_000)
    log: Log = MemoryLog(clock=clock) if request.param == "memory" else await open_sqlite_log(tmp_path, clock=clock)
    async with await client_on(log, "order") as client:
        await client.ensure_topic(SESSIONS, partitions=2)
        await client.ensure_topic("other", partitions=2)
        yield client, clock


async def test_c7_append_order_is_the_order_whatever_the_clock_does(clocked: tuple[ls.Laser, SetClock]) -> None:
    laser, clock = clocked
    for number, micros in enumerate([5_000, 5_000, 4_500, 1_000, 4_999, 6_000, 6_000, 10]):
        clock.micros = micros
        await laser.context(A).append(SESSIONS, f"{number}")
    messages = await laser.context(A).fetch()
    assert payloads(messages) == [b"%d" % number for number in range(8)]
    times = [message.timestamp_micros for message in messages]
    assert times == sorted(times)


async def test_c2_a_clock_that_stands_still_changes_no_order(clocked: tuple[ls.Laser, SetClock]) -> None:
    """On one machine no two appends have one time, so the order of topics in the list has no say."""
    laser, clock = clocked
    scope = laser.context(A)
    for number in range(2):
        await scope.append("other", f"other {number}")
        await scope.append(SESSIONS, f"session {number}")
    order = [b"other 0", b"session 0", b"other 1", b"session 1"]
    for topics in ([SESSIONS, "other"], ["other", SESSIONS], ["other", SESSIONS, "other"]):
        messages = await scope.fetch(topics=topics)
        assert payloads(messages) == order
        assert len({message.timestamp_micros for message in messages}) == 4
    # The last n are the last of that order.
    assert payloads(await scope.fetch(topics=["other", SESSIONS], n=3)) == order[1:]
    clock.micros -= 1
    await scope.append("other", "later")
    assert payloads(await scope.fetch(topics=["other", SESSIONS])) == [*order, b"later"]


async def test_c1_children_are_merged_by_time(clocked: tuple[ls.Laser, SetClock]) -> None:
    laser, clock = clocked
    child = ls.derive_conversation_id("child")
    for number in range(6):
        clock.micros += 1
        scope = laser.context((A, child)[number % 2])
        await scope.append(SESSIONS, f"{number}", provenance=ls.Provenance(root_conversation_id=A))
    messages = await laser.assemble_context(A, across_subconversations=True)
    assert payloads(messages) == [b"%d" % number for number in range(6)]
