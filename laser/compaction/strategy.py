"""The port of compaction strategies, and what they may do."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from laser.compaction.inputs import PreparedInput
from laser.compaction.requests import CompactionLimits, Request
from laser.compaction.view import CompactionView
from laser.ports.summarizer import Summary, SummaryRequest

__all__ = ["CompactionProgress", "CompactionStrategy", "CompactionWork", "summarizes"]


class CompactionProgress(msgspec.Struct, frozen=True):
    """How far a compaction is.

    Attributes:
        strategy: whose. done, total: tokens of the history that is being summarised. summaries: made so far.
    """

    strategy: str
    done: int
    total: int
    summaries: int


class CompactionWork(Protocol):
    """What a strategy may do while it compacts."""

    async def ask(self, request: SummaryRequest, *, redacted: bool = False) -> Summary:
        """Asks the summarizer, with secrets taken out, under the time limit.

        Args:
            redacted: the text has none any more. ``False`` takes them out here, in one go, which holds up the event
                loop for about a millisecond for every 3,000 characters.

        Raises:
            SummaryError: it failed, or what it gave is no complete summary.
        """
        ...

    async def save(self, state: object, *, before: int = 0, after: int = 0) -> CompactionView | None:
        """Writes a state of the strategy to the log.

        Args:
            before, after: tokens of the request.

        Returns:
            The session as it is now; ``None`` when another process was first, and this state counts for nothing.
        """
        ...

    def report(self, done: int, total: int) -> None:
        """Says how far the compaction is, in tokens of history."""
        ...


@runtime_checkable
class CompactionStrategy(Protocol):
    """Decides what a request shows of a long session.

    A strategy keeps nothing of a session in itself: what it saves is on the log. So one object serves all sessions.

    One that can do without a summarizer says so with a method ``summarizes(request) -> bool``.
    """

    @property
    def name(self) -> str:
        """Its name in the registry and on the log."""
        ...

    @property
    def limits(self) -> CompactionLimits:
        """When it compacts, and what it leaves."""
        ...

    async def project(self, view: CompactionView) -> tuple[list[PreparedInput], int]:
        """What the request shows now, after the caller's context, and how many rows summaries stand for.

        The same view gives the same bytes. No row is shown twice, or shown and summarised; none is in neither.
        """
        ...

    async def compact(self, view: CompactionView, work: CompactionWork, *, force: bool) -> bool:
        """Summarises, and saves, so that the next ``project`` is smaller.

        Args:
            force: somebody asked for it: what there is to fold is folded, whatever the request's size.

        Returns:
            Whether something was saved; ``False`` when there is nothing that may be folded, or when another process
            was first.

        Raises:
            SummaryError: the summarizer failed. CompactionError: the request would not become smaller.
        """
        ...


def summarizes(strategy: CompactionStrategy, request: Request) -> bool:
    """Whether a strategy needs a summarizer for a request."""
    asks = getattr(strategy, "summarizes", None)
    return True if asks is None else bool(asks(request))
