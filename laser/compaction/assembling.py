"""From what summaries stand for to the inputs of a request. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from laser.compaction.inputs import PreparedInput, shown
from laser.compaction.rows import stub_row
from laser.compaction.view import CompactionView

__all__ = ["assemble"]


def assemble(
    view: CompactionView,
    covered: bytes | bytearray,
    summaries: Mapping[int, Sequence[PreparedInput]],
    stubs: Collection[int] = (),
) -> tuple[list[PreparedInput], int]:
    """The inputs after the caller's context: instructions among what is folded first, then summaries and rows by place.

    Args:
        covered: by the place of a row, whether a summary stands for it. summaries: by the place where they stand.
        stubs: seqs of rows whose results are left out.

    Returns:
        The inputs, and how many rows are covered.
    """
    rows = view.history.rows
    # Behind the last row that is covered everything is tail.
    boundary = bytes(covered).rfind(1) + 1
    inputs = [shown(row, "instruction") for row in rows[:boundary] if row.pinned]
    at = 0
    count = 0
    for place in range(boundary):
        if place in summaries:
            inputs += summaries[place]
        if covered[place]:
            count += 1
        elif not rows[place].pinned:
            inputs.append(shown(rows[place], "held"))
        at = place + 1
    for place in sorted(place for place in summaries if place >= at):
        inputs += summaries[place]
    inputs += view.history.inputs[boundary:]
    if stubs:
        inputs = [_stubbed(view, one) if one.source and one.source.seq in stubs else one for one in inputs]
    return inputs, count


def _stubbed(view: CompactionView, one: PreparedInput) -> PreparedInput:
    assert one.source is not None
    key = "stub", one.source.seq
    if key not in view.memo:
        place = view.history.place(one.source.seq)
        stub = stub_row(view.history.rows[place], view.estimator)
        view.memo[key] = one if stub is None else PreparedInput(stub.payload, stub.tokens, "stub", one.source)
    found: PreparedInput = view.memo[key]
    return found
