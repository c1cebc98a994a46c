"""The compaction of one session: prepared requests, and the strategy that makes them small enough."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import anyio
import msgspec

from laser.compaction.coverage import NO_COVERAGE, Coverage, coverage_of
from laser.compaction.events import Event, Failed, Saved, Switched
from laser.compaction.inputs import ContextObservation, PreparedInput, PreparedRequest, Status, sections_of
from laser.compaction.lcm.copying import copy_nodes
from laser.compaction.lcm.tools import LcmTools
from laser.compaction.registry import StrategyRegistry
from laser.compaction.requests import Request, check_tokens
from laser.compaction.saved import UNCHOSEN, CompactionStep, SavedState
from laser.compaction.sizes import Estimator, message_cost
from laser.compaction.snapcompact.tools import TranscriptTools
from laser.compaction.strategy import CompactionProgress, CompactionStrategy, summarizes
from laser.compaction.transcript import History, Transcript
from laser.compaction.view import CompactionView
from laser.compaction.work import SessionWork
from laser.context.connection import Connection
from laser.context.policies import check_count
from laser.errors import BudgetError, CompactionError, InvalidError, LaserError, NotFoundError, SummaryError
from laser.model.ids import parse_conversation_id
from laser.ports.summarizer import Summarizer
from laser.session.status import read_status

__all__ = ["Compaction"]

_logger = logging.getLogger("laser.compaction")

_ATTEMPTS: Final = 4
# What a request grows by, in parts of the window, before a compaction that failed is tried again by itself.
_COOLDOWN_PARTS: Final = 32


class Compaction:
    """Decides what a model call shows of a long session. ``Laser.compaction`` makes it, without any I/O.

    The log, forks and the transcript keep everything; a compaction only writes, to the topic ``agent.compaction``, what
    stands for which rows. Several processes may compact one session: the log decides whose record counts.

    A handle keeps the rows of its session in memory. Keep it for as long as you work on the session: each look then
    reads only what is new.

    Args:
        session: its id, or any conversation's. summarizer: makes summaries; without one nothing is summarised.
        registry: the strategies. estimator: tokens of a message's bytes; ``None`` for laser's own.
        timeout: seconds that one summary may take. agent: who compacts, as the log shows it.
        repairs: texts that summaries have in the place of an assistant's plain messages, by
            ``topic:partition:offset`` of the message.
    """

    def __init__(
        self,
        laser: Connection,
        session: str,
        *,
        summarizer: Summarizer | None = None,
        registry: StrategyRegistry | None = None,
        estimator: Estimator | None = None,
        timeout: float = 120.0,
        agent: str | None = None,
        repairs: Mapping[str, str] | None = None,
    ) -> None:
        if summarizer is not None and not isinstance(summarizer, Summarizer):
            raise InvalidError(
                f"summarizer: {type(summarizer).__name__} has no method summarize(request)", argument="summarizer"
            )
        real = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if not real or not 0 < timeout < math.inf:
            raise InvalidError(f"timeout: {timeout!r:.40} is not seconds above 0", argument="timeout")
        self.session = parse_conversation_id(session)
        self._laser = laser
        self._agent = agent
        self._inherits = True
        self.registry = registry or StrategyRegistry()
        self._summarizer = summarizer
        self._timeout = float(timeout)
        self._estimator = estimator or message_cost
        self._transcript = Transcript(laser, self.session, self._estimator, repairs)
        self._saved = SavedState(laser, self.session, agent)
        self._memo: dict[Any, Any] = {}
        # One compaction at a time, which may take minutes; and one look at the log at a time, which does not.
        self._lock = anyio.Lock()
        self._looking = anyio.Lock()
        self.lcm = LcmTools(self._look)
        self.transcript = TranscriptTools(self.lcm)

    async def strategy(self) -> str | None:
        """The name of the session's strategy: the one that was chosen, else the registry's default."""
        return await self._current()

    async def switch(self, strategy: str | None) -> None:
        """Chooses the session's strategy, on the log; what others saved stays for when they are chosen again.

        Args:
            strategy: a name of the registry; ``None`` for none.

        Raises:
            NotFoundError: the registry has none of this name; nothing was changed.
        """
        if strategy is not None:
            self.registry.get(strategy)
        async with self._lock:
            await self._switch(strategy)

    async def prepare(
        self,
        *,
        window: int | None = None,
        reserve: int = 0,
        context: Sequence[bytes] = (),
        images: bool | None = None,
        provider: str | None = None,
    ) -> PreparedRequest:
        """The inputs of the session's next model call, compacted first where the request has reached the trigger.

        Between two compactions only the end of the inputs changes.

        Args:
            window: tokens of the model's window. ``None``: not known, and nothing is compacted by itself unless the
                strategy has a window of its own.
            reserve: tokens to leave for what is not among the inputs: tool schemas, and the answer if the window
                counts it.
            context: messages as JSON bytes that come first, such as the system prompt. They are never compacted.
            images: whether the model reads images. provider: its provider's name. For strategies that draw.

        Raises:
            SummaryError: the summarizer failed, and without a compaction the request does not fit the window. Where it
                fits, the request as it is comes back, and its observation says what failed.
            CompactionError: the same, where no summary makes it smaller. A request that does not fit because of its
                newest turn is no error: the observation says so.
        """
        request = self._request(window, reserve, context, images, provider)
        async with self._lock:
            return await self._prepare(request, compact=True)

    async def observe(
        self,
        *,
        window: int | None = None,
        reserve: int = 0,
        context: Sequence[bytes] = (),
        images: bool | None = None,
        provider: str | None = None,
    ) -> ContextObservation:
        """How the next request would be prepared as things are. Nothing is compacted. Arguments as of ``prepare``."""
        request = self._request(window, reserve, context, images, provider)
        return (await self._prepare(request, compact=False)).observation

    async def preview(
        self,
        *,
        window: int | None = None,
        reserve: int = 0,
        context: Sequence[bytes] = (),
        images: bool | None = None,
        provider: str | None = None,
    ) -> PreparedRequest:
        """The next request as things are, with its inputs. Nothing is compacted. Arguments as of ``prepare``."""
        return await self._prepare(self._request(window, reserve, context, images, provider), compact=False)

    async def coverage(
        self, *, window: int | None = None, images: bool | None = None, provider: str | None = None
    ) -> Coverage:
        """What stands for older messages as things are, for a reader that lays the session out itself.

        Nothing is compacted. Arguments as of ``prepare``.
        """
        request = self._request(window, 0, (), images, provider)
        await self._read()
        name = self._chosen()
        if name is None:
            return NO_COVERAGE
        strategy = self.registry.get(name)
        places = self._transcript.places
        view = self._view(strategy, request)
        inputs, _ = await strategy.project(view)
        return coverage_of(inputs, view.history.rows, places)

    async def compact(
        self,
        strategy: str | None = None,
        *,
        window: int | None = None,
        reserve: int = 0,
        context: Sequence[bytes] = (),
        images: bool | None = None,
        provider: str | None = None,
        keep_last: int | None = None,
        summary_tokens: int | None = None,
        progress: Callable[[CompactionProgress], None] | None = None,
    ) -> ContextObservation:
        """Compacts now, whatever the request's size.

        Args:
            strategy: choose this one for the session first; ``None`` takes the session's.
            keep_last: messages that stay as they are, at least, in the place of the tail's share of the window; the
                cut goes between two turns, and the newest turn stays in any case.
            summary_tokens: how long a summary may become, at most.
            progress: called before and after each request to the summarizer. Others as of ``prepare``.

        Returns:
            The observation afterwards: ``compacted``, or ``nothing_to_fold``.

        Raises:
            SummaryError: the summarizer failed. CompactionError: the request would not become smaller.
            InvalidError: the session has no strategy, or there is no summarizer and the strategy needs one.
        """
        request = self._request(window, reserve, context, images, provider)
        if keep_last is not None:
            check_count(keep_last, "keep_last")
        if summary_tokens is not None:
            check_tokens(summary_tokens, "summary_tokens", least=1)
        request = msgspec.structs.replace(request, keep_last=keep_last, summary_tokens=summary_tokens)
        if strategy is not None:
            self.registry.get(strategy)
        async with self._lock:
            current = await self._current()
            name = current if strategy is None else strategy
            if name is None:
                raise InvalidError("strategy: the session has none; name one", argument="strategy")
            if self._summarizer is None and summarizes(self.registry.get(name), request):
                raise InvalidError(f"summarizer: none was given, and {name} needs one", argument="summarizer")
            if name != current:
                await self._switch(name)
            done = await self._compact(self.registry.get(name), request, progress, force=True)
            status: Status = "compacted" if done else "nothing_to_fold"
            return (await self._prepared(request, status, "")).observation

    async def steps(self) -> list[CompactionStep]:
        """What was done to the session so far, oldest first."""
        await self._read()
        return list(self._saved.steps)

    # ---------------------------------------------------------------------------------------------- looking

    async def _look(self) -> tuple[History, Sequence[Saved], dict[Any, Any]]:
        """The transcript, what ``lcm`` saved, and the memo: for the tools."""
        await self._read()
        return self._transcript.history, tuple(self._saved.records("lcm")), self._memo

    async def _read(self) -> None:
        async with self._looking:
            before = self._transcript.began, self._saved.began
            await self._transcript.catch_up()
            await self._saved.catch_up()
            if self._inherits:
                await self._inherit()
            if (self._transcript.began, self._saved.began) != before:
                # The log is another one than was remembered of.
                self._memo.clear()

    async def _inherit(self) -> None:
        """Takes a fork's part of the nodes that its session's past has, before anything is done to the fork itself."""
        if not self._saved.steps:
            try:
                origin = (await read_status(self._laser, self.session)).origin
            except NotFoundError:
                origin = None  # a conversation that is no session
            if origin is not None and await copy_nodes(self._laser, origin.session, self.session, agent=self._agent):
                await self._saved.catch_up()
        self._inherits = False

    async def _append(self, event: Event) -> bool:
        async with self._looking:
            return await self._saved.append(event)

    async def _current(self) -> str | None:
        await self._read()
        return self._chosen()

    def _chosen(self) -> str | None:
        return self.registry.default if self._saved.chosen == UNCHOSEN else self._saved.chosen

    async def _switch(self, strategy: str | None) -> None:
        await self._read()
        if self._saved.chosen != strategy:
            await self._append(Switched(strategy))

    def _view(self, strategy: CompactionStrategy, request: Request) -> CompactionView:
        return CompactionView(
            self.session,
            strategy,
            self._transcript.history,
            self._saved.records,
            request,
            self.registry.providers,
            self._estimator,
            self._memo,
        )

    def _request(
        self,
        window: int | None,
        reserve: int,
        context: Sequence[bytes],
        images: bool | None,
        provider: str | None,
    ) -> Request:
        if window is not None:
            check_tokens(window, "window", least=1)
        check_tokens(reserve, "reserve")
        if window is not None and reserve >= window:
            raise BudgetError(f"reserve: {reserve} tokens leave nothing of a window of {window}", argument="reserve")
        inputs: list[PreparedInput] = []
        for place, payload in enumerate(context):
            if not isinstance(payload, bytes):
                raise InvalidError(
                    f"context[{place}]: expected a message as bytes, got {type(payload).__name__}", argument="context"
                )
            inputs.append(PreparedInput(payload, self._estimator(payload), "context"))
        return Request(window, reserve, tuple(inputs), images, provider)

    # ---------------------------------------------------------------------------------------------- preparing

    async def _prepare(self, request: Request, *, compact: bool) -> PreparedRequest:
        await self._read()
        name = self._chosen()
        if name is None:
            return await self._prepared(request, "none", "the session has no compaction strategy")
        strategy = self.registry.get(name)
        found = await self._prepared(request, "idle", "")
        seen = found.observation
        if seen.trigger is None:
            return _with(found, "no_window", "no window is known: nothing is compacted by itself")
        if seen.tokens < seen.trigger:
            return found
        verdict = self._hold_off(strategy, request, found, raises=compact)
        if verdict is not None or not compact:
            return found if verdict is None else _with(found, *verdict)
        try:
            done = await self._compact(strategy, request, None, force=False)
        except (SummaryError, CompactionError) as error:
            kind: Literal["summary", "stalled"] = "summary" if isinstance(error, SummaryError) else "stalled"
            await self._note_failure(strategy, kind, seen.tokens, str(error))
            found = await self._prepared(request, "failed", str(error))
            if found.observation.over_window:
                raise
            return found
        if not done:
            return await self._prepared(request, "nothing_to_fold", "everything that is left has to stay as it is")
        found = await self._prepared(request, "compacted", "")
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
        units = self._transcript.history.units
        if self._summarizer is None and summarizes(strategy, request):
            return "no_summarizer", "no summarizer was given: nothing is compacted by itself"
        if units and units[-1].open and not seen.over_window:
            return "deferred", "a call of the newest turn waits for its result"
        failure, window = self._saved.failure, seen.window or 0
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

    async def _prepared(self, request: Request, status: Status, note: str) -> PreparedRequest:
        name = self._chosen()
        history = self._transcript.history
        if name is None:
            inputs, covered = list(history.inputs), 0
            window, trigger = request.window, None
        else:
            view = self._view(self.registry.get(name), request)
            inputs, covered = await self.registry.get(name).project(view)
            window, trigger = view.window, view.trigger
        every = (*request.context, *inputs)
        context = sum([one.tokens for one in request.context])
        tokens = request.reserved + sum([one.tokens for one in every])
        observation = ContextObservation(
            session=self.session,
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

    # ---------------------------------------------------------------------------------------------- compacting

    async def _compact(
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
            await self._read()
            book, base = _Book(self, strategy, request), self._saved.head(strategy.name)
            work = SessionWork(book, strategy.name, base, self._summarizer, self._timeout, progress)
            saved = await strategy.compact(self._view(strategy, request), work, force=force)
            done = done or saved or work.overtaken
            # When it was asked for, somebody else's compaction, just now, is as good.
            if not work.overtaken or force or await self._below(request):
                break
        return done

    async def _below(self, request: Request) -> bool:
        await self._read()
        seen = (await self._prepared(request, "idle", "")).observation
        return seen.trigger is None or seen.tokens < seen.trigger

    async def _note_failure(
        self, strategy: CompactionStrategy, kind: Literal["summary", "stalled", "left"], tokens: int, reason: str
    ) -> None:
        rows = self._transcript.history.rows
        event = Failed(strategy.name, kind, tokens, rows[-1].seq if rows else -1, reason[:500])
        try:
            await self._append(event)
        except LaserError as error:
            # The failure itself is what the caller must learn of.
            _logger.warning("session %s: a failed compaction was not noted: %s", self.session, error)

    def __repr__(self) -> str:
        return f"Compaction({self.session!r})"


class _Book:
    """Where the records of one strategy go."""

    def __init__(self, compaction: Compaction, strategy: CompactionStrategy, request: Request) -> None:
        self._compaction = compaction
        self._strategy = strategy
        self._request = request

    async def record(self, saved: Saved) -> CompactionView | None:
        """Writes a record: the session as it is then, or ``None`` when the record counts for nothing."""
        counts = await self._compaction._append(saved)
        await self._compaction._read()
        return self._compaction._view(self._strategy, self._request) if counts else None


def _with(found: PreparedRequest, status: Status, note: str) -> PreparedRequest:
    observation = msgspec.structs.replace(found.observation, status=status, note=note)
    return PreparedRequest(found.inputs, observation)
