"""From an event to what the log made of it: a context, or an error."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from laser.errors import BusyError, ConflictError, InvalidError, LaserError, NotFoundError
from laser.session.active.events import Event
from laser.session.active.reading import ActiveLog
from laser.session.active.state import ActiveState

__all__ = ["last_word", "settle"]

_logger = logging.getLogger("laser.session")

_LAST_WORD_SECONDS: Final = 5.0
_BUSY: Final = ("busy", "compacting")


async def settle(log: ActiveLog, event: Event, argument: str) -> ActiveState:
    """Writes an event, and returns the context right after it.

    Args:
        argument: what the caller calls that which the event holds.

    Raises:
        ConflictError, BusyError, NotFoundError, InvalidError: the log found a state that it does not fit; nothing was
            changed.
    """
    outcome = await log.append(event)
    if outcome.verdict is None:
        return outcome.state
    reason, _, text = outcome.verdict.partition(": ")
    if reason in _BUSY:
        raise BusyError(text)
    if reason == "absent":
        raise NotFoundError(text)
    if reason == "refused":
        raise InvalidError(f"{argument}: {text}", argument=argument)
    raise ConflictError(text)


async def last_word(call: Callable[[], Awaitable[object]]) -> None:
    """Tells the log how something ended, on the way out of an error.

    The log must learn of it although the task may not wait any more; it may not wait for ever either. An error of the
    call does not take the place of the one on its way.
    """
    with anyio.move_on_after(_LAST_WORD_SECONDS, shield=True):
        try:
            await call()
        except LaserError as error:
            _logger.info("the end of it is not on the log: %s", error)
