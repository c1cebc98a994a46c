"""A small pure model of a log and of assembly: lists, loops and the rules as the guide states them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

WINDOW = 10_000


@dataclass(frozen=True)
class Stored:
    """A record: where it is, when, and whose. Without a conversation nobody can tell whose it is."""

    topic: str
    partition: int
    offset: int
    time: int
    payload: bytes
    conversation: str | None
    parent: str | None = None
    root: str | None = None
    agent: str | None = None
    decodable: bool = True

    @property
    def place(self) -> tuple[str, int, int]:
        return self.topic, self.partition, self.offset


@dataclass(frozen=True)
class Question:
    """What to assemble."""

    conversation: str
    topics: Sequence[str] = ("t0",)
    last_n: int | None = None
    roles: Sequence[str] | None = None
    token_budget: int | None = None
    children: bool = False
    from_offsets: Mapping[int, int] | None = None
    from_checkpoint: Mapping[str, Mapping[int, int]] | None = None
    to_checkpoint: Mapping[str, Mapping[int, int]] | None = None


@dataclass
class ModelLog:
    """All records by topic, by partition."""

    topics: dict[str, list[list[Stored]]] = field(default_factory=dict)

    def add(self, record: Stored) -> None:
        part = self.topics[record.topic][record.partition]
        assert record.offset == len(part)
        part.append(record)

    def ends(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """A checkpoint's offsets now."""
        return {
            topic: {number: len(part) for number, part in enumerate(self.topics[topic])}
            for topic in topics
            if topic in self.topics
        }

    def window(self, topic: str, question: Question) -> list[Stored]:
        """The records that a read of a topic examines."""
        seen = []
        for number, part in enumerate(self.topics.get(topic, [])):
            end, start = len(part), 0
            if question.to_checkpoint is not None:
                end = min(end, question.to_checkpoint.get(topic, {}).get(number, 0))
            if question.from_checkpoint is not None:
                start = question.from_checkpoint.get(topic, {}).get(number, 0)
            elif question.from_offsets is not None:
                start = question.from_offsets.get(number, 0)
            seen += part[max(start, end - WINDOW, 0) : end]
        return seen

    def answer(self, question: Question) -> tuple[list[Stored], set[tuple[str, int, int]]]:
        """The messages in order, and the places of the records that are reported as skipped."""
        keyed = []
        skipped = []
        for rank, topic in enumerate(dict.fromkeys(question.topics)):
            highest: dict[int, int] = {}
            for one in self.window(topic, question):
                if not _wanted(one, question):
                    continue
                if one.conversation is None or not one.decodable:
                    skipped.append(((one.time, rank, one.partition, one.offset), one.place))
                    continue
                highest[one.partition] = max(highest.get(one.partition, 0), one.time)
                keyed.append(((highest[one.partition], rank, one.partition, one.offset), one))
        keyed.sort(key=lambda entry: entry[0])
        kept = [one for _, one in keyed]
        count = question.last_n
        if question.roles is None and count is None:
            count = 50
        if question.roles is None:
            # A count alone decides before all else, so that older records are not looked at, nor reported.
            if count == 0:
                return [], set()
            if count is not None and len(keyed) >= count:
                skipped = [entry for entry in skipped if entry[0] >= keyed[-count][0]]
        else:
            kept = [one for one in kept if one.agent in question.roles]
        if count is not None:
            kept = kept[len(kept) - count :] if count < len(kept) else kept
        if question.token_budget is not None:
            kept = _fit(kept, question.token_budget)
        return kept, {place for _, place in skipped}


def _wanted(one: Stored, question: Question) -> bool:
    if one.conversation in (None, question.conversation):
        return True
    return question.children and question.conversation in (one.parent, one.root)


def _fit(messages: list[Stored], budget: int) -> list[Stored]:
    left = budget
    fitting: list[Stored] = []
    for one in reversed(messages):
        left -= -(-len(one.payload) // 4)
        if left < 0 and fitting:
            break
        fitting.insert(0, one)
        if left < 0:
            break
    return fitting
