"""Transcripts in pages: nothing is missed or given out twice, whatever is appended meanwhile."""

from __future__ import annotations

import random
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

import laser as ls
from laser.model.records import NewRecord
from tests.session.talking import said

pytestmark = pytest.mark.anyio

SESSIONS = ls.AgentTopic.Sessions


async def write(session: ls.Session, first: int, count: int) -> None:
    await session.scope().append_many(SESSIONS, [str(number) for number in range(first, first + count)])


def numbers(page: ls.TranscriptPage) -> list[int]:
    return [int(message.text) for message in page.messages]


async def test_pages(laser: ls.Laser) -> None:
    session = await laser.sessions().start()
    empty = await session.transcript()
    assert (empty.messages, empty.older, empty.skipped) == ((), None, ())
    assert numbers(await session.transcript(after=empty.live)) == []
    await write(session, 0, 10)
    newest = await session.transcript(limit=4)
    assert numbers(newest) == [6, 7, 8, 9]
    await write(session, 10, 3)
    older = await session.transcript(limit=4, before=newest.older)
    assert numbers(older) == [2, 3, 4, 5]
    assert older.live == newest.live, "loading old pages never moves the live cursor"
    oldest = await session.transcript(limit=4, before=older.older)
    assert (numbers(oldest), oldest.older, oldest.live) == ([0, 1], None, newest.live)
    newer = await session.transcript(limit=2, after=newest.live)
    assert (numbers(newer), newer.older) == ([10, 11], None)
    last = await session.transcript(limit=2, after=newer.live)
    assert numbers(last) == [12]
    assert numbers(await session.transcript(after=last.live)) == []
    assert numbers(await session.transcript(after=empty.live)) == list(range(13))
    exact = await session.transcript(limit=13)
    assert (numbers(exact), exact.older) == (list(range(13)), None)


@pytest.mark.parametrize("seed", range(3))
async def test_no_gap_and_no_repeat_while_others_append(laser: ls.Laser, seed: int) -> None:
    rng = random.Random(seed)
    session = await laser.sessions().start()
    others = [await laser.sessions().start() for _ in range(3)]
    await write(session, 0, rng.randrange(1, 40))
    total = int((await session.scope().fetch())[-1].text) + 1
    newest = await session.transcript(limit=rng.randrange(1, 8))
    below, above, pages = numbers(newest), [], 1
    back, live = newest.older, newest.live
    head = total
    while back is not None or len(above) < 30:
        move = rng.randrange(3)
        if move == 0:
            count = rng.randrange(1, 5)
            await write(session, total, count)
            total += count
            await write(rng.choice(others), 0, rng.randrange(1, 9))
        elif move == 1 and back is not None:
            page = await session.transcript(limit=rng.randrange(1, 8), before=back)
            below, back = numbers(page) + below, page.older
            assert page.live == newest.live
            pages += 1
        elif move == 2:
            page = await session.transcript(limit=rng.randrange(1, 8), after=live)
            above, live = above + numbers(page), page.live
    assert below == list(range(head))
    assert above == list(range(head, head + len(above)))
    assert pages > 1 or head <= len(below)


async def test_while_a_task_writes_all_the_time(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    await write(session, 0, 50)

    async def keep_writing() -> None:
        number = 50
        while True:
            await write(session, number, 1)
            number += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_writing)
        page = await session.transcript(limit=5)
        below, live, above = numbers(page), page.live, []
        head = below[-1] + 1
        while page.older is not None:
            page = await session.transcript(limit=7, before=page.older)
            below = numbers(page) + below
        for _ in range(10):
            page = await session.transcript(limit=7, after=live)
            above, live = above + numbers(page), page.live
        tasks.cancel_scope.cancel()
    assert below == list(range(head))
    assert above == list(range(head, head + len(above)))
    assert above


async def test_a_sparse_conversation(memory_laser: ls.Laser) -> None:
    """Its messages are thousands of records apart."""
    session = await memory_laser.sessions().start()
    other = memory_laser.context(ls.new_conversation_id())
    # All on one partition: that is where one conversation hides another.
    while True:
        await write(session, 0, 1)
        place = (await session.scope().fetch())[0].partition
        receipt = await other.append(SESSIONS, "x")
        if receipt.partition == place:
            break
        other = memory_laser.context(ls.new_conversation_id())
        session = await memory_laser.sessions().start()
    for number in range(1, 4):
        await other.append_many(SESSIONS, ["x"] * 3_000)
        await write(session, number, 1)
    await other.append_many(SESSIONS, ["x"] * 3_000)
    page = await session.transcript(limit=2)
    assert numbers(page) == [2, 3]
    rest = await session.transcript(limit=2, before=page.older)
    assert (numbers(rest), rest.older) == ([0, 1], None)


async def test_copies_of_an_append_count_once_across_pages(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    log, stream = memory_laser.open_log(), memory_laser.stream
    await write(session, 0, 100)
    (part,) = [part for part in (await memory_laser.topic(SESSIONS)).partitions if part.end]
    found = (await log.read(stream, SESSIONS, part.id, start=90, limit=1)).records[0]
    await write(session, 100, 20)
    # The same record once more, as a retry after a lost answer leaves it; then so much that one read parts the two.
    await log.append(stream, SESSIONS, [NewRecord(found.id, found.payload, found.headers)], key=session.id)
    await write(session, 120, 500)
    for limit in (7, 100, 1_000):
        page = await session.transcript(limit=limit)
        texts = numbers(page)
        while page.older is not None:
            page = await session.transcript(limit=limit, before=page.older)
            texts = numbers(page) + texts
        assert texts == list(range(620)), limit


async def test_added_partitions(laser: ls.Laser) -> None:
    await laser.ensure_topic("probe", partitions=1)
    session = await laser.sessions().start()
    await write(session, 0, 6)
    page = await session.transcript(limit=2)
    await laser.open_log().add_partitions(laser.stream, SESSIONS, 5)
    await write(session, 6, 6)
    assert numbers(await session.transcript(limit=2, before=page.older)) == [2, 3]
    assert numbers(await session.transcript(after=page.live)) == [6, 7, 8, 9, 10, 11]
    assert await said(session) == [str(number) for number in range(12)]


async def test_bad_cursors_and_limits(memory_laser: ls.Laser) -> None:
    session, other = await memory_laser.sessions().start(), await memory_laser.sessions().start()
    await write(session, 0, 5)
    await write(other, 0, 5)
    page = await session.transcript(limit=2)
    assert page.older is not None
    for bad in ("", "{}", "[]", "x", page.live, page.older[:-5], page.older.replace(session.id, other.id)):
        with pytest.raises(ls.InvalidError, match=r"^before: "):
            await session.transcript(before=bad)
    with pytest.raises(ls.InvalidError, match="of session"):
        await other.transcript(before=page.older)
    for bad in ("", "nope", "[]"):
        with pytest.raises(ls.InvalidError, match=r"^after: "):
            await session.transcript(after=bad)
    with pytest.raises(ls.InvalidError, match="not both"):
        await session.transcript(before=page.older, after=page.live)
    for limit in (0, -1, 10_001, True, "5", 1.0):
        with pytest.raises(ls.InvalidError, match=r"^limit: "):
            await session.transcript(limit=limit)  # type: ignore[arg-type]
    await session.transcript(limit=10_000)


async def test_a_topic_that_is_another_one_now(memory_laser: ls.Laser) -> None:
    session = await memory_laser.sessions().start()
    await write(session, 0, 5)
    page = await session.transcript(limit=2)
    log, stream = memory_laser.open_log(), memory_laser.stream
    await log.purge(stream, SESSIONS)
    with pytest.raises(ls.StaleCheckpointError):
        await session.transcript(before=page.older)
    with pytest.raises(ls.StaleCheckpointError):
        await session.transcript(after=page.live)
    await log.delete_topic(stream, SESSIONS)
    with pytest.raises(ls.StaleCheckpointError):
        await session.transcript(before=page.older)
    assert (await session.transcript()).messages == ()


async def test_a_missing_beginning_is_an_error_and_no_end(tmp_path: Path) -> None:
    async with ls.Laser.connect(f"embedded:{tmp_path / 'data'}") as laser:
        await laser.ensure_topic(ls.AgentTopic.Control)
        await laser.ensure_topic(SESSIONS, partitions=1, retention=ls.TopicRetention(max_size=100_000))
        session = await laser.sessions().start()
        for number in range(40):
            await session.scope().append(SESSIONS, f"{number:04d}" * 1_000)
        (part,) = (await laser.topic(SESSIONS)).partitions
        assert part.first
        page = await session.transcript(limit=5)
        shown = list(page.messages)
        with pytest.raises(ls.RetentionGapError) as caught:
            while page.older is not None:
                page = await session.transcript(limit=5, before=page.older)
                shown = [*page.messages, *shown]
        # Retention may take one more while this reads.
        oldest = int(shown[0].text[:4])
        assert part.first <= oldest <= caught.value.first
        assert [int(one.text[:4]) for one in shown] == list(range(oldest, 40))
        # One that began after what is gone has lost nothing.
        late = await laser.sessions().start()
        await late.scope().append(SESSIONS, "hello")
        assert await said(late) == ["hello"]
        assert (await (await laser.sessions().open(late.id)).transcript()).older is None
