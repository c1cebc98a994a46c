"""The fold of an active context: one event after another, in the order of the log. Pure.

The log decides: an event that does not fit the state which its place on the log finds changes nothing. So of two edits
that saw the same revision the first one on the log wins, in every process and in every replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from laser.limits import MAX_COMPACTION_LEASE_SECONDS
from laser.session.active.entries import MODEL_KINDS, NewEntry
from laser.session.active.entry_set import EntrySet, SavedEntries
from laser.session.active.events import (
    CompactionCommitted,
    CompactionFailed,
    CompactionRequested,
    Edited,
    Event,
    Inherited,
    Opened,
    Remove,
    Replace,
    RunFinished,
    RunStarted,
    Steered,
    TurnFinished,
    TurnStarted,
)
from laser.session.active.state import (
    MAX_TOKENS,
    ActiveState,
    PendingCompaction,
    RunState,
    compactable,
    in_request_order,
)

__all__ = ["ActiveFold", "Saved", "prunes"]

_RUNNING: Final = "running"
_PRUNING_API: Final = "openai_responses"


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fold's state, to go on from."""

    entries: SavedEntries = SavedEntries()
    revision: int = 0
    run: RunState | None = None
    runs: int = 0
    steering: tuple[NewEntry, ...] = ()
    pending: PendingCompaction | None = None
    api: str | None = None
    opened: bool = False


class ActiveFold:
    """A context that is being folded.

    Args:
        start: the state to go on from; ``None`` for the beginning.

    Attributes:
        opened: its first event was seen.
    """

    def __init__(self, start: Saved | None = None) -> None:
        saved = start or Saved()
        self._entries = EntrySet(saved.entries)
        self._revision = saved.revision
        self._run = saved.run
        self._runs = saved.runs
        self._steering = list(saved.steering)
        self._pending = saved.pending
        self._api = saved.api
        self.opened = saved.opened

    def apply(self, event: Event, at_micros: int = 0) -> str | None:
        """Applies an event.

        Args:
            at_micros: the log's time of the event.

        Returns:
            ``None``, or why it changed nothing: its first word is ``conflict``, ``busy``, ``compacting``, ``absent``,
            ``refused`` or ``stale``.
        """
        if isinstance(event, TurnFinished):
            return self._finish_turn(event)
        if isinstance(event, TurnStarted):
            return self._start_turn(event)
        if isinstance(event, Edited):
            return self._edit(event)
        if isinstance(event, RunStarted):
            return self._start_run(event)
        if isinstance(event, Steered):
            return self._steer(event)
        if isinstance(event, RunFinished):
            return self._finish_run(event)
        if isinstance(event, CompactionRequested):
            return self._request(event, at_micros)
        if isinstance(event, CompactionCommitted):
            return self._commit(event)
        if isinstance(event, CompactionFailed):
            return self._give_up(event)
        if isinstance(event, Opened):
            self.opened = True
            return None
        return self._inherit(event)

    @property
    def revision(self) -> int:
        """The context's revision now."""
        return self._revision

    def state(self) -> ActiveState:
        """The context now."""
        return ActiveState(
            self._revision,
            in_request_order(self._entries.all()),
            self._run,
            self._runs,
            tuple(self._steering),
            self._pending,
            self._api,
        )

    def save(self) -> Saved:
        """What a later fold can go on from."""
        return Saved(
            self._entries.save(),
            self._revision,
            self._run,
            self._runs,
            tuple(self._steering),
            self._pending,
            self._api,
            self.opened,
        )

    # ------------------------------------------------------------------------------------------------ edits

    def _edit(self, event: Edited) -> str | None:
        if self._pending is not None:
            return f"compacting: compaction {self._pending.request} is under way; edit again when it is through"
        if event.idle and self._run is not None and self._run.state == _RUNNING:
            return f"busy: run {self._run.id} is under way"
        if event.idle and self._steering:
            return "busy: input waits for the next turn"
        if event.seen != self._revision:
            return f"conflict: the edit saw revision {event.seen}, the context is at {self._revision}"
        running = self._run.id if self._run is not None and self._run.state == _RUNNING else None
        added = [edit.entry for edit in event.edits if not isinstance(edit, Remove)]
        refusal = self._check_api(added)
        if refusal is None and running is None and any(entry.scope == "run" for entry in added):
            refusal = "refused: an entry goes with a run, but none is under way"
        refusal = refusal or self._entries.check(event.edits, running)
        if refusal is not None:
            return refusal
        self._revision += 1
        self._note_api(added)
        for edit in event.edits:
            if isinstance(edit, Remove):
                self._entries.remove(edit.id)
            elif isinstance(edit, Replace):
                self._entries.replace(edit.id, edit.entry, self._revision, running)
            else:
                self._entries.add(edit.entry, self._revision, running, consumed=False)
        return None

    def _steer(self, event: Steered) -> str | None:
        refusal = self._check_api((event.entry,))
        if refusal is None:
            self._note_api((event.entry,))
            self._steering.append(event.entry)
        return refusal

    # ------------------------------------------------------------------------------------------------ runs and turns

    def _start_run(self, event: RunStarted) -> str | None:
        if self._pending is not None:
            return f"compacting: compaction {self._pending.request} is under way; start again when it is through"
        if self._run is not None and self._run.state == _RUNNING:
            return f"busy: run {self._run.id} is under way"
        if event.seen is not None and event.seen != self._revision:
            return f"conflict: the run saw revision {event.seen}, the context is at {self._revision}"
        if event.runs is not None and event.runs != self._runs:
            return "conflict: another run was there meanwhile; read the conversation again"
        refusal = self._check_api(event.inputs, event.api)
        if refusal is not None:
            return refusal
        self._note_api(event.inputs, event.api)
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
        self._run = msgspec.structs.replace(run, turn=event.turn, turns=run.turns + 1, revision=self._revision)
        return None

    def _finish_turn(self, event: TurnFinished) -> str | None:
        run = self._run
        if run is None or run.id != event.run or run.turn != event.turn:
            return f"stale: turn {event.turn} is not under way"
        refusal = self._check_api(event.outputs) if event.complete else None
        if refusal is not None:
            return refusal
        usage = dict(run.usage)
        for name, count in event.usage.items():
            # Whoever wrote the event: a sum has to go into a snapshot.
            usage[name] = min(usage.get(name, 0) + count, MAX_TOKENS - 1)
        self._run = msgspec.structs.replace(run, turn=None, usage=usage)
        if event.complete:
            self._note_api(event.outputs)
            frozen = run.revision or 0
            self._entries.consume(frozen)
            if prunes(self._api, event.outputs):
                # The provider's own account stands for what the turn saw; what came meanwhile stays.
                gone = [entry.id for entry in compactable(self._entries.all()) if entry.revision <= frozen]
                self._entries.drop(gone)
                self._entries.drop_superseded()
            self._append(event.outputs, run.id, from_model=True)
        return None

    def _finish_run(self, event: RunFinished) -> str | None:
        run = self._run
        if run is None or run.id != event.run or run.state != _RUNNING:
            return f"absent: run {event.run} is not under way"
        self._run = msgspec.structs.replace(run, state=event.state, turn=None, output=event.output)
        if self._entries.expire():
            self._revision += 1
        return None

    # ------------------------------------------------------------------------------------------------ compaction

    def _request(self, event: CompactionRequested, at_micros: int) -> str | None:
        pending = self._pending
        if event.at_micros is not None:
            # A copy stands close to the others in time; what counts is what lay between the originals.
            at_micros = event.at_micros
        if pending is not None and at_micros < pending.expires_at_micros:
            return f"compacting: compaction {pending.request} is under way"
        if self._run is not None and self._run.state == _RUNNING:
            return f"busy: run {self._run.id} is under way"
        if event.seen != self._revision:
            return f"conflict: the request saw revision {event.seen}, the context is at {self._revision}"
        if event.mode == "provider_triggered" and self._api != _PRUNING_API:
            return f"refused: mode provider_triggered goes with {_PRUNING_API}, the session's API is {self._api}"
        # Whoever wrote the event, nobody holds a context for longer.
        lease = min(max(event.lease, 0.0), MAX_COMPACTION_LEASE_SECONDS)
        self._pending = PendingCompaction(event.request, event.seen, event.mode, at_micros, lease)
        return None

    def _commit(self, event: CompactionCommitted) -> str | None:
        pending = self._pending
        if pending is None or pending.request != event.request:
            return f"stale: compaction {event.request} is not under way"
        if event.seen != self._revision:
            return f"stale: the compaction is of revision {event.seen}, the context is at {self._revision}"
        refusal = self._check_api(event.entries) or self._check_removed(event.removed)
        if refusal is not None:
            return refusal
        self._pending = None
        self._revision += 1
        self._note_api(event.entries)
        self._entries.swap(event.removed, event.entries, self._revision)
        return None

    def _check_removed(self, removed: Sequence[int]) -> str | None:
        gone = set(removed)
        removable = {entry.id: entry.entry.call_id for entry in compactable(self._entries.all())}
        kept = sorted(entry_id for entry_id in gone if entry_id not in removable)
        if kept:
            return f"refused: entry {kept[0]} may not be compacted"
        calls = {removable[entry_id] for entry_id in gone} - {None}
        torn = [entry_id for entry_id, call in removable.items() if call in calls and entry_id not in gone]
        if torn:
            return f"refused: entry {torn[0]} belongs to a tool call that is removed; both go or both stay"
        return None

    def _give_up(self, event: CompactionFailed) -> str | None:
        if self._pending is None or self._pending.request != event.request:
            return f"stale: compaction {event.request} is not under way"
        self._pending = None
        return None

    # ------------------------------------------------------------------------------------------------ the rest

    def _inherit(self, event: Inherited) -> str | None:
        # Nobody will go on with what was under way in the other session.
        self._pending = None
        if self._run is not None and self._run.state == _RUNNING:
            self._finish_run(RunFinished(self._run.id, "cancelled"))
        return None

    def _append(self, entries: Sequence[NewEntry], run: str, *, from_model: bool = False) -> None:
        if entries:
            self._revision += 1
            for entry in entries:
                consumed = from_model and entry.kind in MODEL_KINDS
                self._entries.add(entry, self._revision, run, consumed=consumed)

    def _check_api(self, entries: Sequence[NewEntry], api: str | None = None) -> str | None:
        fixed = self._api
        for one in (api, *(entry.api for entry in entries)):
            if one is not None and fixed is not None and one != fixed:
                return f"refused: the session's API kind is {fixed}, not {one}; begin a new session for another one"
            fixed = fixed or one
        return None

    def _note_api(self, entries: Sequence[NewEntry], api: str | None = None) -> None:
        if self._api is None:
            self._api = api or next((entry.api for entry in entries if entry.api is not None), None)


def prunes(api: str | None, outputs: Sequence[NewEntry]) -> bool:
    """Whether a turn's outputs hold the provider's own account of what came before."""
    return api == _PRUNING_API and any(entry.kind == "compaction" for entry in outputs)
