"""Preparing the requests of one session: compacted first where they have reached the trigger."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from laser.compaction.events import Failed, Saved
from laser.compaction.inputs import ContextObservation, PreparedRequest, Status, sections_of
from laser.compaction.looking import SessionLook
from laser.compaction.requests import Request
from laser.compaction.strategy import CompactionProgress, CompactionStrategy, summarizes
from laser.compaction.view import CompactionView
from laser.compaction.work import SessionWork
from laser.errors import CompactionError, LaserError, SummaryError
from laser.ports.summarizer import Summarizer

__all__ = ["Preparing"]

_logger = logging.getLogger("laser.compaction")

_ATTEMPTS: Final = 4
# What a request grows by, in parts of the window, before a compaction that failed is tried again by itself.
_COOLDOWN_PARTS: Final = 32


class Preparing:
    """Prepares requests, and has strategies compact. Only one compaction at a time: its caller sees to that."""

    def __init__(self, look: SessionLook, summarizer: Summarizer | None, timeout: float) -> None:
        self._look = look
        self._summarizer = summarizer
        self._timeout = timeout

    async def prepare(self, request: Request, *, compact: bool) -> PreparedRequest:
        """See ``Compaction.prepare``.

        Args:
            compact: whether it may; else it is told why it would or would not.
        """
        await self._look.read()
        name = self._look.chosen()
        if name is None:
            return await self.prepared(request, "none", "the session has no compaction strategy")
        strategy = self._look.registry.get(name)
        found = await self.prepared(request, "idle", "")
        seen = found.observation
        if seen.trigger is None:
            return _with(found, "no_window", "no window is known: nothing is compacted by itself")
        if seen.tokens < seen.trigger:
            return found
        verdict = self._hold_off(strategy, request, found, raises=compact)
        if verdict is not None or not compact:
            return found if verdict is None else _with(found, *verdict)
        try:
            done = await self.compact(strategy, request, None, force=False)
        except (SummaryError, CompactionError) as error:
            kind: Literal["summary", "stalled"] = "summary" if isinstance(error, SummaryError) else "stalled"
            await self._note_failure(strategy, kind, seen.tokens, str(error))
            found = await self.prepared(request, "failed", str(error))
            if found.observation.over_window:
                raise
            return found
        if not done:
            return await self.prepared(request, "nothing_to_fold", "everything that is left has to stay as it is")
        found = await self.prepared(request, "compacted", "")
        if found.observation.tokens >= seen.trigger:
            note = f"still {found.observation.tokens} tokens: what is left has to stay as it is"
            await self._note_failure(strategy, "left", found.observation.tokens, note)
            return _with(found, "compacted", note)
        return found

    def _hold_off(
        self, strategy: CompactionStrategy, request: Request, found: PreparedRequest, *, raises: bool
    ) -> tuple[Status, str] | None:
        """Why a request that has reached the trigger is not compacted now."""
        seen = found.observation
        units = self._look.transcript.history.units
        if self._summarizer is None and summarizes(strategy, request):
            return "no_summarizer", "no summarizer was given: nothing is compacted by itself"
        if units and units[-1].open and not seen.over_window:
            return "deferred", "a call of the newest turn waits for its result"
        failure, window = self._look.saved.failure, seen.window or 0
        if failure is None or failure.strategy != seen.strategy:
            return None
        if seen.over_window and failure.kind == "summary":
            # Nothing else is left to do.
            return None
        if seen.tokens < failure.tokens + max(1, window // _COOLDOWN_PARTS):
            if raises and seen.over_window and failure.kind == "stalled":
                raise CompactionError(failure.reason, tokens=seen.tokens, window=seen.window)
            return "cooling_down", f"not tried again before the request has grown: {failure.reason}"
        return None

    async def prepared(self, request: Request, status: Status, note: str) -> PreparedRequest:
        """The request as things are, as of the last look."""
        name = self._look.chosen()
        history = self._look.transcript.history
        if name is None:
            inputs, covered = list(history.inputs), 0
            window, trigger = request.window, None
        else:
            view = self._look.view(self._look.registry.get(name), request)
            inputs, covered = await self._look.registry.get(name).project(view)
            window, trigger = view.window, view.trigger
        every = (*request.context, *inputs)
        context = sum([one.tokens for one in request.context])
        tokens = request.reserved + sum([one.tokens for one in every])
        observation = ContextObservation(
            session=self._look.session,
            strategy=name,
            status=status,
            note=note,
            window=window,
            trigger=trigger,
            tokens=tokens,
            full_tokens=request.reserved + context + sum([row.tokens for row in history.rows]),
            reserved=request.reserved,
            over_window=window is not None and tokens > window,
            rows=len(history.rows),
            covered=covered,
            sections=sections_of(every),
        )
        return PreparedRequest(every, observation)

    async def compact(
        self,
        strategy: CompactionStrategy,
        request: Request,
        progress: Callable[[CompactionProgress], None] | None,
        *,
        force: bool,
    ) -> bool:
        """Lets the strategy compact, again when another process was first. Says whether anything came of it."""
        done = False
        for _ in range(_ATTEMPTS):
            await self._look.read()
            book, base = _Book(self._look, strategy, request), self._look.saved.head(strategy.name)
            work = SessionWork(book, strategy.name, base, self._summarizer, self._timeout, progress)
            saved = await strategy.compact(self._look.view(strategy, request), work, force=force)
            done = done or saved or work.overtaken
            # When it was asked for, somebody else's compaction, just now, is as good.
            if not work.overtaken or force or await self._below(request):
                break
        return done

    async def _below(self, request: Request) -> bool:
        await self._look.read()
        seen = (await self.prepared(request, "idle", "")).observation
        return seen.trigger is None or seen.tokens < seen.trigger

    async def _note_failure(
        self, strategy: CompactionStrategy, kind: Literal["summary", "stalled", "left"], tokens: int, reason: str
    ) -> None:
        rows = self._look.transcript.history.rows
        event = Failed(strategy.name, kind, tokens, rows[-1].seq if rows else -1, reason[:500])
        try:
            await self._look.append(event)
        except LaserError as error:
            # The failure itself is what the caller must learn of.
            _logger.warning("session %s: a failed compaction was not noted: %s", self._look.session, error)


class _Book:
    """Where the records of one strategy go."""

    def __init__(self, look: SessionLook, strategy: CompactionStrategy, request: Request) -> None:
        self._look = look
        self._strategy = strategy
        self._request = request

    async def record(self, saved: Saved) -> CompactionView | None:
        """Writes a record: the session as it is then, or ``None`` when the record counts for nothing."""
        counts = await self._look.append(saved)
        await self._look.read()
        return self._look.view(self._strategy, self._request) if counts else None


def _with(found: PreparedRequest, status: Status, note: str) -> PreparedRequest:
    observation = msgspec.structs.replace(found.observation, status=status, note=note)
    return PreparedRequest(found.inputs, observation)
