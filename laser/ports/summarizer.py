"""Summarizers: models, or anything else, that say in fewer words what a text says."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

import msgspec

__all__ = ["Summarizer", "Summary", "SummaryKind", "SummaryRequest"]

SummaryKind = Literal["rolling", "leaf", "condensed"]


class SummaryRequest(msgspec.Struct, frozen=True):
    """What is to be summarised. Secrets that laser recognises are taken out already, and it holds no image bytes.

    Attributes:
        kind: ``rolling``: of everything so far. ``leaf``: of a stretch of a conversation. ``condensed``: of summaries.
        instructions: what to do. text: the material, one paragraph a message.
        previous: the summary so far, which the new one is to hold too; ``None`` at the beginning.
        max_tokens: how long the summary may become.
    """

    kind: SummaryKind
    instructions: str
    text: str
    previous: str | None
    max_tokens: int


class Summary(msgspec.Struct, frozen=True):
    """An answer.

    Attributes:
        text: the summary. complete: ``False`` when the model was cut off before it came to its end.
    """

    text: str
    complete: bool = True


@runtime_checkable
class Summarizer(Protocol):
    """Makes summaries. It gets no tools, and answers within the caller's time limit, or is cancelled."""

    async def summarize(self, request: SummaryRequest) -> Summary:
        """The summary of a request. Whatever it raises counts as a failure. It must not block the event loop."""
        ...
