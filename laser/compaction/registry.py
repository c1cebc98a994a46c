"""Which strategies there are, which one a session begins with, and which folds others may read."""

from __future__ import annotations

from collections.abc import Sequence

from laser.compaction.lcm.folds import LcmFolds
from laser.compaction.lcm.strategy import Lcm
from laser.compaction.prior import FoldProvider
from laser.compaction.rolling import Rolling
from laser.compaction.snapcompact.archive import ArchiveFolds
from laser.compaction.snapcompact.strategy import Snapcompact
from laser.compaction.strategy import CompactionStrategy
from laser.errors import InvalidError, NotFoundError
from laser.limits import MAX_ENTRY_KEY_BYTES

__all__ = ["StrategyRegistry"]


class StrategyRegistry:
    """Strategies by name. A session has one at a time, or none.

    Args:
        strategies: in the order in which they are listed; ``None`` for ``rolling``, ``lcm`` and
            ``snapcompact`` with their defaults.
        default: the strategy of a session that nobody chose one for; ``None`` for none. A choice that was made stays,
            whatever the default becomes.
        providers: of stored folds, in the order in which they are asked; ``None`` for those of ``lcm``,
            then the archive of ``snapcompact``.

    Raises:
        InvalidError: no strategies, a name twice, or a default that is not among them.
    """

    def __init__(
        self,
        strategies: Sequence[CompactionStrategy] | None = None,
        *,
        default: str | None = "rolling",
        providers: Sequence[FoldProvider] | None = None,
    ) -> None:
        chosen = (Rolling(), Lcm(), Snapcompact()) if strategies is None else tuple(strategies)
        self._strategies: dict[str, CompactionStrategy] = {}
        for strategy in chosen:
            if not isinstance(strategy, CompactionStrategy):
                raise InvalidError(
                    f"strategies: {type(strategy).__name__} is no CompactionStrategy: it needs name, limits, project "
                    "and compact",
                    argument="strategies",
                )
            name = strategy.name
            if not isinstance(name, str) or not 1 <= len(name.encode("utf-8", "replace")) <= MAX_ENTRY_KEY_BYTES:
                raise InvalidError(
                    f"strategies: {name!r:.40} is not a name of 1 to {MAX_ENTRY_KEY_BYTES} bytes", argument="strategies"
                )
            if name in self._strategies:
                raise InvalidError(f"strategies: {name!r} stands twice", argument="strategies")
            self._strategies[name] = strategy
        if default is not None and default not in self._strategies:
            raise InvalidError(f"default: {default!r} is not among {', '.join(self._strategies)}", argument="default")
        self.default = default
        self.providers: tuple[FoldProvider, ...] = (
            (LcmFolds(), ArchiveFolds()) if providers is None else tuple(providers)
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the strategies."""
        return tuple(self._strategies)

    def get(self, name: str) -> CompactionStrategy:
        """A strategy by its name.

        Raises:
            NotFoundError: there is none of this name.
        """
        try:
            return self._strategies[name]
        except (KeyError, TypeError):
            raise NotFoundError(
                f"strategy {name!r:.60} is not here; there are: {', '.join(self._strategies) or 'none'}"
            ) from None

    def __repr__(self) -> str:
        return f"StrategyRegistry({', '.join(self._strategies)}, default={self.default!r})"
