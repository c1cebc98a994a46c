"""Recall from a large memory, and how fast its read view follows the log."""

from __future__ import annotations

import itertools
import random
import time
import zlib
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import laser as ls
from benchmarks.bench import DURABILITY, RETENTION, Bench
from benchmarks.figures import LASER, Line, make_line
from benchmarks.measuring import Measured, Side, compare
from laser.memory.memory import Memory
from laser.model.ids import new_record_id
from laser.model.memory import MemoryOwner
from laser.model.records import NewRecord
from laser.wire.memory import encode_item, memory_headers, wire_namespace

__all__ = ["run"]

_NAMESPACE: Final = "large"
_CONVERSATIONS: Final = 200
_SPEAKERS: Final = 20
_QUESTIONS: Final = 200
_LIMIT: Final = 10
_DIMENSIONS: Final = 384
_BATCH: Final = 500
_FUNCTION_WORDS: Final = (
    "the", "a", "of", "to", "and", "in", "is", "was", "it", "that", "for", "on", "with", "at", "by", "from", "you",
)  # fmt: skip


async def run(bench: Bench) -> list[Line]:
    """Measures on the embedded engine: where the log is does not matter to the view."""
    if "embedded" not in bench.engines:
        return []
    url, stream = bench.place("embedded", "memory-view")
    count = bench.size.memory_items
    words = _Words()
    async with ls.Laser.connect(url, stream=stream) as laser:
        await laser.ensure_topic(ls.AgentTopic.Memory, 4, RETENTION, durability=DURABILITY)
        await _fill(laser, words, count)
        memory = laser.memory_with(_NAMESPACE, embedder=_Prepared())

        views = itertools.count()

        async def catch_up() -> Measured:
            """The first recall of a client whose view has nothing yet."""
            place = bench.directory / f"views-{next(views)}"
            async with ls.Laser.connect(url, stream=stream, views=f"embedded:{place}") as client:
                new = client.memory(_NAMESPACE)
                await client.open_views()
                begun = time.perf_counter()
                found = await new.recall(limit=1, strategy="recent")
                return Measured(time.perf_counter() - begun, [item.text for item in found])

        folded = await compare({LASER: Side(catch_up)}, bench.size.slow_rounds, warm_up=0)
        await memory.recall("everything gets its vector", strategy="semantic")
        lines = [
            make_line(
                "memory_view.catch_up", "records folded into memory's view", "embedded", folded, work=count, items=count
            )
        ]
        for strategy, title in (
            ("keyword", f"`search` for {_LIMIT} items"),
            ("semantic", f"recall of {_LIMIT} items by meaning, without the embedder"),
            ("hybrid", f"hybrid recall of {_LIMIT} items, without the embedder"),
        ):
            samples = await compare({LASER: _recall(memory, words.questions, strategy)}, bench.size.rounds)
            lines.append(make_line(f"memory_view.{strategy}", title, "embedded", samples, items=count))
    return lines


def _recall(memory: Memory, questions: Sequence[str], strategy: Any) -> Side:
    turns = itertools.cycle(questions)

    async def call() -> int:
        return len(await memory.recall(next(turns), limit=_LIMIT, strategy=strategy))

    return Side(call)


async def _fill(laser: ls.Laser, words: _Words, count: int) -> None:
    log = laser.open_log()
    namespace = wire_namespace(laser.stream, _NAMESPACE)
    conversations = [ls.derive_conversation_id(f"memory-{number}") for number in range(_CONVERSATIONS)]
    for start in range(0, count, _BATCH):
        where = conversations[start // _BATCH % _CONVERSATIONS]
        headers = MemoryOwner(namespace, where)
        records = []
        for _ in range(min(_BATCH, count - start)):
            item = ls.new_conversation_id()
            payload = encode_item(item, "message", words.text().encode(), {}, ())
            records.append(NewRecord(new_record_id(), payload, memory_headers(headers, item)))
        await log.append(laser.stream, ls.AgentTopic.Memory, records, key=where)


class _Words:
    """Texts that are as uneven as those of people: the commonest word that says something is in one of twenty.

    Attributes:
        questions: in other words, around three of a text that was made. The same in every run.
    """

    def __init__(self) -> None:
        self._random = random.Random(7)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self._words = ["".join(self._random.choices(letters, k=self._random.randint(4, 9))) for _ in range(30_000)]
        self._weights = list(itertools.accumulate(1 / (rank + 30) for rank in range(len(self._words))))
        self._names = ["".join(self._random.choices(letters, k=6)).title() for _ in range(_SPEAKERS)]
        self.questions: list[str] = []

    def text(self) -> str:
        pick = self._random
        own = pick.choices(self._words, cum_weights=self._weights, k=pick.randint(5, 15))
        every = own + pick.choices(_FUNCTION_WORDS, k=len(own))
        pick.shuffle(every)
        name = pick.choice(self._names)
        if len(self.questions) < _QUESTIONS and pick.random() < 0.1:
            self.questions.append(f"What did {name if pick.random() < 0.5 else 'they'} do with {' '.join(own[:3])}?")
        return f"{name}: {' '.join(every)}."


class _Prepared:
    """An embedder that takes no time: some vector or other for each text, always the same."""

    model = "prepared"

    def __init__(self) -> None:
        self._known: dict[str, list[float]] = {}

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See ``Embedder.embed``."""
        # Not at the top: the command line must answer without what only some subjects need.
        random_numbers = import_module("numpy.random")
        return [
            random_numbers.default_rng(zlib.crc32(text.encode())).standard_normal(_DIMENSIONS).tolist()
            for text in texts
        ]
