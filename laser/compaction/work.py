"""What a strategy may do while it compacts a session: ask for summaries, and save."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import msgspec

from laser.compaction.events import Saved
from laser.compaction.strategy import CompactionProgress
from laser.compaction.summarizing import ask
from laser.compaction.view import CompactionView
from laser.errors import InvalidError
from laser.memory.redaction import redact
from laser.model.checks import shown
from laser.model.ids import new_conversation_id
from laser.ports.summarizer import Summarizer, Summary, SummaryRequest

__all__ = ["SessionWork", "check_timeout"]


class _Book(Protocol):
    """Where the session's records are."""

    async def record(self, saved: Saved) -> CompactionView | None:
        """Writes a record: the session as it is then, or ``None`` when the record counts for nothing."""
        ...


class SessionWork:
    """See ``CompactionWork``.

    Args:
        base: the strategy's newest record when the view was made. seconds: that one summary may take.

    Attributes:
        overtaken: another process was first.
    """

    def __init__(
        self,
        book: _Book,
        strategy: str,
        base: str | None,
        summarizer: Summarizer | None,
        seconds: float,
        progress: Callable[[CompactionProgress], None] | None,
    ) -> None:
        self._book = book
        self._strategy = strategy
        self._base = base
        self._summarizer = summarizer
        self._seconds = seconds
        self._progress = progress
        self._summaries = 0
        self.overtaken = False

    async def ask(self, request: SummaryRequest, *, redacted: bool = False) -> Summary:
        """See ``CompactionWork.ask``."""
        assert self._summarizer is not None
        clean = msgspec.structs.replace(
            request,
            text=request.text if redacted else redact(request.text),
            previous=None if request.previous is None else redact(request.previous),
        )
        found = await ask(self._summarizer, clean, self._seconds)
        self._summaries += 1
        return found

    async def save(self, state: object, *, before: int = 0, after: int = 0) -> CompactionView | None:
        """See ``CompactionWork.save``."""
        raw = state if isinstance(state, msgspec.Raw) else msgspec.Raw(msgspec.json.encode(state))
        record = new_conversation_id()
        view = await self._book.record(Saved(record, self._strategy, self._base, raw, before, after))
        if view is None:
            self.overtaken = True
        else:
            self._base = record
        return view

    def report(self, done: int, total: int) -> None:
        """See ``CompactionWork.report``."""
        if self._progress is not None:
            self._progress(CompactionProgress(self._strategy, done, total, self._summaries))


def check_timeout(timeout: object) -> float:
    """Seconds that a summary may take.

    Raises:
        InvalidError: it is no number above 0.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise InvalidError(f"timeout: {shown(timeout)} is not seconds above 0", argument="timeout")
    return float(timeout)
