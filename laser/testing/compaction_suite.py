"""The conformance suite of compaction strategies."""

from __future__ import annotations

from laser.testing.compaction_cases.failing import FailingCases
from laser.testing.compaction_cases.folding import FoldingCases
from laser.testing.compaction_cases.large import LargeCases
from laser.testing.compaction_cases.together import TogetherCases

__all__ = ["CompactionConformance"]


class CompactionConformance(FoldingCases, LargeCases, FailingCases, TogetherCases):
    """Tests that a ``CompactionStrategy`` of your own loses nothing, shows nothing twice, and keeps its window.

    Make a subclass whose name begins with ``Test``, say how to make your strategy, and run pytest with anyio's plugin::

        from laser.testing import CompactionConformance


        class TestMyStrategy(CompactionConformance):
            def make_strategy(self, *, trigger_percent=90, tail_percent=25):
                return MyStrategy(trigger_percent=trigger_percent, tail_percent=tail_percent)

    Everything runs in this process, on a log in memory, with a summarizer that always gives the same short accounts.

    A subclass may also set:

    - ``summarizes = False``: the strategy asks no summarizer; cases about failing ones are skipped.
    - ``providers``: the registry's providers of stored folds.
    - ``others()``: strategies that stand beside it in the registry.
    """
