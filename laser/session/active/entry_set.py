"""The entries of a context that is being folded, and how each kind of change works on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from laser.limits import MAX_SUPERSEDED_VERSIONS
from laser.session.active.entries import ContextEntry, NewEntry
from laser.session.active.events import Add, Edit, Remove

__all__ = ["EntrySet", "SavedEntries"]

_Identity = tuple[str, str, str | None]
"""A kind, a key, and the run that it goes with: of each there is one current entry at most."""


class SavedEntries(msgspec.Struct, frozen=True, omit_defaults=True):
    """A set's entries, and the id that the next one gets."""

    entries: tuple[ContextEntry, ...] = ()
    next_id: int = 1


class EntrySet:
    """Entries in the order in which they came."""

    def __init__(self, saved: SavedEntries) -> None:
        self._entries = {entry.id: entry for entry in saved.entries}
        self._next_id = saved.next_id
        self._unconsumed = {entry.id for entry in saved.entries if not entry.consumed}
        self._of_runs = {entry.id for entry in saved.entries if entry.run is not None}
        self._current: dict[_Identity, int] = {}
        for entry in saved.entries:
            identity = _identity(entry.entry, entry.run)
            if identity is not None and not entry.superseded:
                self._current[identity] = entry.id

    def all(self) -> list[ContextEntry]:
        """Every entry."""
        return list(self._entries.values())

    def save(self) -> SavedEntries:
        """What another one can go on from."""
        return SavedEntries(tuple(self._entries.values()), self._next_id)

    def check(self, edits: Sequence[Edit], run: str | None) -> str | None:
        """Why edits cannot be made one after another, ``None`` when they can."""
        gone: set[int] = set()
        claimed: set[_Identity] = set()
        for edit in edits:
            if isinstance(edit, Add):
                claimed.update(_identities(edit.entry, run))
                continue
            entry = None if edit.id in gone else self._entries.get(edit.id)
            if entry is None:
                return f"absent: there is no entry {edit.id}"
            if isinstance(edit, Remove):
                gone.add(edit.id)
                continue
            if entry.kind == "catalog" or edit.entry.kind == "catalog":
                return f"refused: entry {edit.id}: a catalog is not replaced; add its next version under its key"
            for identity in _identities(edit.entry, run):
                holder = self._current.get(identity, edit.id)
                if identity in claimed or (holder != edit.id and holder not in gone):
                    return f"refused: entry {edit.id}: another one has the key {edit.entry.key}"
                claimed.add(identity)
        return None

    def add(self, entry: NewEntry, revision: int, run: str | None, *, consumed: bool) -> None:
        """Adds an entry at the end, or in the place of the earlier one of its key."""
        run = run if entry.scope == "run" else None
        identity = _identity(entry, run)
        before = None if identity is None else self._current.get(identity)
        if before is not None and entry.kind != "catalog":
            self._put(ContextEntry(before, revision, entry, consumed=consumed, run=run))
            return
        if before is not None:
            self._entries[before] = msgspec.structs.replace(self._entries[before], superseded=True)
        self._put(ContextEntry(self._next_id, revision, entry, before, consumed=consumed, run=run))
        self._next_id += 1
        if before is not None:
            old = self._versions(self._entries[before])
            for entry_id in old[: max(0, len(old) - MAX_SUPERSEDED_VERSIONS)]:
                self._forget(entry_id)

    def replace(self, entry_id: int, entry: NewEntry, revision: int, run: str | None) -> None:
        """Puts another entry in one's place; it keeps the id. One that is gone by now stays so."""
        before = self._entries.get(entry_id)
        if before is None:
            return
        identity = _identity(before.entry, before.run)
        if identity is not None and self._current.get(identity) == entry_id:
            del self._current[identity]
        self._of_runs.discard(entry_id)
        self._put(ContextEntry(entry_id, revision, entry, run=run if entry.scope == "run" else None))

    def remove(self, entry_id: int) -> None:
        """Removes an entry; with the current version of a catalog go the earlier ones, which nobody should read now."""
        entry = self._entries.get(entry_id)
        if entry is None:
            return
        if entry.kind == "catalog" and not entry.superseded:
            self.drop(self._versions(entry))
        self._forget(entry_id)

    def drop(self, ids: Iterable[int]) -> None:
        """Removes entries."""
        for entry_id in ids:
            self._forget(entry_id)

    def drop_superseded(self) -> None:
        """Removes every superseded version of a catalog."""
        self.drop([entry.id for entry in self._entries.values() if entry.superseded])

    def expire(self) -> bool:
        """Removes what goes with a run, and says whether there was any."""
        gone = list(self._of_runs)
        self.drop(gone)
        return bool(gone)

    def consume(self, revision: int) -> None:
        """Marks what a turn of a revision saw."""
        for entry_id in list(self._unconsumed):
            entry = self._entries[entry_id]
            if entry.revision <= revision:
                self._entries[entry_id] = msgspec.structs.replace(entry, consumed=True)
                self._unconsumed.discard(entry_id)

    def swap(self, removed: Sequence[int], account: Sequence[NewEntry], revision: int) -> None:
        """Puts an account in the place of the first of the entries that it stands for; superseded catalogs go too."""
        gone = set(removed)
        before: list[int] = []
        for entry_id in self._entries:
            if entry_id in gone:
                break
            before.append(entry_id)
        self.drop(removed)
        self.drop_superseded()
        known = set(self._entries)
        for entry in account:
            self.add(entry, revision, None, consumed=True)
        added = [entry_id for entry_id in self._entries if entry_id not in known]
        moved = set(before) | set(added)
        order = [
            *(entry_id for entry_id in before if entry_id in self._entries),
            *added,
            *(entry_id for entry_id in self._entries if entry_id not in moved),
        ]
        self._entries = {entry_id: self._entries[entry_id] for entry_id in order}

    def _versions(self, entry: ContextEntry) -> list[int]:
        """The superseded versions of a catalog, oldest first."""
        return [
            other.id
            for other in self._entries.values()
            if other.superseded and other.entry.key == entry.entry.key and other.run == entry.run
        ]

    def _put(self, entry: ContextEntry) -> None:
        self._entries[entry.id] = entry
        identity = _identity(entry.entry, entry.run)
        if identity is not None:
            self._current[identity] = entry.id
        if entry.run is not None:
            self._of_runs.add(entry.id)
        if entry.consumed:
            self._unconsumed.discard(entry.id)
        else:
            self._unconsumed.add(entry.id)

    def _forget(self, entry_id: int) -> None:
        entry = self._entries.pop(entry_id, None)
        if entry is None:
            return
        self._unconsumed.discard(entry_id)
        self._of_runs.discard(entry_id)
        identity = _identity(entry.entry, entry.run)
        if identity is not None and self._current.get(identity) == entry_id:
            del self._current[identity]


def _identity(entry: NewEntry, run: str | None) -> _Identity | None:
    return None if entry.key is None else (entry.kind, entry.key, run)


def _identities(entry: NewEntry, run: str | None) -> tuple[_Identity, ...]:
    identity = _identity(entry, run if entry.scope == "run" else None)
    return () if identity is None else (identity,)
