"""Knowledge: concepts that match the turn's message, and what they link to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import anyio
import msgspec

from laser.context.policies import check_count
from laser.errors import InvalidError
from laser.memory.redaction import redact
from laser.ports.embedder import Reranker
from laser.prompt.provider import BaseProvider, Provided, TurnContext

__all__ = ["Concept", "Knowledge", "KnowledgeSource"]

_WORD: Final = re.compile(r"\w+")


class Concept(msgspec.Struct, frozen=True):
    """Something that is known.

    Attributes:
        name, description: what retrieval goes by, and what the prompt shows. body: its whole text.
        key: how its source knows it; the name where it is ``""``.
    """

    name: str
    description: str = ""
    body: str = ""
    key: str = ""


@runtime_checkable
class KnowledgeSource(Protocol):
    """Where concepts come from: ``DirectoryKnowledge``, ``GraphKnowledge``, or one of your own."""

    async def concepts(self, turn: TurnContext) -> Sequence[Concept]:
        """The concepts that the turn's agent and tenant may see."""
        ...

    async def linked(self, concept: Concept) -> Sequence[Concept]:
        """Those that a concept links to directly."""
        ...


class Knowledge(BaseProvider):
    """The concepts that match the turn's message by their words, and those that they link to, one hop.

    Names and descriptions only: what a body says, the agent reads with a tool of its own.

    Args:
        source: where concepts come from.
        top_k: concepts that match, before the linked ones.
        rerank: judges the matches again; it is sent name, description and body, redacted of recognised secrets. When
            it fails the order by words stays.
        candidates: matches that it is shown.
    """

    name = "knowledge"
    priority = 77

    def __init__(
        self, source: KnowledgeSource, *, top_k: int = 3, rerank: Reranker | None = None, candidates: int = 20
    ) -> None:
        if not isinstance(source, KnowledgeSource):
            raise InvalidError(
                f"source: {type(source).__name__} has no methods concepts(turn) and linked(concept); "
                "DirectoryKnowledge(path) is one that has",
                argument="source",
            )
        if rerank is not None and not isinstance(rerank, Reranker):
            raise InvalidError(f"rerank: {type(rerank).__name__} has no method rerank(query, texts)", argument="rerank")
        self._source = source
        self._top_k = check_count(top_k, "top_k")
        self._rerank = rerank
        self._candidates = check_count(candidates, "candidates")

    def applies(self, turn: TurnContext) -> bool:
        """Where there is a message to match."""
        return bool(turn.message.strip())

    async def provide(self, turn: TurnContext) -> Provided:
        """A line for each concept: matches best first, then what they link to."""
        concepts = await self._source.concepts(turn)
        matches = _match(turn.message, concepts)[: max(self._top_k, self._candidates if self._rerank else 0)]
        if self._rerank is not None and matches:
            matches = await self._judged(self._rerank, turn.message, matches)
        shown = {concept.key or concept.name: concept for concept in matches[: self._top_k]}
        for concept in list(shown.values()):
            for linked in await self._source.linked(concept):
                shown.setdefault(linked.key or linked.name, linked)
        if not shown:
            return None
        lines = [f"{_line(one.name)}: {_line(one.description or one.body[:200])}" for one in shown.values()]
        return [self.fragment(turn.fence("knowledge", "\n".join(lines)))]

    async def _judged(self, rerank: Reranker, query: str, matches: list[Concept]) -> list[Concept]:
        texts = [redact(f"{one.name}\n{one.description}\n{one.body[:16_384]}") for one in matches]
        try:
            with anyio.fail_after(self.timeout / 2):
                scores = [float(score) for score in await rerank.rerank(redact(query), texts)]
        except Exception:  # noqa: BLE001 - whatever a reranker of others raises, the order by words is at hand
            return matches
        if len(scores) != len(matches) or any(score != score for score in scores):
            return matches
        order = sorted(range(len(matches)), key=lambda place: -scores[place])
        return [matches[place] for place in order]


def _match(message: str, concepts: Sequence[Concept]) -> list[Concept]:
    """Concepts that share words with a message, best first: words that few concepts have count for more."""
    wanted = set(_words(message))
    if not wanted:
        return []
    held = [(set(_words(f"{one.name} {one.description}")), set(_words(one.body))) for one in concepts]
    spread: Mapping[str, int] = {word: sum(word in head or word in body for head, body in held) for word in wanted}
    scored: list[tuple[float, int]] = []
    for place, (head, body) in enumerate(held):
        score = sum((3.0 if word in head else 1.0) / spread[word] for word in wanted & (head | body))
        if score > 0:
            scored.append((score, place))
    scored.sort(key=lambda one: (-one[0], one[1]))
    return [concepts[place] for _, place in scored]


def _words(text: str) -> list[str]:
    """The words of a text; of scripts without spaces pairs of characters."""
    found: list[str] = []
    for word in _WORD.findall(text.casefold()):
        if word.isascii():
            if len(word) > 2:
                found.append(word)
        elif len(word) > 1:
            found += [word, *(word[place : place + 2] for place in range(len(word) - 1))]
    return found


def _line(text: str) -> str:
    return " ".join(text.split())
