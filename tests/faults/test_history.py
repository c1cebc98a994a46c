"""The history checker: clean on a clean history, and each planted bug is caught as what it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from laser.testing.history import HistoryRecorder, Operation, Seen, check_history

History = tuple[list[Operation], list[Seen], list[str]]


def sound() -> History:
    """Two processes append to two keys and poll; one append was refused, one left in doubt and there."""
    one, two = HistoryRecorder("one"), HistoryRecorder("two")
    raw: list[Seen] = []
    for number in range(6):
        recorder = (one, two)[number % 2]
        operation = recorder.append("a" if number < 4 else "b", f"v{number}")
        partition = 0 if number < 4 else 1
        offset = number if number < 4 else number - 4
        recorder.acknowledged(operation, partition, offset)
        raw.append(Seen(partition, offset, f"v{number}"))
    two.failed(two.append("a", "refused"))
    one.indeterminate(one.append("a", "doubt"))
    raw.append(Seen(0, 4, "doubt"))
    for recorder in (one, two):
        recorder.polled(0, [seen for seen in raw if seen.partition == 0][:2])
        recorder.polled(0, [seen for seen in raw if seen.partition == 0][2:])
    return HistoryRecorder.load(one.dump()) + two.operations, raw, [seen.value for seen in raw]


def test_a_sound_history_is_clean() -> None:
    operations, raw, visible = sound()
    report = check_history(operations, raw, visible)
    assert report.clean, report.examples
    assert (report.appends, report.acknowledged, report.indeterminate, report.failed) == (8, 6, 1, 1)
    assert report.as_dict()["polls"] == 4


def lose(operations: list[Operation], raw: list[Seen], visible: list[str]) -> None:
    raw.remove(Seen(1, 1, "v5"))
    visible.remove("v5")


def move(operations: list[Operation], raw: list[Seen], visible: list[str]) -> None:
    raw[raw.index(Seen(1, 1, "v5"))] = Seen(2, 0, "v5")


def overwrite(operations: list[Operation], raw: list[Seen], visible: list[str]) -> None:
    raw.append(Seen(1, 1, "v4"))


def show_twice(operations: list[Operation], raw: list[Seen], visible: list[str]) -> None:
    raw.append(Seen(1, 2, "v5"))
    visible.append("v5")


def show_failed(operations: list[Operation], raw: list[Seen], visible: list[str]) -> None:
    visible.append("refused")


def show_unknown(operations: list[Operation], raw: list[Seen], visible: list[str]) -> None:
    raw.append(Seen(1, 2, "from nowhere"))


def go_back(operations: list[Operation], raw: list[Seen], visible: list[str]) -> None:
    operations.append(Operation("one", "poll", 0, 1, seen=[Seen(0, 4, "doubt")]))


def skip(operations: list[Operation], raw: list[Seen], visible: list[str]) -> None:
    operations.append(Operation("new", "poll", 0, 1, seen=[Seen(0, 0, "v0"), Seen(0, 2, "v2")]))


def punch_a_hole(operations: list[Operation], raw: list[Seen], visible: list[str]) -> None:
    for operation in operations:
        if operation.value == "v2":
            operation.outcome = "indeterminate"
    raw.remove(Seen(0, 2, "v2"))
    visible.remove("v2")


def invert(operations: list[Operation], raw: list[Seen], visible: list[str]) -> None:
    first, second = (next(one for one in operations if one.value == value) for value in ("v0", "v2"))
    first.offset, second.offset = 2, 0
    raw[raw.index(Seen(0, 0, "v0"))] = Seen(0, 0, "v2")
    raw[raw.index(Seen(0, 2, "v2"))] = Seen(0, 2, "v0")
    for operation in operations:
        operation.seen = []


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (lose, "lost"),
        (move, "moved"),
        (overwrite, "two_values"),
        (show_twice, "visible_copies"),
        (show_failed, "failed_read"),
        (show_unknown, "unknown_read"),
        (go_back, "poll_back"),
        (skip, "poll_skip"),
        (punch_a_hole, "gap"),
        (invert, "inversion"),
    ],
)
def test_each_planted_bug_is_caught(plant: Callable[[list[Operation], list[Seen], list[str]], None], kind: str) -> None:
    operations, raw, visible = sound()
    plant(operations, raw, visible)
    report = check_history(operations, raw, visible)
    assert report.counts[kind] == 1, report.counts
    assert any(finding.kind == kind for finding in report.examples)
    assert not report.clean
