"""What summaries stand for in a session, by the places of its messages on the log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from laser.compaction.inputs import InputKind, PreparedInput
from laser.compaction.rows import Row

__all__ = ["NO_COVERAGE", "Coverage", "coverage_of"]

_STANDING: Final[frozenset[InputKind]] = frozenset({"fold", "summary", "recap", "frame"})


class Coverage(msgspec.Struct, frozen=True):
    """What a request shows in the place of older messages. For readers of a session that lay it out themselves.

    Attributes:
        inputs: that stand for messages, in the order in which a model gets them.
        spans: of the messages that they stand for, by partition of ``agent.sessions``: offsets, first and last.
        stubs: messages with a result that is left out, by partition and offset: as they are shown.
        last: partition and offset of the newest of those messages; ``None`` where there are none.
    """

    inputs: tuple[PreparedInput, ...] = ()
    spans: Mapping[int, tuple[tuple[int, int], ...]] = {}
    stubs: Mapping[tuple[int, int], bytes] = {}
    last: tuple[int, int] | None = None

    def covers(self, partition: int, offset: int) -> bool:
        """Whether they stand for the message at a place."""
        spans = self.spans.get(partition, ())
        at = bisect_right(spans, (offset, 1 << 63)) - 1
        return at >= 0 and offset <= spans[at][1]


NO_COVERAGE: Final = Coverage()
"""Of a session in which nothing is summarised."""


def coverage_of(inputs: Iterable[PreparedInput], rows: Sequence[Row], places: Sequence[tuple[int, int]]) -> Coverage:
    """The coverage of what a strategy projects.

    Args:
        rows: of the transcript. places: partition and offset of each.
    """
    standing: list[PreparedInput] = []
    shown: dict[int, PreparedInput] = {}
    for one in inputs:
        if one.source is not None:
            shown[one.source.seq] = one
        elif one.kind in _STANDING:
            standing.append(one)
    spans: dict[int, list[tuple[int, int]]] = {}
    stubs: dict[tuple[int, int], bytes] = {}
    last: tuple[int, int] | None = None
    goes_on = False
    for row, (partition, offset) in zip(rows, places, strict=True):
        found = shown.get(row.seq)
        if found is not None:
            goes_on = False
            if found.kind == "stub":
                stubs[partition, offset] = found.payload
            continue
        held = spans.setdefault(partition, [])
        if goes_on and last is not None and last[0] == partition:
            held[-1] = held[-1][0], offset
        else:
            held.append((offset, offset))
        last, goes_on = (partition, offset), True
    return Coverage(tuple(standing), {name: tuple(sorted(held)) for name, held in spans.items()}, stubs, last)
