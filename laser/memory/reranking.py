"""A second look at the best candidates by a model."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Final

import anyio
import anyio.lowlevel
import msgspec

from laser.errors import InvalidError
from laser.memory.arguments import check_limit
from laser.memory.hits import MemoryItem
from laser.memory.redaction import redact
from laser.ports.embedder import Reranker

__all__ = ["Rerank", "rerank"]

# More than models of this kind look at.
_MAX_CHARS: Final = 16_384

_logger = logging.getLogger("laser.memory")


class Rerank(msgspec.Struct, frozen=True):
    """When and how a reranker is asked.

    Attributes:
        reranker: judges candidates.
        top_k: items that it leaves. candidate_limit: items that it is shown.
        timeout: seconds after which the usual answer is kept.

    A text is shown up to its first 16,384 characters.
    """

    reranker: Reranker
    top_k: int = 10
    candidate_limit: int = 20
    timeout: float = 2.0

    def __post_init__(self) -> None:
        if not isinstance(self.reranker, Reranker):
            raise InvalidError(
                f"reranker: {type(self.reranker).__name__} has no method rerank(query, texts)", argument="reranker"
            )
        check_limit(self.top_k, "top_k")
        check_limit(self.candidate_limit, "candidate_limit")
        real = isinstance(self.timeout, int | float) and not isinstance(self.timeout, bool)
        if not real or not 0 < self.timeout < math.inf:
            raise InvalidError(f"timeout: {self.timeout!r:.40} is not seconds above 0", argument="timeout")


async def rerank(query: str, items: Sequence[MemoryItem], how: Rerank) -> list[MemoryItem]:
    """The items in a reranker's order; in their own when it fails, is late, or answers with something else.

    What is sent is the beginning of each text, redacted of recognised secrets. Items beyond ``candidate_limit`` are
    left out only when it answers.
    """
    candidates = items[: how.candidate_limit]
    if not candidates:
        return list(items)
    texts: list[str] = []
    for item in candidates:
        texts.append(redact(_beginning(item.text)))
        await anyio.lowlevel.checkpoint()
    scores: Sequence[float] | None = None
    try:
        with anyio.fail_after(how.timeout):
            scores = _check(await how.reranker.rerank(redact(_beginning(query)), texts), len(texts))
    except Exception as error:  # noqa: BLE001 - whatever a reranker of others raises, the usual answer is at hand
        # The error's own text may quote what was sent.
        _logger.warning("the reranker failed, the usual order is kept: %s", type(error).__name__)
    if scores is None:
        return list(items)
    judged = [
        msgspec.structs.replace(item, score=score, signals={**item.signals, "rerank": score})
        for item, score in zip(candidates, scores, strict=True)
    ]
    judged.sort(key=lambda item: -(item.score or 0.0))
    return judged[: how.top_k]


def _beginning(text: str) -> str:
    """The first ``_MAX_CHARS`` of a text, cut at white space: half a secret might not be recognised."""
    if len(text) <= _MAX_CHARS:
        return text
    words = text[: _MAX_CHARS + 1].rsplit(None, 1)
    return words[0] if len(words) == 2 else text[:_MAX_CHARS]


def _check(scores: Sequence[float], count: int) -> list[float]:
    values = [float(score) for score in scores]
    if len(values) != count or not all(map(math.isfinite, values)):
        raise InvalidError(f"reranker: gave {len(values)} scores for {count} texts, or one that is not finite")
    return values
