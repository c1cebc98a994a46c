"""How well memory finds what answers a question. No clock here: the same file gives the same figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import msgspec

import laser as ls
from benchmarks.bench import Bench
from benchmarks.figures import FTS, LASER, SEARCH, SEMANTIC, Line, make_line
from benchmarks.peers.fts import PlainFts
from benchmarks.questions import CATEGORIES, Conversation, read_questions
from laser.integrations.minilm import MiniLmEmbedder
from laser.memory.memory import Memory
from laser.ports.embedder import Embedder

__all__ = ["run"]

_DEPTHS: Final = (5, 10)
_ALL: Final = "all"
_STRATEGIES: Final[dict[str, Any]] = {SEARCH: "keyword", SEMANTIC: "semantic", LASER: "hybrid"}

_Found = dict[tuple[str, int], dict[str, list[float]]]
"""By what they are of and by depth: for each way to search, the shares of all questions."""


async def run(bench: Bench) -> list[Line]:
    """Each turn of a conversation is remembered as ``speaker: text``; then its questions are asked.

    A question's figure is the share of the turns that answer it among the first 5, and 10, that come back.
    """
    if bench.questions is None:
        bench.skipped["recall"] = "no questions: name a JSON file in LoCoMo's manner, --questions FILE"
        return []
    embedder = None
    try:
        embedder = MiniLmEmbedder()
    except ls.ConfigError as error:
        bench.skipped["recall by meaning"] = str(error)
    found = await _ask_all(read_questions(bench.questions), embedder)
    lines = _lines(found, "search", {SEARCH: LASER, FTS: FTS}, only=None if embedder is None else _ALL)
    if embedder is not None:
        lines += _lines(found, "hybrid", {LASER: LASER, SEARCH: SEARCH, SEMANTIC: SEMANTIC, FTS: FTS})
        lines += _above_halves(found)
    return lines


async def _ask_all(conversations: Sequence[Conversation], embedder: Embedder | None) -> _Found:
    found: _Found = defaultdict(lambda: defaultdict(list))
    async with ls.Laser.connect("memory:") as laser:
        for conversation in conversations:
            memory = laser.memory_with(f"conversation-{conversation.id}", embedder=embedder)
            async for category, shares in _ask(memory, conversation, embedder is not None):
                for of in (_ALL, f"{category} {CATEGORIES[category]}", f"conversation {conversation.id}"):
                    for (side, depth), share in shares.items():
                        found[of, depth][side].append(share)
    return found


async def _ask(
    memory: Memory, conversation: Conversation, by_meaning: bool
) -> AsyncIterator[tuple[int, Mapping[tuple[str, int], float]]]:
    where = ls.derive_conversation_id(conversation.id)
    texts = [f"{turn.speaker}: {turn.text}" for turn in conversation.turns]
    turns = {
        await memory.remember(text, kind="message", conversation=where): turn.id
        for text, turn in zip(texts, conversation.turns, strict=True)
    }
    ids = [turn.id for turn in conversation.turns]
    plain = PlainFts(texts)
    sides = {side: strategy for side, strategy in _STRATEGIES.items() if by_meaning or side == SEARCH}
    for question in conversation.qa:
        answers = question.turns(frozenset(ids))
        if question.category not in CATEGORIES or not answers:
            continue
        ranked = {FTS: [ids[number] for number in plain.search(question.question, max(_DEPTHS))]}
        for side, strategy in sides.items():
            items = await memory.recall(question.question, limit=max(_DEPTHS), strategy=strategy)
            ranked[side] = [turns[item.id] for item in items]
        yield (
            question.category,
            {
                (side, depth): len(answers.intersection(order[:depth])) / len(answers)
                for side, order in ranked.items()
                for depth in _DEPTHS
            },
        )
    plain.close()


def _lines(found: _Found, name: str, sides: Mapping[str, str], *, only: str | None = None) -> list[Line]:
    """A line for each kind of question and each conversation. sides: the names of the figures, by way to search."""
    return [
        _line(
            name, f"answers in the first {depth} of `{name}`", "%", 100,
            {shown: _mean(shares[side]) for side, shown in sides.items()},
            of=of, first=depth, questions=len(shares[FTS]),
        )
        for (of, depth), shares in sorted(found.items(), key=lambda entry: (entry[0][1], _place(entry[0][0])))
        if only in (None, of)
    ]  # fmt: skip


def _above_halves(found: _Found) -> list[Line]:
    """The line where ``hybrid`` is the least above the better one of its halves, or the most below."""
    lines = []
    for depth in _DEPTHS:
        worst, of = min(
            (_mean(shares[LASER]) / max(_mean(shares[SEARCH]), _mean(shares[SEMANTIC]), 1e-9), of)
            for (of, at), shares in found.items()
            if at == depth
        )
        title = f"`hybrid` beside the better of its halves, where it is the least, first {depth}"
        lines.append(_line("halves", title, "×", 1, {LASER: worst}, of=of, first=depth))
    return lines


def _line(name: str, title: str, unit: str, scale: float, sides: Mapping[str, float], **parameters: int | str) -> Line:
    samples = {side: [share] for side, share in sides.items()}
    line = make_line(f"recall.{name}", title, "process", samples, unit=unit, scale=scale)
    # Ratios say how much less laser needs; here more is better.
    return msgspec.structs.replace(line, ratios={}, parameters=parameters)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _place(of: str) -> tuple[bool, bool, str]:
    return of != _ALL, of.startswith("conversation"), of
