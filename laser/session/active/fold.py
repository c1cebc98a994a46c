"""The fold of an active context: one event after another, in the order of the log. Pure.

The log decides: an event that does not fit the state which its place on the log finds changes nothing. So of two edits
that saw the same revision the first one on the log wins, in every process and in every replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from laser.limits import MAX_SUPERSEDED_VERSIONS
from laser.session.active.entries import ContextEntry, NewEntry
from laser.session.active.events import (
    Add,
    CompactionCommitted,
    CompactionFailed,
    CompactionRequested,
    Edit,
    Edited,
    Event,
    Remove,
    RunFinished,
    RunStarted,
    Steered,
    TurnFinished,
    TurnStarted,
)
from laser.session.active.state import ActiveState, PendingCompaction, RunState, compactable, in_request_order

__all__ = ["ActiveFold", "Saved"]

_RUNNING: Final = "running"


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fold's state, to go on from."""

    entries: tuple[ContextEntry, ...] = ()
    revision: int = 0
    next_id: int = 1
    run: RunState | None = None
    runs: int = 0
    steering: tuple[NewEntry, ...] = ()
    pending: PendingCompaction | None = None


class ActiveFold:
    """A context that is being folded.

    Args:
        start: the state to go on from; ``None`` for the beginning.
    """

    def __init__(self, start: Saved | None = None) -> None:
        saved = start or Saved()
        self._entries = {entry.id: entry for entry in saved.entries}
        self._revision = saved.revision
        self._next_id = saved.next_id
        self._run = saved.run
        self._runs = saved.runs
        self._steering = list(saved.steering)
        self._pending = saved.pending

    def apply(self, event: Event) -> str | None:
        """Applies an event.

        Returns:
            ``None``, or why it changed nothing: its first word is ``conflict``, ``busy``, ``compacting``, ``absent`` or
            ``stale``.
        """
        if isinstance(event, Edited):
            return self._edit(event)
        if isinstance(event, TurnFinished):
            return self._finish_turn(event)
        if isinstance(event, TurnStarted):
            return self._start_turn(event)
        if isinstance(event, RunStarted):
            return self._start_run(event)
        if isinstance(event, Steered):
            self._steering.append(event.entry)
            return None
        if isinstance(event, RunFinished):
            return self._finish_run(event)
        if isinstance(event, CompactionRequested):
            return self._request(event)
        if isinstance(event, CompactionCommitted):
            return self._commit(event)
        return self._give_up(event)

    @property
    def revision(self) -> int:
        """The context's revision now."""
        return self._revision

    def state(self) -> ActiveState:
        """The context now."""
        entries = in_request_order(list(self._entries.values()))
        return ActiveState(self._revision, entries, self._run, self._runs, tuple(self._steering), self._pending)

    def save(self) -> Saved:
        """What a later fold can go on from."""
        return Saved(
            tuple(self._entries.values()),
            self._revision,
            self._next_id,
            self._run,
            self._runs,
            tuple(self._steering),
            self._pending,
        )

    # ------------------------------------------------------------------------------------------------ one event each

    def _edit(self, event: Edited) -> str | None:
        if self._pending is not None:
            return f"compacting: compaction {self._pending.request} is under way; edit again when it is through"
        if event.seen != self._revision:
            return f"conflict: the edit saw revision {event.seen}, the context is at {self._revision}"
        there = set(self._entries)
        for edit in event.edits:
            if not isinstance(edit, Add) and edit.id not in there:
                return f"absent: there is no entry {edit.id}"
            if isinstance(edit, Remove):
                there.discard(edit.id)
        self._revision += 1
        for edit in event.edits:
            self._apply_edit(edit)
        return None

    def _start_run(self, event: RunStarted) -> str | None:
        if self._pending is not None:
            return f"compacting: compaction {self._pending.request} is under way; start again when it is through"
        if self._run is not None and self._run.state == _RUNNING:
            return f"busy: run {self._run.id} is under way"
        self._run = RunState(event.run)
        self._runs += 1
        self._append(event.inputs, event.run)
        return None

    def _start_turn(self, event: TurnStarted) -> str | None:
        run = self._run
        if run is None or run.id != event.run or run.state != _RUNNING:
            return f"absent: run {event.run} is not under way"
        if run.turn is not None:
            return f"busy: turn {run.turn} is under way"
        steered, self._steering = self._steering, []
        self._append(steered, run.id)
        for entry in self._entries.values():
            if not entry.consumed:
                self._entries[entry.id] = msgspec.structs.replace(entry, consumed=True)
        self._run = msgspec.structs.replace(run, turn=event.turn, turns=run.turns + 1, revision=self._revision)
        return None

    def _finish_turn(self, event: TurnFinished) -> str | None:
        run = self._run
        if run is None or run.id != event.run or run.turn != event.turn:
            return f"stale: turn {event.turn} is not under way"
        usage = dict(run.usage)
        for name, count in event.usage.items():
            usage[name] = usage.get(name, 0) + count
        self._run = msgspec.structs.replace(run, turn=None, usage=usage)
        if event.complete:
            # What the model itself gave is no news to it.
            self._append(event.outputs, None, consumed=True)
        return None

    def _finish_run(self, event: RunFinished) -> str | None:
        run = self._run
        if run is None or run.id != event.run or run.state != _RUNNING:
            return f"absent: run {event.run} is not under way"
        self._run = msgspec.structs.replace(run, state=event.state, turn=None, output=event.output)
        gone = [entry.id for entry in self._entries.values() if entry.entry.run == run.id]
        if gone:
            self._revision += 1
        for entry_id in gone:
            del self._entries[entry_id]
        return None

    def _request(self, event: CompactionRequested) -> str | None:
        if self._pending is not None:
            return f"compacting: compaction {self._pending.request} is under way"
        if self._run is not None and self._run.state == _RUNNING:
            return f"busy: run {self._run.id} is under way"
        if event.seen != self._revision:
            return f"conflict: the request saw revision {event.seen}, the context is at {self._revision}"
        self._pending = PendingCompaction(event.request, event.seen, event.mode)
        return None

    def _commit(self, event: CompactionCommitted) -> str | None:
        pending = self._pending
        if pending is None or pending.request != event.request:
            return f"stale: compaction {event.request} is not under way"
        if event.seen != self._revision:
            return f"stale: the compaction is of revision {event.seen}, the context is at {self._revision}"
        removable = {entry.id for entry in compactable(list(self._entries.values()))}
        kept = [entry_id for entry_id in event.removed if entry_id not in removable]
        if kept:
            return f"conflict: entry {kept[0]} may not be compacted"
        self._pending = None
        self._revision += 1
        gone = set(event.removed) | {entry.id for entry in self._entries.values() if entry.superseded}
        place = min((at for at, entry_id in enumerate(self._entries) if entry_id in event.removed), default=None)
        before = list(self._entries.values())
        self._entries = {}
        for at, entry in enumerate(before):
            if at == place:
                self._add_all(event.entries, None, consumed=True)
            if entry.id not in gone:
                self._entries[entry.id] = entry
        if place is None:
            self._add_all(event.entries, None, consumed=True)
        return None

    def _give_up(self, event: CompactionFailed) -> str | None:
        if self._pending is None or self._pending.request != event.request:
            return f"stale: compaction {event.request} is not under way"
        self._pending = None
        return None

    # ------------------------------------------------------------------------------------------------ entries

    def _append(self, entries: Sequence[NewEntry], run: str | None, *, consumed: bool = False) -> None:
        if entries:
            self._revision += 1
            self._add_all(entries, run, consumed=consumed)

    def _add_all(self, entries: Sequence[NewEntry], run: str | None, *, consumed: bool) -> None:
        for entry in entries:
            # An input that goes with "the run" need not know its name.
            if entry.run == "" and run is not None:
                entry = msgspec.structs.replace(entry, run=run)
            self._add(entry, consumed)

    def _apply_edit(self, edit: Edit) -> None:
        if isinstance(edit, Add):
            self._add(edit.entry, False)
        elif isinstance(edit, Remove):
            self._entries.pop(edit.id, None)
        elif edit.id in self._entries:
            self._entries[edit.id] = ContextEntry(edit.id, self._revision, edit.entry)

    def _add(self, entry: NewEntry, consumed: bool) -> None:
        before = None if entry.key is None else self._current(entry.key)
        if before is None or entry.kind == "catalog":
            added = ContextEntry(
                self._next_id, self._revision, entry, None if before is None else before.id, consumed=consumed
            )
            if before is not None:
                self._entries[before.id] = msgspec.structs.replace(before, superseded=True)
            self._next_id += 1
            self._entries[added.id] = added
            if before is not None and entry.key is not None:
                self._drop_oldest(entry.key)
        else:
            self._entries[before.id] = ContextEntry(before.id, self._revision, entry, consumed=consumed)

    def _current(self, key: str) -> ContextEntry | None:
        for entry in reversed(self._entries.values()):
            if entry.entry.key == key and not entry.superseded:
                return entry
        return None

    def _drop_oldest(self, key: str) -> None:
        old = [entry.id for entry in self._entries.values() if entry.superseded and entry.entry.key == key]
        for entry_id in old[: max(0, len(old) - MAX_SUPERSEDED_VERSIONS)]:
            del self._entries[entry_id]
