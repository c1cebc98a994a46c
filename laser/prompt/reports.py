"""What providers report beside their fragments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from laser.prompt.fragments import Fragment

__all__ = ["HistoryFragments", "HistoryReport", "ProviderStatus"]

ProviderStatus = Literal["ok", "empty", "late", "failed", "flooded", "not_applicable", "not_allowed"]
"""How a provider fared. ``flooded``: it gave more than ``MAX_PROVIDER_CHARS`` or ``MAX_PROVIDER_FRAGMENTS``."""


class HistoryReport(msgspec.Struct, frozen=True):
    """What became of the stored history.

    Attributes:
        messages: read. shown: given to the prompt. summarised: that the conversation summary stands for.
        dropped: trimmed away. cleared: tool results that stand as a digest. repeated: as a back-reference.
        repaired: shown with their ``context_content``. unpaired: left out because their pair is broken.
        trims: how often the history was trimmed so far. skipped: records that could not be decoded.
    """

    messages: int = 0
    shown: int = 0
    summarised: int = 0
    dropped: int = 0
    cleared: int = 0
    repeated: int = 0
    repaired: int = 0
    unpaired: int = 0
    trims: int = 0
    skipped: int = 0


class HistoryFragments(list[Fragment]):
    """Fragments of a history, with what became of it."""

    def __init__(self, fragments: Iterable[Fragment], report: HistoryReport) -> None:
        super().__init__(fragments)
        self.report = report
