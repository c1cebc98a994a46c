"""Active context as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from laser.errors import InvalidError
from laser.session.active.entries import PROTECTED_KINDS, ContextEntry, EntryKind, NewEntry
from laser.session.active.events import CompactionMode

__all__ = [
    "MAX_TOKENS",
    "ActiveState",
    "PendingCompaction",
    "RunState",
    "compactable",
    "compactable_tokens",
    "compaction_due",
    "in_request_order",
]

MAX_TOKENS: Final = 2**63
"""Below which a count of tokens is."""


class PendingCompaction(msgspec.Struct, frozen=True):
    """A compaction under way.

    Attributes:
        request: its id. revision: of the context that it works on. mode: as requested.
        requested_at_micros: by the log's clock. lease: seconds after which another request may take over.
    """

    request: str
    revision: int
    mode: CompactionMode
    requested_at_micros: int
    lease: float

    @property
    def expires_at_micros(self) -> int:
        """When another request may take over, microseconds since 1970 UTC by the log's clock."""
        return self.requested_at_micros + int(self.lease * 1_000_000)


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
        api: the kind of API that the session's model calls go by; ``None`` before the first that says so.
    """

    revision: int
    entries: tuple[ContextEntry, ...]
    run: RunState | None = None
    runs: int = 0
    steering: tuple[NewEntry, ...] = ()
    pending: PendingCompaction | None = None
    api: str | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no run is under way, nothing waits for one, and no compaction is pending."""
        return (self.run is None or self.run.state != "running") and not self.steering and self.pending is None

    @property
    def tokens(self) -> int | None:
        """What all entries are estimated to cost; ``None`` when one has no estimate."""
        return _sum(self.entries)

    def entry(self, entry_id: int) -> ContextEntry | None:
        """An entry by its id."""
        return next((entry for entry in self.entries if entry.id == entry_id), None)

    def keyed(self, key: str, kind: EntryKind | None = None) -> ContextEntry | None:
        """The current entry of a key, the run's before the session's; of that kind, where one is given."""
        found = [
            entry
            for entry in self.entries
            if entry.entry.key == key and not entry.superseded and kind in (None, entry.kind)
        ]
        return next((entry for entry in found if entry.run is not None), found[0] if found else None)


def in_request_order(entries: Sequence[ContextEntry]) -> tuple[ContextEntry, ...]:
    """Instructions first, by their keys; everything else as it came."""
    first = sorted((entry for entry in entries if entry.kind == "instruction"), key=_key)
    return (*first, *(entry for entry in entries if entry.kind != "instruction"))


def compactable(entries: Sequence[ContextEntry]) -> list[ContextEntry]:
    """The entries that a compaction may remove.

    Instructions, active skills, the current version of each catalog, tool calls without a final result, and input that
    no finished turn has seen all stay. A call and its results go together or stay together.
    """
    answered = {entry.entry.call_id for entry in entries if entry.kind == "tool_result" and not entry.entry.interim}
    pinned: set[str | None] = set()
    for entry in entries:
        if entry.entry.call_id is not None and (entry.entry.call_id not in answered or not entry.consumed):
            pinned.add(entry.entry.call_id)
    found: list[ContextEntry] = []
    for entry in entries:
        current = entry.kind == "catalog" and not entry.superseded
        held = entry.entry.call_id is not None and entry.entry.call_id in pinned
        if entry.kind not in PROTECTED_KINDS and not current and not held and entry.consumed:
            found.append(entry)
    return found


def compactable_tokens(entries: Sequence[ContextEntry]) -> int | None:
    """What the entries that may be removed are estimated to cost; ``None`` when one of them has no estimate, and when
    the sum does not fit 63 bits: then there is no sum to decide by."""
    return _sum(compactable(entries))


def compaction_due(state: ActiveState, threshold: int) -> bool:
    """Whether the context is idle, and what a compaction may remove is estimated to cost at least so many tokens.

    A missing estimate or an overflow means no: what the provider counted is never put in its place.

    Args:
        threshold: tokens, from 1.
    """
    if type(threshold) is not int or threshold < 1:
        raise InvalidError(f"threshold: {threshold!r:.40} is not a whole number from 1", argument="threshold")
    total = compactable_tokens(state.entries)
    return state.is_idle and total is not None and total >= threshold


def _sum(entries: Sequence[ContextEntry]) -> int | None:
    total = 0
    for entry in entries:
        if entry.entry.tokens is None:
            return None
        total += entry.entry.tokens
    return total if total < MAX_TOKENS else None


def _key(entry: ContextEntry) -> str:
    return entry.entry.key or ""
