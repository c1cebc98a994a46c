"""Assembly with every control, against the model, on random logs of several topics, conversations and children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.engines.memory import MemoryLog
from laser.engines.sqlite import open_sqlite_log
from laser.model.ids import new_record_id
from laser.model.records import NewRecord
from laser.testing.clock import SetClock
from laser.testing.finding import OpenIggy
from laser.wire.blocks import STRING, Header, encode_block
from laser.wire.provenance import encode_provenance
from tests.context.logs import client_on, places, port
from tests.context.model import ModelLog, Question, Stored
from tests.properties import examples

pytestmark = pytest.mark.anyio

C = tuple(ls.derive_conversation_id(f"conversation {number}") for number in range(4))
T = ("t0", "t1", "t2", "absent")
AGENTS = ("a", "b", "c")
NO_OWNER = (
    b"",
    encode_block([Header(b"x", STRING, b"y")]),
    encode_block([Header(b"agdx.parent_conv", STRING, C[0].encode())]),
)


class Write(NamedTuple):
    """One append. ``damage``: "" for a message, "header" for one that is undecodable, "owner" for nobody's record."""

    topic: str
    conversation: str
    parent: str | None
    root: str | None
    agent: str | None
    payload: bytes
    damage: str
    later: int


class Grow(NamedTuple):
    """Adds a partition."""

    topic: str


class Bookmark(NamedTuple):
    """Takes a checkpoint."""

    topics: tuple[str, ...]


_writes = st.builds(
    Write,
    topic=st.sampled_from(T[:2] * 2 + T[2:3]),
    conversation=st.sampled_from(C[:1] * 3 + C[1:]),
    parent=st.sampled_from([None, None, *C]),
    root=st.sampled_from([None, None, *C]),
    agent=st.sampled_from([None, *AGENTS]),
    payload=st.binary(max_size=12),
    damage=st.sampled_from(["", "", "", "", "", "", "header", "owner"]),
    later=st.sampled_from([0, 0, 1, 5, -3]),
)
_steps = st.lists(
    st.one_of(
        _writes, _writes, _writes, _writes,
        st.builds(Grow, st.sampled_from(T[:3])),
        st.builds(Bookmark, st.lists(st.sampled_from(T), min_size=1, max_size=4).map(tuple)),
    ),
    max_size=40,
)  # fmt: skip
_offsets = st.none() | st.dictionaries(st.integers(0, 4), st.integers(0, 6) | st.just(2**64 - 1), max_size=4)


class Ask(NamedTuple):
    """A question; checkpoints by their number among those taken, and one that covers nothing."""

    topics: list[str]
    conversation: str
    last_n: int | None
    roles: list[str] | None
    token_budget: int | None
    children: bool
    from_offsets: dict[int, int] | None
    start: int | None
    stop: int | None


_asks = st.builds(
    Ask,
    topics=st.lists(st.sampled_from(T), min_size=1, max_size=5),
    conversation=st.sampled_from(C[:1] * 3 + C[1:]),
    last_n=st.none() | st.integers(0, 8),
    roles=st.none() | st.lists(st.sampled_from([*AGENTS, "nobody"]), max_size=3),
    token_budget=st.none() | st.integers(0, 12),
    children=st.booleans(),
    from_offsets=_offsets,
    start=st.none() | st.integers(0, 5),
    stop=st.none() | st.integers(0, 5),
)


class Play:
    """Does steps on a real log and on the model, and asks both."""

    def __init__(self, laser: ls.Laser, clock: SetClock | None = None) -> None:
        self.laser = laser
        self.clock = clock or SetClock(0)
        self.model = ModelLog()
        self.checkpoints = [ls.Checkpoint({})]

    async def start(self) -> None:
        for number, topic in enumerate(T[:3]):
            await self.laser.ensure_topic(topic, partitions=number + 1)
            self.model.topics[topic] = [[] for _ in range(number + 1)]

    async def do(self, step: Write | Grow | Bookmark) -> None:
        if isinstance(step, Grow):
            await self.laser.add_partitions(step.topic, 1)
            self.model.topics[step.topic].append([])
        elif isinstance(step, Bookmark):
            taken = await ls.context_checkpoint(self.laser, step.topics)
            assert taken.topics() == self.model.ends(step.topics)
            self.checkpoints.append(ls.Checkpoint.from_json(taken.to_json()))
        else:
            self.clock.micros += step.later
            await self._write(step)

    async def _write(self, step: Write) -> None:
        provenance = ls.Provenance(
            parent_conversation_id=step.parent, root_conversation_id=step.root, agent=step.agent
        )  # fmt: skip
        if not step.damage:
            receipt = await self.laser.context(step.conversation).append(
                step.topic, step.payload, provenance=provenance
            )
            partition, offset = receipt.partition, receipt.offset
        else:
            own = ls.Provenance(conversation_id=step.conversation, parent_conversation_id=step.parent)
            block = encode_provenance(own) + encode_block([Header(b"agdx.fence", STRING, b"no number")])
            headers = block if step.damage == "header" else NO_OWNER[len(step.payload) % 3]
            record = NewRecord(new_record_id(), step.payload or b"x", headers)
            done = await port(self.laser).append(self.laser.stream, step.topic, [record], key=step.conversation)
            partition, offset = done.partition, done.offsets[0]
        owner = None if step.damage == "owner" else step.conversation
        root = None if step.damage == "header" else step.root
        self.model.add(
            Stored(
                step.topic, partition, offset, 0, step.payload, owner, step.parent, root, step.agent, not step.damage
            )
        )

    async def learn_times(self) -> None:
        """The broker decides the times: takes them over from the log, record by record."""
        for topic, parts in self.model.topics.items():
            for number, part in enumerate(parts):
                page = await port(self.laser).read(self.laser.stream, topic, number, start=0, limit=100)
                assert [record.offset for record in page.records] == [one.offset for one in part]
                times = [record.timestamp_micros for record in page.records]
                part[:] = [replace(one, time=time) for one, time in zip(part, times, strict=True)]

    async def ask(self, ask: Ask) -> None:
        start = None if ask.start is None else self.checkpoints[ask.start % len(self.checkpoints)]
        stop = None if ask.stop is None else self.checkpoints[ask.stop % len(self.checkpoints)]
        question = Question(
            ask.conversation, ask.topics, ask.last_n, ask.roles, ask.token_budget, ask.children, ask.from_offsets,
            None if start is None else start.topics(), None if stop is None else stop.topics(),
        )  # fmt: skip
        wanted, skipped = self.model.answer(question)
        messages = await self.laser.assemble_context(
            ask.conversation,
            topics=ask.topics,
            last_n=ask.last_n,
            roles=ask.roles,
            token_budget=ask.token_budget,
            across_subconversations=ask.children,
            from_offsets=ask.from_offsets,
            from_checkpoint=start,
            to_checkpoint=stop,
        )
        assert places(messages) == [one.place for one in wanted]
        for message, one in zip(messages, wanted, strict=True):
            made = message.provenance
            assert (message.payload, message.timestamp_micros) == (one.payload, one.time)
            assert (made.conversation_id, made.parent_conversation_id) == (one.conversation, one.parent)
            assert (made.root_conversation_id, made.agent) == (one.root, one.agent)
        assert {(skip.topic, skip.partition, skip.offset) for skip in messages.skipped} == skipped
        assert len(messages.skipped) == len(skipped)
        assert all(skip.reason for skip in messages.skipped)


async def _play(play: Play, steps: Sequence[Any], asks: Sequence[Ask]) -> None:
    await play.start()
    for step in steps:
        await play.do(step)
    await play.learn_times()
    for ask in asks:
        await play.ask(ask)


@given(_steps, st.lists(_asks, min_size=1, max_size=6))
@examples(250)
async def test_memory_answers_as_the_model(steps: list[Any], asks: list[Ask]) -> None:
    clock = SetClock(1_000)
    async with await client_on(MemoryLog(clock=clock), "s") as laser:
        await _play(Play(laser, clock), steps, asks)


def plays(count: int) -> list[tuple[list[Any], list[Ask]]]:
    """Steps and questions, always the same ones: an engine that is slow to open is opened once for all of them."""
    made: list[tuple[list[Any], list[Ask]]] = []

    @given(st.lists(_writes, min_size=8, max_size=40) | _steps, st.lists(_asks, min_size=4, max_size=10))
    @examples(count)
    def collect(steps: list[Any], asks: list[Ask]) -> None:
        made.append((steps, asks))

    collect()
    assert len(made) >= count // 2
    return made


async def test_embedded_answers_as_the_model(tmp_path: Path) -> None:
    clock = SetClock(1_000)
    async with await client_on(await open_sqlite_log(tmp_path, clock=clock), "s") as laser:
        for steps, asks in plays(40):
            for topic in await laser.topics():
                await laser.delete_topic(topic.name)
            await _play(Play(laser, clock), steps, asks)


@pytest.mark.iggy
async def test_iggy_answers_as_the_model(iggy: OpenIggy, stream_name: str) -> None:
    async with ls.Laser.connect(iggy.url, stream=stream_name) as laser:
        for steps, asks in plays(12):
            for topic in await laser.topics():
                await laser.delete_topic(topic.name)
            await _play(Play(laser), steps, asks)
