"""Compaction of an active context: asked for, worked out by an adapter, then committed or given up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio
import msgspec

from laser.errors import InvalidError
from laser.limits import DEFAULT_COMPACTION_LEASE_SECONDS, MAX_COMPACTION_LEASE_SECONDS
from laser.model.ids import new_conversation_id
from laser.session.active.active import check_revision
from laser.session.active.entries import NewEntry, check_entry
from laser.session.active.events import CompactionCommitted, CompactionFailed, CompactionMode, CompactionRequested
from laser.session.active.reading import ActiveLog
from laser.session.active.settling import last_word, settle
from laser.session.active.state import ActiveState

__all__ = ["Account", "Compactor", "compact"]

_MODES: Final[tuple[CompactionMode, ...]] = ("strategy", "provider_standalone", "provider_triggered")
_MAX_REASON: Final = 1_000


class Account(msgspec.Struct, frozen=True):
    """What a compactor gives: a smaller account of some entries.

    Attributes:
        removed: ids of the entries that it stands for, of those that ``compactable`` gives.
        entries: the account; it comes in the place of the first of them. It cannot be empty or blank.
    """

    removed: Sequence[int]
    entries: Sequence[NewEntry]


Compactor = Callable[[ActiveState], Awaitable[Account | None]]
"""From a context to an account of a part of it; ``None`` when there is nothing to be won. What it raises gives the
compaction up."""


async def compact(
    log: ActiveLog,
    compactor: Compactor,
    *,
    seen: int | None = None,
    mode: CompactionMode = "strategy",
    lease: float = DEFAULT_COMPACTION_LEASE_SECONDS,
) -> ActiveState:
    """Compacts a context; see ``Session.compact``."""
    _check(mode, lease)
    if not callable(compactor):
        raise InvalidError("compactor: expected an async function from a context to an Account", argument="compactor")
    if seen is None:
        seen = (await log.read()).revision
    request = new_conversation_id()
    try:
        state = await settle(log, CompactionRequested(request, check_revision(seen), mode, float(lease)), "mode")
        # After the lease another one may take over: what comes later could not be committed anyway.
        with anyio.fail_after(lease):
            account = await compactor(state)
        if account is None:
            return await settle(log, CompactionFailed(request, "nothing to be won"), "request")
        event = CompactionCommitted(request, seen, *_checked(account))
        return await settle(log, event, "compactor")
    except BaseException as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else "cancelled"
        await last_word(lambda: _clear(log, request, reason))
        raise


async def _clear(log: ActiveLog, request: str, reason: str) -> None:
    state = await log.read()
    if state.pending is not None and state.pending.request == request:
        text = reason.encode(errors="replace").decode()[:_MAX_REASON]
        await settle(log, CompactionFailed(request, text), "request")


def _checked(account: object) -> tuple[tuple[int, ...], tuple[NewEntry, ...]]:
    if not isinstance(account, Account):
        raise InvalidError(
            f"compactor: gave {type(account).__name__}, expected an Account or None", argument="compactor"
        )
    if not account.removed or not account.entries:
        raise InvalidError("compactor: an account stands for some entries, and has some", argument="compactor")
    if not all(type(entry_id) is int and 0 < entry_id < 2**63 for entry_id in account.removed):
        raise InvalidError("compactor: removed is no list of entries' ids", argument="compactor")
    for place, entry in enumerate(account.entries):
        check_entry(entry, f"compactor: entries[{place}]")
        if entry.payload is not None and not entry.payload.strip():
            raise InvalidError(f"compactor: entries[{place}] is blank", argument="compactor")
        if entry.scope == "run":
            raise InvalidError(f"compactor: entries[{place}] goes with a run, none is under way", argument="compactor")
    return tuple(account.removed), tuple(account.entries)


def _check(mode: str, lease: float) -> None:
    if mode not in _MODES:
        raise InvalidError(f"mode: {mode!r:.40} is none of {', '.join(_MODES)}", argument="mode")
    real = isinstance(lease, int | float) and not isinstance(lease, bool)
    if not (real and 0 < lease <= MAX_COMPACTION_LEASE_SECONDS):
        raise InvalidError(
            f"lease: {lease!r:.40} is not a number of seconds above 0, at most {MAX_COMPACTION_LEASE_SECONDS:.0f}",
            argument="lease",
        )
