"""A session as a strategy sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from laser.compaction.events import Saved
from laser.compaction.prior import FoldProvider, Prior, prior
from laser.compaction.requests import Request
from laser.compaction.rows import Row, tokens_of
from laser.compaction.sizes import Estimator
from laser.compaction.transcript import History

if TYPE_CHECKING:
    from laser.compaction.strategy import CompactionStrategy

__all__ = ["CompactionView"]

_CHUNK_TOKENS: Final = 32_000
_SUMMARY_TOKENS: Final = 2_000
_LEAST_SUMMARY: Final = 48


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
