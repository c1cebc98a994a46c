"""Active context as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from laser.session.active.entries import PROTECTED_KINDS, ContextEntry, NewEntry
from laser.session.active.events import CompactionMode

__all__ = ["ActiveState", "PendingCompaction", "RunState", "compactable", "compactable_tokens", "in_request_order"]


class PendingCompaction(msgspec.Struct, frozen=True):
    """A compaction under way. revision: of the context that it works on."""

    request: str
    revision: int
    mode: CompactionMode


class RunState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run.

    Attributes:
        id: its name. state: ``running`` or how it finished. turn: the turn under way. turns: how many began.
        revision: that the turn under way, or the last one, was frozen at.
        output: what it answered in the end, whole, whatever the context holds of it by now.
        usage: tokens that the provider counted over its turns, by name.
    """

    id: str
    state: str = "running"
    turn: str | None = None
    turns: int = 0
    revision: int | None = None
    output: NewEntry | None = None
    usage: Mapping[str, int] = {}


class ActiveState(msgspec.Struct, frozen=True):
    """An active context at some moment.

    Attributes:
        revision: grows with every change of the entries. entries: in the order in which a request has them.
        run: the run under way, else the last one; ``None`` before the first. runs: how many began.
        steering: input that waits for the next turn. pending: a compaction under way.
    """

    revision: int
    entries: tuple[ContextEntry, ...]
    run: RunState | None = None
    runs: int = 0
    steering: tuple[NewEntry, ...] = ()
    pending: PendingCompaction | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no run is under way, nothing waits for one, and no compaction is pending."""
        return (self.run is None or self.run.state != "running") and not self.steering and self.pending is None

    def entry(self, entry_id: int) -> ContextEntry | None:
        """An entry by its id."""
        return next((entry for entry in self.entries if entry.id == entry_id), None)

    def keyed(self, key: str) -> ContextEntry | None:
        """The current entry of a key."""
        return next((entry for entry in self.entries if entry.entry.key == key and not entry.superseded), None)


def in_request_order(entries: Sequence[ContextEntry]) -> tuple[ContextEntry, ...]:
    """Instructions first, by their keys; everything else as it came."""
    first = sorted((entry for entry in entries if entry.kind == "instruction"), key=_key)
    return (*first, *(entry for entry in entries if entry.kind != "instruction"))


def compactable(entries: Sequence[ContextEntry]) -> list[ContextEntry]:
    """The entries that a compaction may remove.

    Instructions, active skills, the current version of each catalog, tool calls without a result, and input that no
    turn has seen yet all stay.
    """
    answered = {entry.entry.call_id for entry in entries if entry.kind == "tool_result"}
    found: list[ContextEntry] = []
    for entry in entries:
        current = entry.kind == "catalog" and not entry.superseded
        is_open = entry.kind == "tool_call" and entry.entry.call_id not in answered
        if entry.kind not in PROTECTED_KINDS and not current and not is_open and entry.consumed:
            found.append(entry)
    return found


def compactable_tokens(entries: Sequence[ContextEntry]) -> int | None:
    """What the entries that may be removed are estimated to cost; ``None`` when one of them has no estimate."""
    total = 0
    for entry in compactable(entries):
        if entry.entry.tokens is None:
            return None
        total += entry.entry.tokens
    return total if total < 2**63 else None


def _key(entry: ContextEntry) -> str:
    return entry.entry.key or ""
