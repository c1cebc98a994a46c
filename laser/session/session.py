"""A session: one conversation with a recorded lifecycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import anyio.to_thread

from laser.context.connection import Connection
from laser.context.history import HistoryQuery, read_history
from laser.context.policies import LastN, PolicyLike, as_policy, select
from laser.errors import ConflictError, NotFoundError
from laser.limits import DEFAULT_COMPACTION_LEASE_SECONDS, DEFAULT_LAST_N
from laser.model.checkpoint import Checkpoint
from laser.model.checks import check_topics
from laser.model.provenance import Provenance
from laser.model.topics import AgentTopic
from laser.models.selection import ApiKind
from laser.session.active.active import ActiveContext
from laser.session.active.compacting import Compactor, compact
from laser.session.active.entries import NewEntry
from laser.session.active.events import CompactionMode
from laser.session.active.reading import ActiveLog
from laser.session.active.state import ActiveState
from laser.session.active.turns import Run
from laser.session.lifecycle import LifecycleEvent, SessionStatus, encode_event, fold_status
from laser.session.manifest import AssembledContext, encode_manifest, make_manifest
from laser.session.scope import ContextScope

__all__ = ["Session", "read_status"]

_LIFECYCLE: Final = AgentTopic.Control
_MANIFESTS: Final = AgentTopic.Audit


class Session:
    """One session. ``Sessions.start`` and ``Sessions.open`` make it.

    Attributes:
        id: the session's, which is its conversation's.
        parent, root: the sessions above it, ``None`` for a session of its own.
    """

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

    @property
    def active(self) -> ActiveContext:
        """What the next model call of the session will consume, as distinct from what happened."""
        return ActiveContext(self._active)

    def run(self, inputs: Sequence[NewEntry] = (), *, api: ApiKind | None = None) -> Run:
        """Work on one request, with ``async with``: ``run.turn()`` freezes the context for a model call.

        Args:
            inputs: entries that the run begins with.
            api: the kind of API that its model is called by. The first one that a run, or an entry, names is the
                session's for good; another one is refused.
        """
        return Run(self._active, inputs, api)

    async def compact(
        self,
        compactor: Compactor,
        *,
        seen: int | None = None,
        mode: CompactionMode = "strategy",
        lease: float = DEFAULT_COMPACTION_LEASE_SECONDS,
    ) -> ActiveState:
        """Replaces a part of the active context by a smaller account of it, that the compactor works out.

        Until it is through, runs and edits are refused. When the compactor fails, takes longer than the lease, or this
        is cancelled, everything stays as it was and the context can be used again. What was compacted stays on the log:
        see ``read_run`` and ``transcript``.

        Args:
            compactor: from the context to an ``Account``, or ``None`` when there is nothing to be won.
            seen: the revision to compact; ``None`` for that of now.
            mode: ``provider_triggered`` goes with OpenAI Responses only.
            lease: seconds that it may take; after that, by the log's clock, another request may take over.

        Returns:
            The context afterwards.

        Raises:
            BusyError: a run or another compaction is under way. ConflictError: the context is at another revision than
                ``seen``, or somebody else gave the compaction up meanwhile. InvalidError: the account is blank, or
                removes what has to stay. TimeoutError: the lease ran out. Whatever the compactor raises.

            In each case nothing was changed.
        """
        return await compact(self._active, compactor, seen=seen, mode=mode, lease=lease)

    def scope(self) -> ContextScope:
        """The scope of the session's conversation. Its appends carry the session's parent and root."""
        return ContextScope(self._laser, self.id, self._lineage)

    @property
    def _lineage(self) -> Provenance | None:
        if self.parent is None and self.root is None:
            return None
        return Provenance(parent_conversation_id=self.parent, root_conversation_id=self.root)

    async def _began(self) -> int:
        if self._began_at_micros is None:
            self._began_at_micros = (await self.status()).began_at_micros
        return self._began_at_micros

    async def status(self) -> SessionStatus:
        """How the session stands, folded from the log.

        Raises:
            NotFoundError: retention removed its beginning.
        """
        return await read_status(self._laser, self.id)

    async def end(self) -> SessionStatus:
        """Finishes the session as ``ended``.

        Returns:
            The status; it is the same when the session had ended already.

        Raises:
            ConflictError: it finished in another state before.
        """
        return await self._finish(LifecycleEvent("ended"))

    async def fail(self, error: object) -> SessionStatus:
        """Finishes the session as ``failed``.

        Args:
            error: what went wrong, as JSON that comes back as it is (see ``encode_state``); an exception is kept as
                its type and text.

        Raises:
            InvalidError: the error cannot be kept, with the path inside it; nothing was written.
            ConflictError: the session finished in another state before.
        """
        value: object = error
        if isinstance(error, BaseException):
            text = str(error).encode(errors="replace").decode()
            value = {"type": type(error).__name__, "message": text}
        return await self._finish(LifecycleEvent("failed", error=value))

    async def cancel(self) -> SessionStatus:
        """Finishes the session as ``cancelled``.

        Raises:
            ConflictError: it finished in another state before.
        """
        return await self._finish(LifecycleEvent("cancelled"))

    async def assemble(
        self, policy: PolicyLike | None = None, *, topics: Sequence[str] | None = None
    ) -> AssembledContext:
        """The conversation under a policy, with a manifest of what was kept and dropped.

        The manifest is appended to ``agent.audit`` before this returns.

        Args:
            policy: ``None`` keeps the newest 50. topics: names; ``None`` means ``agent.sessions``.
        """
        chosen = LastN(DEFAULT_LAST_N) if policy is None else as_policy(policy)
        names = [AgentTopic.Sessions] if topics is None else check_topics(topics)
        history = await read_history(self._laser.open_log(), self._laser.stream, HistoryQuery(self.id, names))
        selection = await anyio.to_thread.run_sync(select, chosen, list(history))
        manifest = make_manifest(self.id, chosen, selection, history.skipped)
        await self.scope().append(_MANIFESTS, encode_manifest(manifest), agent=self._agent)
        return AssembledContext(selection.kept, manifest)

    async def checkpoint(self, topics: Sequence[str] | None = None) -> Checkpoint:
        """Where topics end now; ``None`` means ``agent.sessions``."""
        return await self.scope().checkpoint(topics)

    async def _finish(self, event: LifecycleEvent) -> SessionStatus:
        payload = encode_event(event)
        before = await self.status()
        if before.state == "running":
            await self.scope().append(_LIFECYCLE, payload, agent=self._agent)
            # Another agent may have been first: the log decides, not what was seen before the append.
            before = await self.status()
        if before.state != event.event:
            raise ConflictError(
                f"session {self.id} finished as {before.state} before it could be {event.event}; that state stands"
            )
        return before

    def __repr__(self) -> str:
        return f"Session({self.id!r})"


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
