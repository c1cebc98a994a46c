"""How a session stands, and its end: as the log decides."""

from __future__ import annotations

from typing import Any, Final

from laser.context.connection import Connection
from laser.errors import ConflictError, NotFoundError
from laser.model.topics import AgentTopic
from laser.session.lifecycle import LifecycleEvent, SessionStatus, encode_event, fold_status
from laser.session.scope import ContextScope

__all__ = ["finish", "read_status"]

_LIFECYCLE: Final = AgentTopic.Control


async def read_status(laser: Connection, session_id: str) -> SessionStatus:
    """A session's status, folded from the log.

    Raises:
        NotFoundError: no such session was started here.
    """
    scope = ContextScope(laser, session_id)
    status: Any = await scope.state([_LIFECYCLE], None, fold_status, full=True)
    if status is None:
        raise NotFoundError(
            f"session {scope.conversation} is not on stream {laser.stream!r}; sessions().start() begins one",
            stream=laser.stream,
            topic=_LIFECYCLE,
        )
    return status  # type: ignore[no-any-return]


async def finish(laser: Connection, scope: ContextScope, event: LifecycleEvent, agent: str | None) -> SessionStatus:
    """Finishes a session; the first end on the log stands.

    Raises:
        ConflictError: it finished in another state before.
    """
    payload = encode_event(event)
    before = await read_status(laser, scope.conversation)
    if before.state == "running":
        await scope.append(_LIFECYCLE, payload, agent=agent)
        # Another agent may have been first: the log decides, not what was seen before the append.
        before = await read_status(laser, scope.conversation)
    if before.state != event.event:
        raise ConflictError(
            f"session {scope.conversation} finished as {before.state} before it could be {event.event}; "
            "that state stands"
        )
    return before
