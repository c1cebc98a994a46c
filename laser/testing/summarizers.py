"""Summarizers for tests: one that notes what it was asked, and ones that fail in each way that summarizers do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

from laser.ports.summarizer import Summary, SummaryRequest

__all__ = ["FAULTS", "NotingSummarizer"]

_HANG_SECONDS = 3_600.0


class NotingSummarizer:
    """Gives short summaries, always the same for the same requests, and notes each request.

    Attributes:
        requests: those that were answered. asked: how many came in all.
        fault: what to do instead of answering; ``None`` answers.
        during: called in the middle of each request, to let something else happen meanwhile.
        length: characters of each summary; ``None`` for as many as a summary needs that names what it is of.
    """

    def __init__(self, *, length: int | None = None) -> None:
        self.requests: list[SummaryRequest] = []
        self.asked = 0
        self.fault: Callable[[SummaryRequest], Awaitable[Summary]] | None = None
        self.during: Callable[[], Awaitable[None]] | None = None
        self.length = length

    async def summarize(self, request: SummaryRequest) -> Summary:
        """See ``Summarizer.summarize``."""
        self.asked += 1
        await anyio.lowlevel.checkpoint()
        if self.during is not None:
            await self.during()
        if self.fault is not None:
            return await self.fault(request)
        self.requests.append(request)
        paragraphs = request.text.count("\n\n") + 1
        before = 0 if request.previous is None else len(request.previous)
        text = f"Account {len(self.requests)} of {paragraphs} paragraphs, {len(request.text)} and {before} characters."
        if self.length is not None:
            text = (text * (self.length // len(text) + 1))[: self.length]
        return Summary(text)

    @property
    def seen(self) -> str:
        """All texts that were summarised with success."""
        return "\n\n".join(request.text for request in self.requests)


async def _raises(_: SummaryRequest) -> Summary:
    raise ValueError("the model is out of reach")


async def _hangs(_: SummaryRequest) -> Summary:
    await anyio.sleep(_HANG_SECONDS)
    return Summary("too late")


async def _empty(_: SummaryRequest) -> Summary:
    return Summary("")


async def _blank(_: SummaryRequest) -> Summary:
    return Summary(" \n\t\u200b ")


async def _partial(_: SummaryRequest) -> Summary:
    return Summary("The user asked for", complete=False)


async def _error_text(_: SummaryRequest) -> Summary:
    return Summary("Error: 529 overloaded, try again later")


async def _error_json(_: SummaryRequest) -> Summary:
    return Summary('{"error": {"type": "rate_limit"}}')


async def _refusal(_: SummaryRequest) -> Summary:
    return Summary("I'm sorry, I can't help with that.")


async def _nothing(_: SummaryRequest) -> Summary:
    return None  # type: ignore[return-value]


FAULTS: dict[str, Callable[[SummaryRequest], Awaitable[Summary]]] = {
    "raises": _raises,
    "hangs": _hangs,
    "empty": _empty,
    "blank": _blank,
    "partial": _partial,
    "error text": _error_text,
    "error JSON": _error_json,
    "refusal": _refusal,
    "nothing": _nothing,
}
"""Ways to fail, for ``NotingSummarizer.fault``, by name."""
