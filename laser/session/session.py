"""A session: one conversation with a recorded lifecycle."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, Literal

import anyio.to_thread

from laser.content.content import Content, check_content
from laser.context.history import HistoryQuery, read_history
from laser.context.policies import LastN, PolicyLike, as_policy, select
from laser.errors import NotFoundError
from laser.limits import DEFAULT_COMPACTION_LEASE_SECONDS, DEFAULT_LAST_N
from laser.model.checkpoint import Checkpoint
from laser.model.checks import check_topics
from laser.model.content import ContentRef
from laser.model.ids import new_conversation_id
from laser.model.messages import ContextMessage
from laser.model.topics import AgentTopic
from laser.models.selection import ApiKind
from laser.ports.files import Files
from laser.session.active.active import ActiveContext
from laser.session.active.compacting import Compactor, compact
from laser.session.active.entries import NewEntry
from laser.session.active.events import CompactionMode
from laser.session.active.state import ActiveState
from laser.session.active.turns import Run
from laser.session.discovery.discovering import catalog_entry, discover, skill_entry
from laser.session.discovery.reports import Discovery, Skill, encode_report
from laser.session.forking import copy_session
from laser.session.holding import hold_for, session_holder
from laser.session.lifecycle import LifecycleEvent, SessionStatus, check_label, encode_event, failure
from laser.session.manifest import AssembledContext, encode_manifest, make_manifest
from laser.session.scope import ContextScope
from laser.session.status import finish
from laser.session.unmoved import check_after, check_unmoved
from laser.session.views import SessionViews

__all__ = ["Session"]

_logger = logging.getLogger("laser.session")

_LIFECYCLE: Final = AgentTopic.Control
_MANIFESTS: Final = AgentTopic.Audit
_DISCOVERY: Final = "discovery"
_CONFIGURATION: Final = frozenset({"instruction", "catalog", "skill"})


class Session(SessionViews):
    """One session. ``Sessions.start`` and ``Sessions.open`` make it.

    Attributes:
        id: the session's, which is its conversation's.
        parent, root: the sessions above it, ``None`` for a session of its own.
    """

    @property
    def active(self) -> ActiveContext:
        """What the next model call of the session will consume, as distinct from what happened."""
        return ActiveContext(self._active)

    def run(
        self,
        inputs: Sequence[NewEntry] = (),
        *,
        api: ApiKind | None = None,
        seen: int | None = None,
        after: ContextMessage | Checkpoint | None = None,
    ) -> Run:
        """Work on one request, with ``async with``: ``run.turn()`` freezes the context for a model call.

        A session has one run at a time, on every engine: of two that begin at once the first one on the log has it, and
        the other one raises before it does anything. So agents that append messages within their runs only never
        interleave. ``seen`` and ``after`` refuse a run too that was thought of before another one was through.

        Args:
            inputs: entries that the run begins with.
            api: the kind of API that its model is called by. The first one that a run, or an entry, names is the
                session's for good; another one is refused.
            seen: the revision that the active context must be at, as in edits.
            after: the newest message on ``agent.sessions`` that the caller saw, or a checkpoint of where that topic
                ended. The run begins only when the conversation has no message after it, and no other run began since
                this was looked up. A message that is appended outside runs counts when it was there at that look.

        Raises (when it begins):
            BusyError: another run or a compaction is under way. ConflictError: the context or the conversation went on
                since. RetentionGapError, StaleCheckpointError: the log cannot tell. In each case nothing was changed.
        """
        if after is None:
            return Run(self._active, inputs, api, seen)
        last = check_after(after, self.id)

        async def unmoved() -> None:
            await check_unmoved(self._laser.open_log(), self._laser.stream, self.id, self._began, last)

        return Run(self._active, inputs, api, seen, unmoved)

    async def discover(self, files: Files | Sequence[Files]) -> Discovery:
        """Brings instructions and the catalog of skills up to date with files; see ``discover`` for where they are.

        What is the same as before stays as it is. When something changed, the report is appended to ``agent.audit``.

        Args:
            files: a ``Directory``, or several.

        Raises:
            BusyError: a run is under way, or waits: derived input changes between runs only.
        """
        found = await discover(files)
        catalog = catalog_entry(found.skills)
        before = await self._active.read()
        after = await self.active.refresh(_DISCOVERY, [*found.instructions, *(() if catalog is None else (catalog,))])
        if after.revision != before.revision:
            try:
                await self.scope().append(_MANIFESTS, encode_report(found.report), agent=self._agent)
            except NotFoundError:
                _logger.info("session %s: no topic %s to keep the discovery's report", self.id, _MANIFESTS)
        return found

    async def activate(
        self, files: Files | Sequence[Files], skill: Skill, *, scope: Literal["session", "run"] = "run"
    ) -> ActiveState:
        """Puts a skill's text into the active context: for the run under way, or for the session.

        Raises:
            InvalidError: for a run, and none is under way. NotFoundError, LimitError, CodecError: its file is not what
                it was. ConflictError: the context changed meanwhile; call again.
        """
        entry = await skill_entry(files, skill, scope)
        return await self.active.add((await self._active.read()).revision, entry)

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
        return await self._finish(failure(error))

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

    async def fork(
        self,
        at: ContextMessage | Checkpoint | None = None,
        *,
        label: str | None = None,
        agent: str | None = None,
        partial: bool = False,
        content: Content | None = None,
    ) -> Session:
        """A new session that begins with this one's past: its messages, and its active context's events.

        They are copied, so neither session sees what comes later in the other, and neither one's retention takes
        anything from the other. A run or compaction under way at that moment does not go on in the fork. The fork has
        no parent; ``SessionStatus.origin`` says where it comes from, ``origin_of`` where each message does. A fork that
        is interrupted leaves records that no session has.

        Args:
            at: the moment. A message of this session on ``agent.sessions``: up to and including it. A checkpoint: what
                came before it; take it with ``checkpoint(["agent.sessions", "agent.active"])``, else the context is cut
                by the time of the first message after it. ``None``: now.
            label: for people. agent: who works on the fork.
            partial: copy the messages that are left when retention took the oldest; the context is never partial.
            content: whose content the session refers to, where it does: the fork holds it too.

        Raises:
            InvalidError: a message of another conversation, a checkpoint that does not cover ``agent.sessions``.
            RetentionGapError: messages or events that the fork needs are gone. StaleCheckpointError: the log is not the
                one of the checkpoint. In each case there is no new session.
        """
        if label is not None:
            check_label(label)
        if content is not None:
            check_content(content, "content")
        target = new_conversation_id()
        began = await self._began()
        origin = await copy_session(self._laser, self.id, target, at, agent, began, partial=partial, content=content)
        return await self._start(target, LifecycleEvent("started", label, origin=origin), agent)

    async def clone(
        self, *, label: str | None = None, agent: str | None = None, content: Content | None = None
    ) -> Session:
        """A new session that is set up like this one: its instructions, current catalogs and active skills, and nothing
        that was said or done.

        Args:
            label: for people. agent: who works on it. content: as in ``fork``.
        """
        if label is not None:
            check_label(label)
        if content is not None:
            check_content(content, "content")
        state = await self._active.read()
        kept = [
            held.entry
            for held in state.entries
            if held.kind in _CONFIGURATION and not held.superseded and held.run is None
        ]
        target = new_conversation_id()
        await hold_for(content, target, [entry.ref for entry in kept if entry.ref is not None])
        clone = await self._start(target, LifecycleEvent("started", label), agent)
        if kept:
            await clone.active.add(0, *kept)
        return clone

    async def keep(self, content: Content, *refs: ContentRef) -> None:
        """Has the session hold content that entries of its active context refer to. Call it before they are added.

        Raises:
            NotFoundError: the tenant has no such content.
        """
        check_content(content, "content")
        await content.hold(session_holder(self.id), refs)

    async def _start(self, session_id: str, event: LifecycleEvent, agent: str | None) -> Session:
        await ContextScope(self._laser, session_id).append(_LIFECYCLE, encode_event(event), agent=agent)
        began = None if event.origin is None else event.origin.began_at_micros
        return Session(self._laser, session_id, None, None, agent, began_at_micros=began)

    async def _finish(self, event: LifecycleEvent) -> SessionStatus:
        return await finish(self._laser, self.scope(), event, self._agent)

    def __repr__(self) -> str:
        return f"Session({self.id!r})"
