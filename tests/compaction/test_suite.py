"""The shipped suite, over the strategies that laser brings."""

from __future__ import annotations

from laser.compaction.lcm.strategy import Lcm
from laser.compaction.requests import Request
from laser.compaction.rolling import Rolling
from laser.compaction.snapcompact.strategy import Snapcompact
from laser.compaction.strategy import CompactionStrategy
from laser.testing import CompactionConformance


class TestRolling(CompactionConformance):
    def make_strategy(self, *, trigger_percent: int = 90, tail_percent: int = 25) -> CompactionStrategy:
        return Rolling(trigger_percent=trigger_percent, tail_percent=tail_percent)


class TestLcm(CompactionConformance):
    def make_strategy(self, *, trigger_percent: int = 90, tail_percent: int = 25) -> CompactionStrategy:
        return Lcm(trigger_percent=trigger_percent, tail_percent=tail_percent)


class TestSnapcompact(CompactionConformance):
    summarizes = False

    def make_strategy(self, *, trigger_percent: int = 90, tail_percent: int = 25) -> CompactionStrategy:
        return Snapcompact(trigger_percent=trigger_percent, tail_percent=tail_percent)


class WithoutImages(Snapcompact):
    """For models that read no images, whatever the request says."""

    def summarizes(self, request: Request) -> bool:
        return True


class TestSnapcompactAsText(CompactionConformance):
    def make_strategy(self, *, trigger_percent: int = 90, tail_percent: int = 25) -> CompactionStrategy:
        return WithoutImages(trigger_percent=trigger_percent, tail_percent=tail_percent)
