"""Starting, opening and listing sessions."""

from __future__ import annotations

from laser.context.connection import Connection
from laser.context.replay import Replay
from laser.context.spans import look_up, spans_full
from laser.errors import InvalidError
from laser.model.ids import new_conversation_id, parse_conversation_id
from laser.model.provenance import Provenance
from laser.model.topics import AgentTopic
from laser.session.lifecycle import (
    SESSION_STATES,
    LifecycleEvent,
    SessionState,
    SessionStatus,
    check_label,
    encode_event,
    fold_status,
)
from laser.session.scope import ContextScope
from laser.session.session import Session
from laser.session.status import read_status

__all__ = ["Sessions"]


class Sessions:
    """The sessions of a stream. ``Laser.sessions`` makes it, without any I/O."""

    def __init__(self, laser: Connection) -> None:
        self._laser = laser

    async def start(
        self, label: str | None = None, *, parent: Session | str | None = None, agent: str | None = None
    ) -> Session:
        """Starts a session, as a record on ``agent.control``.

        Args:
            label: for people, at most ``MAX_LABEL_BYTES`` bytes.
            parent: the session that starts this one; this one's root is the parent's root, or the parent.
            agent: who starts it.

        Raises:
            InvalidError: a bad argument. NotFoundError: the topic is absent, or the parent session is.
        """
        if label is not None:
            check_label(label)
        above: Session | None = None
        if parent is not None:
            above = parent if isinstance(parent, Session) else await self.open(parent)
        session_id = new_conversation_id()
        parent_id = None if above is None else above.id
        root_id = None if above is None else above.root or above.id
        lineage = None
        if above is not None:
            lineage = Provenance(parent_conversation_id=parent_id, root_conversation_id=root_id)
        scope = ContextScope(self._laser, session_id, lineage)
        await scope.append(AgentTopic.Control, encode_event(LifecycleEvent("started", label)), agent=agent)
        return Session(self._laser, session_id, parent_id, root_id, agent)

    async def open(self, session_id: str, *, agent: str | None = None) -> Session:
        """Opens a session that was started before, here or elsewhere.

        Args:
            agent: who works on it now.

        Raises:
            IdError: not a session id. NotFoundError: no such session.
        """
        status = await read_status(self._laser, parse_conversation_id(session_id))
        return Session(
            self._laser, status.id, status.parent, status.root, agent, began_at_micros=status.began_at_micros
        )

    async def list(
        self, *, state: SessionState | None = None, parent: str | None = None, limit: int = 100
    ) -> list[SessionStatus]:
        """The newest sessions, newest first, folded from the whole of ``agent.control``.

        Args:
            state: only those in this state. parent: only the children of this session. limit: 1 or more.

        Raises:
            InvalidError: a bad argument; nothing was read.
        """
        if state is not None and state not in SESSION_STATES:
            raise InvalidError(f"state: {state!r} is not one of {', '.join(SESSION_STATES)}", argument="state")
        if parent is not None:
            parent = parse_conversation_id(parent)
        if type(limit) is not int or limit < 1:
            raise InvalidError(f"limit: {limit!r} is not a whole number from 1", argument="limit")
        log, stream = self._laser.open_log(), self._laser.stream
        topics = [AgentTopic.Control]
        replay = Replay(log, stream, None, spans_full(topics, await look_up(log, stream, topics)))
        found: dict[str, SessionStatus] = {}
        while (batch := await replay.next_batch()) is not None:
            for message in batch:
                key = message.provenance.conversation_id or ""
                status = fold_status(found.get(key), message)
                if status is not None:
                    found[key] = status
        wanted = [
            status
            for status in found.values()
            if (state is None or status.state == state) and (parent is None or status.parent == parent)
        ]
        wanted.sort(key=lambda status: (status.started_at_micros, status.id), reverse=True)
        return wanted[:limit]
