"""The active context of a session."""

from __future__ import annotations

from collections.abc import Sequence

from laser.errors import BusyError, ConflictError, InvalidError, NotFoundError
from laser.model.ids import new_conversation_id
from laser.session.active.entries import NewEntry, check_entry
from laser.session.active.events import (
    Add,
    CompactionCommitted,
    CompactionFailed,
    CompactionMode,
    CompactionRequested,
    Edit,
    Edited,
    Event,
    Remove,
    Replace,
    Steered,
)
from laser.session.active.reading import ActiveLog
from laser.session.active.state import ActiveState, PendingCompaction

__all__ = ["ActiveContext", "settle"]


class ActiveContext:
    """What the next model call of a session will consume: an ordered, revisioned set of entries.

    It changes by events on the log only, and every process that replays them comes to the same entries. An edit names
    the revision that it saw; when another one was faster it changes nothing and is told so.

    ``Session.active`` is it, without any I/O.
    """

    def __init__(self, log: ActiveLog) -> None:
        self._log = log

    async def read(self) -> ActiveState:
        """The context now."""
        return (await self._log.read()).state()

    async def at(self, revision: int) -> ActiveState:
        """The context when it was at a revision: at its last moment there. Replays the events from the beginning.

        Raises:
            NotFoundError: it was never there.
        """
        if type(revision) is not int or revision < 0:
            raise InvalidError(f"revision: {revision!r:.40} is not a whole number from 0", argument="revision")
        fold = await self._log.at(revision)
        if fold is None:
            raise NotFoundError(f"revision: the context was never at {revision}")
        return fold.state()

    async def edit(self, seen: int, edits: Sequence[Edit]) -> ActiveState:
        """Changes entries, all or none.

        Args:
            seen: the revision that the edits are meant for, ``ActiveState.revision``.
            edits: ``Add``, ``Remove`` and ``Replace``.

        Returns:
            The context afterwards.

        Raises:
            ConflictError: the context was at another revision; nothing was changed.
            BusyError: a compaction is under way; edit again when it is through.
            NotFoundError: an edit names an entry that is not there; nothing was changed.
        """
        _check_revision(seen)
        if isinstance(edits, str | bytes) or not isinstance(edits, Sequence) or not edits:
            raise InvalidError("edits: expected a list of edits that is not empty", argument="edits")
        for place, edit in enumerate(edits):
            if not isinstance(edit, Add | Remove | Replace):
                raise InvalidError(f"edits[{place}]: {type(edit).__name__} is no edit", argument="edits")
            if not isinstance(edit, Remove):
                check_entry(edit.entry, f"edits[{place}]")
        return await settle(self._log, Edited(seen, tuple(edits)))

    async def add(self, seen: int, *entries: NewEntry) -> ActiveState:
        """Adds entries at the end; one with a key takes the place of the earlier one, a catalog supersedes it."""
        return await self.edit(seen, [Add(entry) for entry in entries])

    async def remove(self, seen: int, *ids: int) -> ActiveState:
        """Removes entries."""
        return await self.edit(seen, [Remove(entry_id) for entry_id in ids])

    async def replace(self, seen: int, entry_id: int, entry: NewEntry) -> ActiveState:
        """Puts an entry in another one's place; it keeps the id."""
        return await self.edit(seen, [Replace(entry_id, entry)])

    async def steer(self, entry: NewEntry) -> ActiveState:
        """Admits input at any time. It enters the context with the next turn; a turn under way does not see it."""
        return await settle(self._log, Steered(check_entry(entry)))

    async def request_compaction(self, seen: int, mode: CompactionMode = "strategy") -> PendingCompaction:
        """Begins a compaction of the context as of a revision. Until it is through, runs and edits are refused.

        Raises:
            ConflictError: the context was at another revision.
            BusyError: a run or another compaction is under way.
        """
        request = new_conversation_id()
        state = await settle(self._log, CompactionRequested(request, _check_revision(seen), mode))
        return state.pending or PendingCompaction(request, seen, mode)

    async def commit_compaction(
        self, pending: PendingCompaction, removed: Sequence[int], entries: Sequence[NewEntry]
    ) -> ActiveState:
        """Replaces entries by a smaller account of them.

        Args:
            removed: ids, of those that ``compactable`` gives. entries: the account.

        Raises:
            ConflictError: the compaction is not under way any more, or an entry may not be removed; nothing was
                changed.
        """
        for place, entry in enumerate(entries):
            check_entry(entry, f"entries[{place}]")
        event = CompactionCommitted(pending.request, pending.revision, tuple(removed), tuple(entries))
        return await settle(self._log, event)

    async def fail_compaction(self, pending: PendingCompaction, reason: str = "") -> ActiveState:
        """Gives a compaction up: everything stays as it is."""
        verdict = await self._log.append(CompactionFailed(pending.request, reason[:1_000]))
        state = (await self._log.read()).state()
        if verdict is not None and state.pending is not None and state.pending.request == pending.request:
            raise ConflictError(verdict)
        return state

    def __repr__(self) -> str:
        return f"ActiveContext({self._log!r})"


async def settle(log: ActiveLog, event: Event) -> ActiveState:
    """Writes an event, and returns the context after it.

    Raises:
        ConflictError, BusyError, NotFoundError: the log found a state that it does not fit; nothing was changed.
    """
    verdict = await log.append(event)
    if verdict is not None:
        reason, _, text = verdict.partition(": ")
        if reason in ("busy", "compacting"):
            raise BusyError(text)
        if reason == "absent":
            raise NotFoundError(text)
        raise ConflictError(text)
    return (await log.read()).state()


def _check_revision(seen: int) -> int:
    if type(seen) is not int or seen < 0:
        raise InvalidError(f"seen: {seen!r:.40} is not a revision, see ActiveState.revision", argument="seen")
    return seen
