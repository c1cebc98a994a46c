"""Writing and polling through the public API while faults strike, and asking what the history shows."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from typing import Any

import anyio

import laser as ls
from laser.testing.history import HistoryRecorder, HistoryReport, Operation, Seen, check_history

TOPIC = "events"
PARTITIONS = 4
KEYS = [ls.derive_conversation_id(f"survive {number}") for number in range(12)]


class Campaign:
    """Tasks of one client that append until they know, poll, and note it all.

    Attributes:
        acknowledged_at: monotonic seconds of each acknowledged append. longest: the longest call, seconds.
        errors: by type, how often a call ended with it. strange: errors that are not laser's own.
    """

    def __init__(self, laser: ls.Laser, seed: int, *, patience: float = 60.0) -> None:
        self.laser = laser
        self.seed = seed
        self.patience = patience
        self.recorders: list[HistoryRecorder] = []
        self.acknowledged_at: list[float] = []
        self.longest = 0.0
        self.calls = 0
        self.errors: dict[str, int] = {}
        self.strange: list[str] = []
        self.stopped = False

    async def write(self, name: str, pause: float = 0.0) -> None:
        """Appends to random conversations until stopped. In doubt it does what the documentation says."""
        recorder = self._recorder(name)
        rng = random.Random(f"{self.seed} {name}")
        number = 0
        while not self.stopped:
            scope = self.laser.context(rng.choice(KEYS))
            value = f"{name}-{number}"
            number += 1
            operation = recorder.append(scope.conversation, value)
            await self._append(scope, recorder, operation, value)
            if pause:
                await anyio.sleep(rng.random() * pause)

    async def _append(
        self, scope: ls.ContextScope, recorder: HistoryRecorder, operation: Operation, value: str
    ) -> None:
        record_id: int | None = None
        give_up = time.monotonic() + self.patience
        while True:
            began = time.monotonic()
            try:
                receipt = await scope.append(TOPIC, value, id=record_id)
            except ls.AppendIndeterminateError as error:
                self._note(began, error)
                record_id = error.record_ids[0]
            except Exception as error:
                self._note(began, error)
                if record_id is None:
                    recorder.failed(operation)
                    return
            else:
                self._note(began, None)
                recorder.acknowledged(operation, receipt.partition, receipt.offset)
                self.acknowledged_at.append(time.monotonic())
                return
            if time.monotonic() > give_up:
                recorder.indeterminate(operation)
                return
            await anyio.sleep(0.01)

    async def fetch(self, pause: float = 0.01) -> None:
        """Fetches random conversations until stopped."""
        rng = random.Random(f"{self.seed} fetch")
        while not self.stopped:
            began = time.monotonic()
            try:
                await self.laser.context(rng.choice(KEYS)).fetch(topics=[TOPIC])
            except Exception as error:
                self._note(began, error)
            else:
                self._note(began, None)
            await anyio.sleep(pause)

    async def poll(self, name: str) -> None:
        """Reads every partition from its beginning on, page by page, until stopped."""
        recorder = self._recorder(name)
        ends: dict[int, int] = {}
        log = self.laser.open_log()
        while not self.stopped:
            for partition in range(PARTITIONS):
                began, started = time.monotonic(), time.monotonic_ns()
                try:
                    page = await log.read(self.laser.stream, TOPIC, partition, start=ends.get(partition, 0), limit=200)
                except Exception as error:
                    self._note(began, error)
                    continue
                recorder.polled(started, _seen(partition, page.records))
                ends[partition] = page.next
            await anyio.sleep(0.01)

    @property
    def operations(self) -> list[Operation]:
        """Everything that was done."""
        return [operation for recorder in self.recorders for operation in recorder.operations]

    def _recorder(self, name: str) -> HistoryRecorder:
        self.recorders.append(HistoryRecorder(name))
        return self.recorders[-1]

    def _note(self, began: float, error: Exception | None) -> None:
        self.calls += 1
        self.longest = max(self.longest, time.monotonic() - began)
        if error is not None:
            kind = type(error).__name__
            self.errors[kind] = self.errors.get(kind, 0) + 1
            if not isinstance(error, ls.LaserError):
                self.strange.append(f"{kind}: {error}")


async def judge(laser: ls.Laser, operations: Sequence[Operation]) -> HistoryReport:
    """What a history shows, now that all is quiet."""
    return check_history(operations, await everything(laser), await visible(laser))


def after_a_cut(operations: Iterable[Operation], raw: Sequence[Seen]) -> tuple[int, int]:
    """How many acknowledged records are gone, and how much of what is left is not a whole beginning of a partition."""
    there = {(one.partition, one.offset): one.value for one in raw}
    lost = torn = 0
    for partition in range(PARTITIONS):
        offsets = [one.offset for one in raw if one.partition == partition]
        torn += offsets != list(range(len(offsets)))
    for one in operations:
        if one.outcome != "acknowledged":
            continue
        value = there.get((one.partition, one.offset))
        lost += value != one.value
        # Another record in its place is more than a missing end.
        torn += value not in (None, one.value)
    return lost, torn


async def everything(laser: ls.Laser) -> list[Seen]:
    """Every raw record of the topic."""
    log, found = laser.open_log(), list[Seen]()
    for partition in range(PARTITIONS):
        start = 0
        while True:
            page = await log.read(laser.stream, TOPIC, partition, start=start, limit=5_000)
            found += _seen(partition, page.records)
            start = page.next
            if start >= page.end:
                break
    return found


async def visible(laser: ls.Laser, keys: Sequence[str] = KEYS) -> list[str]:
    """What users see of the conversations: folds of the whole range, so that no window cuts it short."""

    def collect(texts: list[str], message: ls.ContextMessage) -> list[str]:
        texts.append(message.text)
        return texts

    found: list[str] = []
    for key in keys:
        found += await laser.context(key).state([TOPIC], [], collect, full=True)
    return found


def summary(report: HistoryReport) -> dict[str, Any]:
    """The report as figures for the table: how much was done, and what must be 0."""
    counts = report.counts
    return {
        "acknowledged": report.acknowledged,
        "in doubt": report.indeterminate,
        "polls": report.polls,
        "acknowledged but lost": counts["lost"] + counts["moved"],
        "visible duplicates": counts["visible_copies"],
        "silent skips": counts["poll_skip"] + counts["gap"],
        "other findings": sum(
            counts[kind] for kind in ("two_values", "failed_read", "unknown_read", "poll_back", "inversion")
        ),
    }


MUST_BE_ZERO = ("acknowledged but lost", "visible duplicates", "silent skips", "other findings")


def _seen(partition: int, records: Iterable[Any]) -> list[Seen]:
    return [Seen(partition, record.offset, record.payload.decode()) for record in records]
