"""A summarizer without a model: it keeps the beginnings of messages."""

from __future__ import annotations

from typing import Final

from laser.compaction.sizes import text_cost
from laser.ports.summarizer import Summary, SummaryRequest

__all__ = ["ExtractiveSummarizer"]

_LEAST_CHARACTERS: Final = 12


class ExtractiveSummarizer:
    """Keeps the first words of each message, as many as fit: the same for the same request, and free.

    It understands nothing of what it keeps. Use it to try compaction, in tests, and where no model may be asked.
    """

    async def summarize(self, request: SummaryRequest) -> Summary:
        """See ``Summarizer.summarize``."""
        before = [] if request.previous is None else request.previous.split("\n")
        lines = before + [" ".join(part.split()) for part in request.text.split("\n\n") if part.strip()]
        budget = request.max_tokens
        width = 400
        while True:
            kept = [line[:width] for line in lines]
            if text_cost("\n".join(kept).encode()) <= budget:
                return Summary("\n".join(kept))
            if width > _LEAST_CHARACTERS:
                width //= 2
            elif len(lines) > 1:
                # Every second line goes, the last one stays.
                lines = lines[len(lines) % 2 :: 2] if len(lines) % 2 else lines[1::2]
            else:
                return Summary(kept[0][: max(1, budget)])
