"""The cache must give the very answers of the log behind it, whatever other processes do to that log meanwhile."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

import laser as ls
from laser.context.cache import CachedLog
from laser.context.history import HistoryQuery, read_history
from laser.engines.iggy import open_iggy_log, parse_iggy_url
from laser.engines.memory import MemoryLog
from laser.engines.sqlite import open_sqlite_log
from laser.model.ids import new_record_id
from laser.model.records import LogRecord, NewRecord
from laser.model.topics import TopicConfig, TopicRetention
from laser.model.window import Match, Window, WindowQuery
from laser.ports.log import Log
from laser.testing.finding import OpenIggy
from laser.wire.provenance import encode_provenance
from laser.wire.routing import route

pytestmark = pytest.mark.anyio

TOPICS = ("a", "b")
CONVERSATIONS = [ls.derive_conversation_id(name) for name in ("one", "two", "three", "four")]
BAD_HEADERS = (b"", b"\x02\x05\x00", encode_provenance(ls.Provenance(conversation_id=CONVERSATIONS[0]))[:-3])


@asynccontextmanager
async def open_log(engine: str, directory: Path) -> AsyncIterator[Log]:
    log = MemoryLog() if engine == "memory" else await open_sqlite_log(directory)
    try:
        yield log
    finally:
        await log.aclose()


class Whole:
    """The log behind, asked for whole windows: raw copies of an append are put on it here, which no engine on one
    machine makes by itself, so that its shortcut for the newest records need not look for them."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def window(self, stream: str, topic: str, query: WindowQuery) -> Window | None:
        return await self._log.window(stream, topic, msgspec.structs.replace(query, newest=None))


class Others:
    """What other processes do to the log, at random."""

    def __init__(self, log: Log, stream: str, rng: random.Random, bad_headers: Sequence[bytes]) -> None:
        self.log = log
        self.stream = stream
        self.rng = rng
        self.bad_headers = bad_headers

    async def act(self) -> None:
        topic = self.rng.choice(TOPICS)
        action = self.rng.choices(
            [
                self.append,
                self.append_many,
                self.foreign,
                self.copies,
                self.purge,
                self.regrow,
                self.recreate,
                self.grow,
            ],
            [40, 25, 6, 6, 3, 3, 2, 1],
        )[0]
        await action(topic)

    async def append(self, topic: str, count: int = 1) -> None:
        conversation = self.rng.choice(CONVERSATIONS)
        parent = self.rng.choice([None, None, CONVERSATIONS[0]])
        headers = encode_provenance(ls.Provenance(conversation_id=conversation, parent_conversation_id=parent))
        records = [NewRecord(new_record_id(), self.rng.randbytes(8), headers) for _ in range(count)]
        key = self.rng.choice([conversation, "elsewhere"])
        await self.log.append(self.stream, topic, records, key=key)

    async def append_many(self, topic: str) -> None:
        await self.append(topic, self.rng.randint(2, 40))

    async def foreign(self, topic: str) -> None:
        record = NewRecord(new_record_id(), b"foreign", self.rng.choice(self.bad_headers))
        await self.log.append(self.stream, topic, [record], key=self.rng.choice(CONVERSATIONS))

    async def copies(self, topic: str) -> None:
        conversation = self.rng.choice(CONVERSATIONS)
        headers = encode_provenance(ls.Provenance(conversation_id=conversation))
        record = NewRecord(new_record_id(), b"twice", headers)
        await self.log.append(self.stream, topic, [record], key=conversation)
        await self.append(topic, self.rng.randint(1, 30))
        await self.log.append(self.stream, topic, [record], key=conversation)

    async def purge(self, topic: str) -> None:
        await self.log.purge(self.stream, topic)

    async def regrow(self, topic: str) -> None:
        """A purge after which the topic grows until every partition ends where it ended, with other records."""
        before = await self.log.topic(self.stream, topic)
        assert before is not None
        await self.log.purge(self.stream, topic)
        for _ in range(400):
            now = await self.log.topic(self.stream, topic)
            assert now is not None
            if all(new.end >= old.end for new, old in zip(now.partitions, before.partitions, strict=True)):
                return
            await self.append(topic)

    async def recreate(self, topic: str) -> None:
        await self.log.delete_topic(self.stream, topic)
        await make_topic(self.log, self.stream, topic, bounded=len(self.bad_headers) > 1)

    async def grow(self, topic: str) -> None:
        info = await self.log.topic(self.stream, topic)
        assert info is not None
        if len(info.partitions) < 6:
            await self.log.add_partitions(self.stream, topic, 1)


async def make_topic(log: Log, stream: str, topic: str, bounded: bool) -> None:
    retention = TopicRetention(expire_after=timedelta(days=1), max_size=60_000 if topic == "b" and bounded else None)
    await log.ensure_topic(stream, topic, TopicConfig(3, retention))


def _whatever_the_epoch(window: Window | None) -> Window | None:
    """An answer without the one fact that may differ: a connection to a busy server can be made anew between two."""
    if window is None:
        return None
    return msgspec.structs.replace(window, topic=msgspec.structs.replace(window.topic, epoch=0))


def newest_of(window: Window | None, newest: int) -> list[LogRecord] | None:
    """The newest attributable records of an answer, by time, partition and offset."""
    if window is None:
        return None
    own = [record for record in window.records if route(record.headers, record.payload).conversation_id is not None]
    own.sort(key=lambda record: (record.timestamp_micros, record.partition, record.offset))
    return own[len(own) - min(newest, len(own)) :]


async def walk(log: Log, stream: str, topic: str, partition: int, start: int, match: Match) -> list[LogRecord]:
    """All matching records from an offset on, page by page."""
    found: list[LogRecord] = []
    at = start
    while True:
        page = await log.read(stream, topic, partition, start=at, limit=7, match=match)
        found += page.records
        if page.next >= page.end:
            return found
        assert page.next > at
        at = page.next


async def compare(log: Log, cached: Log, stream: str, rng: random.Random) -> None:
    topic = rng.choice(TOPICS)
    match = Match(rng.choice(CONVERSATIONS), rng.random() < 0.3)
    size = rng.choice([5, 60, 10_000])
    starts = rng.choice([None, None, {0: 3, 1: 20}])
    whole = WindowQuery(match, starts, None, None, size)
    assert _whatever_the_epoch(await cached.window(stream, topic, whole)) == _whatever_the_epoch(
        await log.window(stream, topic, whole)
    )
    newest = rng.choice([1, 3, 20])
    some = WindowQuery(match, starts, None, newest, size)
    assert newest_of(await cached.window(stream, topic, some), newest) == newest_of(
        await log.window(stream, topic, whole), newest
    )
    # The second read of one topic gets the answer that was made for the first.
    for topics in (list(TOPICS), [topic], [topic]):
        query = HistoryQuery(match.conversation_id, topics, match.children, newest=newest)
        ours, theirs = await read_history(cached, stream, query), await read_history(Whole(log), stream, query)  # type: ignore[arg-type]
        assert ours == theirs
        assert ours.skipped == theirs.skipped
    info = await log.topic(stream, topic)
    assert info is not None
    for part in info.partitions:
        start = rng.choice([part.first, part.first, max(part.first, part.end - 10)])
        assert await walk(cached, stream, topic, part.id, start, match) == await walk(
            log, stream, topic, part.id, start, match
        )


@pytest.mark.parametrize("engine", ["memory", "embedded"])
@pytest.mark.parametrize("max_bytes", [64 << 20, 20_000, 1], ids=["roomy", "tight", "none"])
@pytest.mark.parametrize(("anyio_backend", "seed"), [("asyncio", 0), ("trio", 1)])
async def test_random_histories(engine: str, max_bytes: int, seed: int, tmp_path: Path) -> None:
    async with open_log(engine, tmp_path) as log:
        await try_history(log, "app", random.Random(f"{seed}"), max_bytes, steps=120, bad_headers=BAD_HEADERS)


@pytest.mark.iggy
@pytest.mark.parametrize("max_bytes", [64 << 20, 20_000], ids=["roomy", "tight"])
async def test_random_histories_on_iggy(max_bytes: int, iggy: OpenIggy, stream_name: str) -> None:
    log = await open_iggy_log(parse_iggy_url(iggy.url)[0], timeout=120.0)
    try:
        # Its driver sends sound headers only, so a foreign record has none.
        await try_history(log, stream_name, random.Random("iggy"), max_bytes, steps=80, bad_headers=[b""])
    finally:
        await log.aclose()


async def try_history(
    log: Log, stream: str, rng: random.Random, max_bytes: int, *, steps: int, bad_headers: Sequence[bytes]
) -> None:
    for topic in TOPICS:
        await make_topic(log, stream, topic, bounded=len(bad_headers) > 1)
    cached = CachedLog(log, max_bytes=max_bytes, steady_clock=True)
    others = Others(log, stream, rng, bad_headers)
    for _ in range(steps):
        for _ in range(rng.randint(0, 3)):
            await others.act()
        await compare(log, cached, stream, rng)
        assert cached.size <= max_bytes
