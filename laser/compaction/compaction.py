"""The compaction of one session: prepared requests, and the strategy that makes them small enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import anyio
import msgspec

from laser.compaction.coverage import NO_COVERAGE, Coverage, coverage_of
from laser.compaction.inputs import ContextObservation, PreparedInput, PreparedRequest, Status
from laser.compaction.lcm.tools import LcmTools
from laser.compaction.looking import SessionLook
from laser.compaction.preparing import Preparing
from laser.compaction.registry import StrategyRegistry
from laser.compaction.requests import check_estimator, check_tokens, make_request
from laser.compaction.saved import CompactionStep
from laser.compaction.sizes import Estimator
from laser.compaction.snapcompact.tools import TranscriptTools
from laser.compaction.strategy import CompactionProgress, summarizes
from laser.compaction.work import check_timeout
from laser.context.connection import Connection
from laser.context.policies import check_count
from laser.errors import InvalidError, NotFoundError
from laser.model.checks import check_progress
from laser.model.ids import parse_conversation_id
from laser.model.transcript import SourceRef
from laser.ports.summarizer import Summarizer

__all__ = ["Compaction"]


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
        inherit: whether the first look at a fork takes along what its session's past was summarised to by ``lcm``,
            which writes to the fork. ``False`` for a handle that only looks.
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
        inherit: bool = True,
    ) -> None:
        if summarizer is not None and not isinstance(summarizer, Summarizer):
            raise InvalidError(
                f"summarizer: {type(summarizer).__name__} has no method summarize(request)", argument="summarizer"
            )
        if registry is not None and not isinstance(registry, StrategyRegistry):
            raise InvalidError(
                f"registry: expected a StrategyRegistry, got {type(registry).__name__}", argument="registry"
            )
        if repairs is not None and not isinstance(repairs, Mapping):
            raise InvalidError(
                f"repairs: expected a mapping from a message's place to its text, got {type(repairs).__name__}",
                argument="repairs",
            )
        seconds = check_timeout(timeout)
        self.session = parse_conversation_id(session)
        self.registry = registry or StrategyRegistry()
        self._summarizer = summarizer
        self._estimator = check_estimator(estimator)
        self._look = SessionLook(laser, self.session, self.registry, self._estimator, agent, repairs, inherit)
        self._preparing = Preparing(self._look, summarizer, seconds)
        # One compaction at a time, which may take minutes.
        self._lock = anyio.Lock()
        self.lcm = LcmTools(self._look.for_tools)
        self.transcript = TranscriptTools(self.lcm)

    async def strategy(self) -> str | None:
        """The name of the session's strategy: the one that was chosen, else the registry's default."""
        return await self._look.current()

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
            await self._look.switch(strategy)

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
        request = make_request(self._estimator, window, reserve, context, images, provider)
        async with self._lock:
            return await self._preparing.prepare(request, compact=True)

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
        request = make_request(self._estimator, window, reserve, context, images, provider)
        return (await self._preparing.prepare(request, compact=False)).observation

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
        return await self._preparing.prepare(
            make_request(self._estimator, window, reserve, context, images, provider), compact=False
        )

    async def coverage(
        self, *, window: int | None = None, images: bool | None = None, provider: str | None = None
    ) -> Coverage:
        """What stands for older messages as things are, for a reader that lays the session out itself.

        Nothing is compacted. Arguments as of ``prepare``.
        """
        request = make_request(self._estimator, window, 0, (), images, provider)
        await self._look.read()
        name = self._look.chosen()
        if name is None:
            return NO_COVERAGE
        strategy = self.registry.get(name)
        places = self._look.transcript.places
        view = self._look.view(strategy, request)
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
        request = make_request(self._estimator, window, reserve, context, images, provider)
        if keep_last is not None:
            check_count(keep_last, "keep_last")
        if summary_tokens is not None:
            check_tokens(summary_tokens, "summary_tokens", least=1)
        check_progress(progress)
        request = msgspec.structs.replace(request, keep_last=keep_last, summary_tokens=summary_tokens)
        if strategy is not None:
            self.registry.get(strategy)
        async with self._lock:
            current = await self._look.current()
            name = current if strategy is None else strategy
            if name is None:
                raise InvalidError("strategy: the session has none; name one", argument="strategy")
            if self._summarizer is None and summarizes(self.registry.get(name), request):
                raise InvalidError(f"summarizer: none was given, and {name} needs one", argument="summarizer")
            if name != current:
                await self._look.switch(name)
            done = await self._preparing.compact(self.registry.get(name), request, progress, force=True)
            status: Status = "compacted" if done else "nothing_to_fold"
            return (await self._preparing.prepared(request, status, "")).observation

    async def sources(self) -> tuple[PreparedInput, ...]:
        """The messages that the log still holds, oldest first, each with its ``source``, whatever requests show."""
        await self._look.read()
        return self._look.transcript.history.inputs

    async def source(self, ref: SourceRef) -> PreparedInput:
        """The message that a reference names.

        Args:
            ref: ``PreparedInput.source``, of this session.

        Raises:
            InvalidError: it is of another session. NotFoundError: the log does not hold the message any more.
        """
        if not isinstance(ref, SourceRef) or ref.session != self.session:
            raise InvalidError(f"ref: {ref!r:.80} is no reference into session {self.session}", argument="ref")
        await self._look.read()
        history = self._look.transcript.history
        if not history.between(ref.seq, ref.seq):
            raise NotFoundError(f"row {ref.seq} of session {self.session} is not on the log (any more)")
        return history.inputs[history.place(ref.seq)]

    async def steps(self) -> list[CompactionStep]:
        """What was done to the session so far, oldest first."""
        await self._look.read()
        return list(self._look.saved.steps)

    def __repr__(self) -> str:
        return f"Compaction({self.session!r})"
