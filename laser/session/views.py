"""What a session can be asked. Nothing here changes it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laser.context.connection import Connection
from laser.errors import InvalidError
from laser.model.checkpoint import Checkpoint
from laser.model.checks import shown
from laser.model.messages import ContextMessage
from laser.model.provenance import Provenance
from laser.session.active.reading import ActiveLog
from laser.session.active.state import ActiveState
from laser.session.copying import MessageOrigin, read_origin
from laser.session.lifecycle import SessionStatus
from laser.session.runs import RunDetail, read_run, read_runs
from laser.session.scope import ContextScope
from laser.session.status import read_status
from laser.session.transcript import DEFAULT_PAGE, TranscriptPage, read_transcript

__all__ = ["SessionReading", "SessionViews"]


class SessionReading(msgspec.Struct, frozen=True):
    """A session now. status: how it stands. context: what its next model call will consume, and its run."""

    status: SessionStatus
    context: ActiveState


class SessionViews:
    """The views of one session. ``Session`` is this with what changes it."""

    def __init__(
        self,
        laser: Connection,
        session_id: str,
        parent: str | None,
        root: str | None,
        agent: str | None,
        *,
        began_at_micros: int | None = None,
    ) -> None:
        self._laser = laser
        self._agent = agent
        self._began_at_micros = began_at_micros
        self.id = session_id
        self.parent = parent
        self.root = root
        fresh = began_at_micros is None
        self._active = ActiveLog(laser, session_id, self._lineage, agent, self._began, fresh=fresh)

    def scope(self) -> ContextScope:
        """The scope of the session's conversation. Its appends carry the session's parent and root."""
        return ContextScope(self._laser, self.id, self._lineage)

    async def status(self) -> SessionStatus:
        """How the session stands, folded from the log.

        Raises:
            NotFoundError: retention removed its beginning.
        """
        return await read_status(self._laser, self.id)

    async def transcript(
        self, *, limit: int = DEFAULT_PAGE, before: str | None = None, after: str | None = None
    ) -> TranscriptPage:
        """What happened: the messages on ``agent.sessions``, a page at a time, each oldest first.

        Without a cursor this captures where the conversation ends now and gives the newest page. Go back with
        ``before=page.older``, and on with ``after=page.live`` from the newest page, or from the last newer one.

        Args:
            limit: messages of the page, 1 to ``MAX_TRANSCRIPT_PAGE``; a newer page has none when nothing is new.

        Raises:
            RetentionGapError: the page would have messages that retention took.
            StaleCheckpointError: the topic was made anew, purged or cut short since the cursor.
        """
        return await read_transcript(
            self._laser.open_log(),
            self._laser.stream,
            self.id,
            self._began,
            limit=limit,
            before=before,
            after=after,
        )

    async def read(self) -> SessionReading:
        """How the session stands, and its active context: from the newest snapshot and what came after it, else from
        the beginning. Its cost does not grow with the session's age.

        Raises:
            RetentionGapError: events that it needs are gone.
        """
        return SessionReading(await self.status(), await self._active.read())

    async def read_run(self, run: str) -> RunDetail:
        """A run with its inputs, turns and answer in full, also after a compaction took them from the context.

        Replays the events from the beginning.

        Raises:
            NotFoundError: the session had no such run. RetentionGapError: events are gone.
        """
        return await read_run(self._active, run)

    async def runs(self, *, limit: int = 100) -> list[RunDetail]:
        """The newest runs in detail, newest first. Replays the events from the beginning.

        Raises:
            RetentionGapError: events are gone.
        """
        if type(limit) is not int or limit < 1:
            raise InvalidError(f"limit: {shown(limit)} is not a whole number from 1", argument="limit")
        return await read_runs(self._active, limit)

    async def origin_of(self, message: ContextMessage) -> MessageOrigin | None:
        """Where a message of a fork was copied from; ``None`` for one that is its own.

        Raises:
            NotFoundError: retention took it.
        """
        if not isinstance(message, ContextMessage):
            raise InvalidError(f"message: expected a ContextMessage, got {type(message).__name__}", argument="message")
        return await read_origin(self._laser, message)

    async def checkpoint(self, topics: Sequence[str] | None = None) -> Checkpoint:
        """Where topics end now; ``None`` means ``agent.sessions``."""
        return await self.scope().checkpoint(topics)

    @property
    def _lineage(self) -> Provenance | None:
        if self.parent is None and self.root is None:
            return None
        return Provenance(parent_conversation_id=self.parent, root_conversation_id=self.root)

    async def _began(self) -> int:
        if self._began_at_micros is None:
            self._began_at_micros = (await self.status()).began_at_micros
        return self._began_at_micros
