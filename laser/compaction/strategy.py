"""The port of compaction strategies, and what they work with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from laser.compaction.events import Saved
from laser.compaction.inputs import PreparedInput
from laser.compaction.prior import FoldProvider, Prior, prior
from laser.compaction.rows import Row, tokens_of
from laser.compaction.sizes import Estimator
from laser.compaction.transcript import History
from laser.errors import BudgetError, InvalidError
from laser.ports.summarizer import Summary, SummaryRequest

__all__ = [
    "CompactionLimits",
    "CompactionProgress",
    "Request",
    "CompactionStrategy",
    "CompactionView",
    "CompactionWork",
    "check_tokens",
    "summarizes",
]

_CHUNK_TOKENS: Final = 32_000
_SUMMARY_TOKENS: Final = 2_000
_LEAST_SUMMARY: Final = 48


class CompactionLimits(msgspec.Struct, frozen=True):
    """When a strategy compacts, and what it leaves.

    Attributes:
        trigger_percent: of the window, 1 to 100: a request that reaches it is compacted.
        tail_percent: of the window, 1 to 99 and below the trigger: what stays as it is, about.
        window: tokens; ``None`` takes the window that the caller names for its model.

    Raises:
        InvalidError: a value out of its range.
    """

    trigger_percent: int = 90
    tail_percent: int = 25
    window: int | None = None

    def __post_init__(self) -> None:
        for name, low, high in (("trigger_percent", 1, 100), ("tail_percent", 1, 99)):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise InvalidError(f"{name}: {value!r} is not a whole number from {low} to {high}", argument=name)
        if self.tail_percent >= self.trigger_percent:
            raise InvalidError(
                f"tail_percent: {self.tail_percent} is not below trigger_percent {self.trigger_percent}",
                argument="tail_percent",
            )
        if self.window is not None:
            check_tokens(self.window, "window", least=1)


class CompactionProgress(msgspec.Struct, frozen=True):
    """How far a compaction is.

    Attributes:
        strategy: whose. done, total: tokens of the history that is being summarised. summaries: made so far.
    """

    strategy: str
    done: int
    total: int
    summaries: int


class Request(msgspec.Struct, frozen=True):
    """What the caller knows of the model call.

    Attributes:
        window: tokens of the model's window, ``None`` unknown. reserved: tokens to keep for what is no input.
        context: inputs that come first and are never compacted.
        images: whether the model reads images, ``None`` unknown. provider: its provider's name.
        keep_last: messages that stay as they are, at least, in the place of the tail's share of the window.
        summary_tokens: how long a summary may become, at most; ``None`` leaves it to the window.
    """

    window: int | None = None
    reserved: int = 0
    context: tuple[PreparedInput, ...] = ()
    images: bool | None = None
    provider: str | None = None
    keep_last: int | None = None
    summary_tokens: int | None = None


class CompactionView:
    """A session at some moment, as a strategy sees it. Not to be changed.

    Attributes:
        session: its id. strategy: the name of the one that looks. history: the transcript. request: as asked for.
        window: tokens, the strategy's own setting before the request's; ``None`` unknown.
        limits: of the strategy. memo: what the strategy remembers of this session between looks, in this process.
    """

    def __init__(
        self,
        session: str,
        strategy: CompactionStrategy,
        history: History,
        records: Callable[[str], Sequence[Saved]],
        request: Request,
        providers: Sequence[FoldProvider],
        estimator: Estimator,
        memo: dict[Any, Any],
    ) -> None:
        self.session = session
        self.strategy = strategy.name
        self.limits = strategy.limits
        self.history = history
        self.request = request
        self.window = self.limits.window or request.window
        self.estimator = estimator
        self.memo = memo
        self._owner = strategy
        self._records = records
        self._providers = providers

    @property
    def own(self) -> Sequence[msgspec.Raw]:
        """The states that the strategy saved and that count, oldest first."""
        return self.saved(self.strategy)

    def saved(self, strategy: str) -> Sequence[msgspec.Raw]:
        """The states that any strategy saved and that count, oldest first."""
        return [record.state for record in self._records(strategy)]

    def ids(self, strategy: str) -> Sequence[str]:
        """The names of these records."""
        return [record.id for record in self._records(strategy)]

    def between(self, first: int, last: int) -> Sequence[Row]:
        """The rows between two places of the transcript, both included."""
        return self.history.between(first, last)

    @property
    def floor(self) -> int:
        """Rows before this place are gone from the log."""
        return self.history.floor

    @property
    def has_prior(self) -> bool:
        """Whether any other strategy's folds can be there."""
        return any(one.owner != self.strategy and self._records(one.owner) for one in self._providers)

    def prior(self, history: Sequence[Row]) -> Prior:
        """What other strategies stored of a history, and the rest of it."""
        return prior(self._providers, self.strategy, self, history)

    def with_state(self, state: msgspec.Raw) -> CompactionView:
        """This view as it would be with one more state saved."""
        record = Saved("candidate", self.strategy, None, state)

        def records(name: str) -> Sequence[Saved]:
            saved = self._records(name)
            return [*saved, record] if name == self.strategy else saved

        return CompactionView(
            self.session,
            self._owner,
            self.history,
            records,
            self.request,
            self._providers,
            self.estimator,
            dict(self.memo),
        )

    def lent_to(self, strategy: CompactionStrategy, states: Sequence[tuple[str, msgspec.Raw]]) -> CompactionView:
        """This view as another strategy sees it that works in this one's place.

        Args:
            states: what it kept, by names of records; they stand in place of what is saved under its name.
        """
        lent = [Saved(name, strategy.name, None, state) for name, state in states]

        def records(name: str) -> Sequence[Saved]:
            return lent if name == strategy.name else self._records(name)

        return CompactionView(
            self.session,
            strategy,
            self.history,
            records,
            self.request,
            self._providers,
            self.estimator,
            self.memo,
        )

    @cached_property
    def fixed_tokens(self) -> int:
        """What cannot be made smaller: what is reserved, the caller's context, and the instructions."""
        context = sum(one.tokens for one in self.request.context)
        return self.request.reserved + context + sum([row.tokens for row in self.history.rows if row.pinned])

    @cached_property
    def full_tokens(self) -> int:
        """What the request with every row would cost."""
        context = sum(one.tokens for one in self.request.context)
        return self.request.reserved + context + tokens_of(self.history.rows)

    @property
    def trigger(self) -> int | None:
        """Tokens at which a request is compacted; ``None`` without a window."""
        return None if self.window is None else max(1, self.window * self.limits.trigger_percent // 100)

    @property
    def tail_tokens(self) -> int:
        """What the tail may cost: its share of the window, less where what is fixed leaves less below the trigger.

        Without a window, that share of the transcript.
        """
        if self.window is None or self.trigger is None:
            return self.full_tokens * self.limits.tail_percent // 100
        room = self.trigger - self.fixed_tokens - 2 * self.summary_tokens
        return max(0, min(self.window * self.limits.tail_percent // 100, room))

    @property
    def summary_tokens(self) -> int:
        """How long a summary of everything may become."""
        most = self.request.summary_tokens
        if self.window is None:
            return most or _SUMMARY_TOKENS
        found = max(_LEAST_SUMMARY, min(2 * _SUMMARY_TOKENS, self.window // 12))
        return found if most is None else min(found, most)

    @property
    def chunk_tokens(self) -> int:
        """How much a summarizer may be given at once, the summary that is carried included: half the window."""
        return _CHUNK_TOKENS if self.window is None else max(4 * _LEAST_SUMMARY, self.window // 2)


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


def check_tokens(value: object, argument: str, least: int = 0) -> int:
    """A count of tokens.

    Raises:
        BudgetError: it is none.
    """
    if type(value) is not int or value < least:
        raise BudgetError(f"{argument}: {value!r:.40} is not a whole number of tokens from {least}", argument=argument)
    return value
