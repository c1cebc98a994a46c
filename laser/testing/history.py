"""A history of what several processes did to a log, and a checker that finds what must never happen.

Modelled on the log workload of Jepsen. Record every append and poll with a ``HistoryRecorder`` (one a process; merge
them with ``load``), read everything back when the log is quiet, and give both to ``check_history``.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

__all__ = ["Finding", "HistoryRecorder", "HistoryReport", "Operation", "Outcome", "Seen", "check_history"]

Outcome = Literal["acknowledged", "indeterminate", "failed", "pending"]
"""``pending``: the process died, or was cancelled, before the call returned; as good as indeterminate."""

_MAX_EXAMPLES: Final = 20


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """A record as it was read: which value stood at which offset."""

    partition: int
    offset: int
    value: str


class Operation(msgspec.Struct):
    """One call.

    Attributes:
        process: who made it. kind: ``append`` or ``poll``. started, ended: monotonic nanoseconds.
        key, value: of an append; values are unique over the whole history.
        outcome, partition, offset: of an append. seen: of a poll, in the order of the answer.
    """

    process: str
    kind: Literal["append", "poll"]
    started: int
    ended: int = 0
    key: str = ""
    value: str = ""
    outcome: Outcome = "pending"
    partition: int = -1
    offset: int = -1
    seen: list[Seen] = []


class HistoryRecorder:
    """Notes the operations of one process.

    Args:
        process: a name that no other recorder of the run has.
    """

    def __init__(self, process: str) -> None:
        self._process = process
        self.operations: list[Operation] = []

    def append(self, key: str, value: str) -> Operation:
        """An append begins. Settle it with ``acknowledged``, ``indeterminate`` or ``failed``."""
        operation = Operation(self._process, "append", time.monotonic_ns(), key=key, value=value)
        self.operations.append(operation)
        return operation

    def acknowledged(self, operation: Operation, partition: int, offset: int) -> None:
        """The append returned."""
        operation.ended, operation.outcome = time.monotonic_ns(), "acknowledged"
        operation.partition, operation.offset = partition, offset

    def indeterminate(self, operation: Operation) -> None:
        """The append raised ``AppendIndeterminateError``, or was cancelled."""
        operation.ended, operation.outcome = time.monotonic_ns(), "indeterminate"

    def failed(self, operation: Operation) -> None:
        """The append raised another error: it is definitely not on the log."""
        operation.ended, operation.outcome = time.monotonic_ns(), "failed"

    def polled(self, started: int, seen: Iterable[Seen]) -> None:
        """A poll returned. ``started``: ``time.monotonic_ns()`` before it."""
        self.operations.append(Operation(self._process, "poll", started, time.monotonic_ns(), seen=list(seen)))

    def dump(self) -> bytes:
        """The operations as bytes, for another process to ``load``."""
        return msgspec.msgpack.encode(self.operations)

    @staticmethod
    def load(data: bytes) -> list[Operation]:
        """The operations that ``dump`` gave."""
        return msgspec.msgpack.decode(data, type=list[Operation])


class Finding(msgspec.Struct, frozen=True):
    """Something that must not happen: its kind, a key of ``HistoryReport.counts``, and what it was."""

    kind: str
    what: str


class HistoryReport(msgspec.Struct, frozen=True):
    """What a history shows.

    Attributes:
        appends, acknowledged, indeterminate, failed, polls: how many there were.
        counts: by kind, how often it was found:

            - ``lost``: acknowledged, and not there at the end;
            - ``moved``: acknowledged at one place, and found at another;
            - ``two_values``: one offset showed two values;
            - ``visible_copies``: one value at two offsets of what users see;
            - ``failed_read``: a value whose append definitely failed was read;
            - ``unknown_read``: a value that nobody appended was read;
            - ``poll_back``, ``poll_skip``: a poll went back, or left a known record out;
            - ``gap``: offsets of a partition that nobody saw between others that were;
            - ``inversion``: of two appends of one process and key, the later one got the smaller offset.
        raw_copies: one value at two raw offsets; allowed after an answer was lost.
        examples: some of the findings.
    """

    appends: int
    acknowledged: int
    indeterminate: int
    failed: int
    polls: int
    counts: Mapping[str, int]
    raw_copies: int
    examples: Sequence[Finding]

    @property
    def clean(self) -> bool:
        """Whether nothing was found that must not happen."""
        return not any(self.counts.values())

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


_KINDS: Final = (
    "lost",
    "moved",
    "two_values",
    "visible_copies",
    "failed_read",
    "unknown_read",
    "poll_back",
    "poll_skip",
    "gap",
    "inversion",
)


def check_history(operations: Sequence[Operation], raw: Sequence[Seen], visible: Sequence[str]) -> HistoryReport:
    """Checks a history against what is on the log when everything is quiet.

    Args:
        operations: of all processes. raw: every record of every partition at the end.
        visible: the values that a user reads at the end, of all keys.
    """
    check = _Check(operations, raw)
    check.final(raw, visible)
    check.polls(raw)
    check.order()
    appends = [operation for operation in operations if operation.kind == "append"]
    outcomes = Counter(operation.outcome for operation in appends)
    return HistoryReport(
        appends=len(appends),
        acknowledged=outcomes["acknowledged"],
        indeterminate=outcomes["indeterminate"] + outcomes["pending"],
        failed=outcomes["failed"],
        polls=len(operations) - len(appends),
        counts=check.counts,
        raw_copies=check.raw_copies,
        examples=tuple(check.examples),
    )


class _Check:
    def __init__(self, operations: Sequence[Operation], raw: Sequence[Seen]) -> None:
        self._operations = operations
        self._appends = {operation.value: operation for operation in operations if operation.kind == "append"}
        self._places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.counts = dict.fromkeys(_KINDS, 0)
        self.examples: list[Finding] = []
        self.raw_copies = 0
        for seen in raw:
            self._places[seen.value].append((seen.partition, seen.offset))

    def found(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        if len(self.examples) < _MAX_EXAMPLES:
            self.examples.append(Finding(kind, what))

    def final(self, raw: Sequence[Seen], visible: Sequence[str]) -> None:
        for value, append in self._appends.items():
            if append.outcome != "acknowledged":
                continue
            places = self._places.get(value, [])
            if not places:
                self.found("lost", f"{value}, acknowledged at {append.partition}:{append.offset}")
            elif (append.partition, append.offset) not in places:
                self.found("moved", f"{value}, acknowledged at {append.partition}:{append.offset}, is at {places}")
        self.raw_copies = sum(len(places) - 1 for places in self._places.values())
        counted: dict[str, int] = defaultdict(int)
        for value in visible:
            counted[value] += 1
        for value, times in counted.items():
            if times > 1:
                self.found("visible_copies", f"{value} is visible {times} times")
        self._values(raw, visible)
        self._offsets(raw)

    def polls(self, raw: Sequence[Seen]) -> None:
        values = {(seen.partition, seen.offset): seen.value for seen in raw}
        last: dict[tuple[str, int], int] = {}
        for operation in self._operations:
            if operation.kind != "poll":
                continue
            for seen in operation.seen:
                place = (seen.partition, seen.offset)
                if values.setdefault(place, seen.value) != seen.value:
                    self.found("two_values", f"{place} showed {values[place]} and {seen.value}")
                reader = (operation.process, seen.partition)
                before = last.get(reader)
                if before is not None and seen.offset <= before:
                    self.found("poll_back", f"{operation.process} read {place} after offset {before}")
                elif before is not None and seen.offset != before + 1:
                    self.found("poll_skip", f"{operation.process} read {place} right after offset {before}")
                last[reader] = seen.offset
            self._values(operation.seen, ())

    def order(self) -> None:
        last: dict[tuple[str, str, int], Operation] = {}
        for operation in self._operations:
            if operation.kind != "append" or operation.outcome != "acknowledged":
                continue
            key = (operation.process, operation.key, operation.partition)
            before = last.get(key)
            # Appends under way at once have no order among themselves.
            if before is not None and before.ended <= operation.started and operation.offset <= before.offset:
                self.found(
                    "inversion", f"{operation.value} at {operation.offset} after {before.value} at {before.offset}"
                )
            if before is None or operation.ended >= before.ended:
                last[key] = operation

    def _values(self, seen: Sequence[Seen], visible: Sequence[str]) -> None:
        for value in (*(one.value for one in seen), *visible):
            append = self._appends.get(value)
            if append is None:
                self.found("unknown_read", value)
            elif append.outcome == "failed":
                self.found("failed_read", value)

    def _offsets(self, raw: Sequence[Seen]) -> None:
        offsets: dict[int, set[int]] = defaultdict(set)
        values: dict[tuple[int, int], str] = {}
        for seen in raw:
            offsets[seen.partition].add(seen.offset)
            place = (seen.partition, seen.offset)
            if values.setdefault(place, seen.value) != seen.value:
                self.found("two_values", f"{place} showed {values[place]} and {seen.value}")
        for partition, there in offsets.items():
            missing = max(there) - min(there) + 1 - len(there)
            if missing:
                self.found("gap", f"partition {partition} lacks {missing} offsets between its first and its last")
