"""The active context of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from laser.errors import InvalidError, NotFoundError
from laser.session.active.entries import NewEntry, check_entries, check_entry
from laser.session.active.events import Add, CompactionFailed, Edit, Edited, Remove, Replace, RunFinished, Steered
from laser.session.active.reading import ActiveLog
from laser.session.active.settling import settle
from laser.session.active.state import ActiveState

__all__ = ["ActiveContext"]

_MAX_REASON: Final = 1_000
_MAX_NAME: Final = 255


class ActiveContext:
    """What the next model call of a session will consume: an ordered, revisioned set of entries.

    It changes by events on the log only, and every process that replays them comes to the same entries. An edit names
    the revision that it saw; when another one was faster it changes nothing and is told so.

    ``Session.active`` is it, without any I/O.
    """

    def __init__(self, log: ActiveLog) -> None:
        self._log = log

    async def read(self) -> ActiveState:
        """The context now.

        Raises:
            RetentionGapError: events that it needs are gone.
        """
        return await self._log.read()

    async def at(self, revision: int) -> ActiveState:
        """The context when it was at a revision: at its last moment there. Replays the events from the beginning.

        Raises:
            NotFoundError: it was never there. RetentionGapError: events are gone.
        """
        if type(revision) is not int or revision < 0:
            raise InvalidError(f"revision: {revision!r:.40} is not a whole number from 0", argument="revision")
        state = await self._log.at(revision)
        if state is None:
            raise NotFoundError(f"revision: the context was never at {revision}")
        return state

    async def edit(self, seen: int, edits: Sequence[Edit], *, idle: bool = False) -> ActiveState:
        """Changes entries, all or none.

        Args:
            seen: the revision that the edits are meant for, ``ActiveState.revision``.
            edits: ``Add``, ``Remove`` and ``Replace``. An added entry with a key takes the place of the earlier one of
                its kind; a catalog supersedes it. With the current version of a catalog the earlier ones are removed.
            idle: only while no run is under way and no input waits for one.

        Returns:
            The context afterwards.

        Raises:
            ConflictError: the context was at another revision.
            BusyError: a compaction is under way; edit again when it is through. With ``idle``, also a run.
            NotFoundError: an edit names an entry that is not there.
            InvalidError: an edit that never fits: a catalog replaced in place, a key that another entry has, an entry
                of another API kind than the session's, one that goes with a run when none is under way.

            In each case nothing was changed.
        """
        check_revision(seen)
        if isinstance(edits, str | bytes) or not isinstance(edits, Sequence) or not edits:
            raise InvalidError("edits: expected a list of edits that is not empty", argument="edits")
        for place, edit in enumerate(edits):
            if not isinstance(edit, Add | Remove | Replace):
                raise InvalidError(f"edits[{place}]: {type(edit).__name__} is no edit", argument="edits")
            if not isinstance(edit, Add) and (type(edit.id) is not int or not 0 < edit.id < 2**63):
                raise InvalidError(f"edits[{place}]: {edit.id!r:.40} is no entry's id", argument="edits")
            if not isinstance(edit, Remove):
                check_entry(edit.entry, f"edits[{place}]")
        return await settle(self._log, Edited(seen, tuple(edits), bool(idle)), "edits")

    async def add(self, seen: int, *entries: NewEntry) -> ActiveState:
        """Adds entries at the end; one with a key takes the place of the earlier one, a catalog supersedes it."""
        return await self.edit(seen, [Add(entry) for entry in entries])

    async def remove(self, seen: int, *ids: int) -> ActiveState:
        """Removes entries."""
        return await self.edit(seen, [Remove(entry_id) for entry_id in ids])

    async def replace(self, seen: int, entry_id: int, entry: NewEntry) -> ActiveState:
        """Puts an entry in another one's place; it keeps the id."""
        return await self.edit(seen, [Replace(entry_id, entry)])

    async def refresh(self, source: str, entries: Sequence[NewEntry]) -> ActiveState:
        """Brings what is derived from a source, such as files, up to date. Only between runs.

        What is there already stays as it is, byte by byte; what changed takes its place, or supersedes it; what the
        source does not give any more is removed. Nothing is written when nothing changed.

        Args:
            source: names the entries that are the source's; each gets it. entries: with keys, at least.

        Raises:
            BusyError: a run is under way, input waits for one, or a compaction is under way.
            ConflictError: the context changed meanwhile; nothing was refreshed.
        """
        wanted: dict[tuple[str, str], NewEntry] = {}
        for place, entry in enumerate(check_entries(entries, "entries")):
            if entry.key is None or entry.scope == "run":
                raise InvalidError(
                    f"entries[{place}]: derived input needs a key, and belongs to the session", argument="entries"
                )
            if (entry.kind, entry.key) in wanted:
                raise InvalidError(f"entries[{place}]: another one has the key {entry.key}", argument="entries")
            wanted[entry.kind, entry.key] = msgspec.structs.replace(entry, source=source)
        state = await self.read()
        edits: list[Edit] = []
        for held in state.entries:
            identity = held.kind, held.entry.key or ""
            if held.entry.source != source or held.superseded or held.run is not None:
                continue
            if identity not in wanted:
                edits.append(Remove(held.id))
            elif _is_same(held.entry, wanted[identity]):
                del wanted[identity]
        edits += [Add(entry) for entry in wanted.values()]
        if not edits:
            return state
        return await self.edit(state.revision, edits, idle=True)

    async def steer(self, entry: NewEntry) -> ActiveState:
        """Admits input at any time. It enters the context with the next turn; a turn under way does not see it.

        Without a run it waits for the next one. Until then the context is not idle.
        """
        return await settle(self._log, Steered(check_entry(entry)), "entry")

    async def fail_compaction(self, request: str, reason: str = "") -> ActiveState:
        """Gives a compaction up, whoever began it: everything stays as it is.

        The way out when whoever began it is gone. After its lease another request takes over as well.

        Args:
            request: ``ActiveState.pending.request``. reason: for people.

        Raises:
            ConflictError: it is not under way any more.
        """
        text = str(reason).encode(errors="replace").decode()[:_MAX_REASON]
        return await settle(self._log, CompactionFailed(_checked(request, "request"), text), "request")

    async def finish_run(
        self, run: str, state: Literal["ended", "failed", "cancelled"] = "failed", output: NewEntry | None = None
    ) -> ActiveState:
        """Finishes a run, whoever began it: the way out when whoever began it is gone.

        Args:
            run: ``ActiveState.run.id``.

        Raises:
            NotFoundError: it is not under way.
        """
        if state not in ("ended", "failed", "cancelled"):
            raise InvalidError(f"state: {state!r:.40} is none of ended, failed, cancelled", argument="state")
        if output is not None:
            check_entry(output, "output")
        return await settle(self._log, RunFinished(_checked(run, "run"), state, output), "run")

    def __repr__(self) -> str:
        return f"ActiveContext({self._log!r})"


def check_revision(seen: int) -> int:
    """A revision that a caller saw.

    Raises:
        InvalidError: it is none.
    """
    if type(seen) is not int or not 0 <= seen < 2**63:
        raise InvalidError(f"seen: {seen!r:.40} is not a revision, see ActiveState.revision", argument="seen")
    return seen


def _checked(name: str, argument: str) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME or not name.isprintable():
        raise InvalidError(f"{argument}: {name!r:.40} is no id of one, see ActiveState", argument=argument)
    return name


def _is_same(one: NewEntry, other: NewEntry) -> bool:
    # A preview, an estimate or a note of where it is from are no reason to change what a model reads.
    return (one.payload, one.ref, one.api) == (other.payload, other.ref, other.api)
