"""The moves of one workspace's head: written to the log, and folded from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import anyio

from laser.content.content import Content
from laser.content.store import ContentConnection
from laser.context.connection import Connection
from laser.context.own_topics import in_own_topic
from laser.context.referencing import append_holding, record_holder
from laser.context.tail_fold import TailFold
from laser.errors import CodecError, NotFoundError, StaleCheckpointError
from laser.model.content import ContentEntry, ContentRef
from laser.model.ids import derive_conversation_id, new_record_id
from laser.model.messages import ContextMessage
from laser.model.provenance import Provenance
from laser.model.records import NewRecord
from laser.model.topics import TopicInfo
from laser.wire.provenance import encode_provenance
from laser.workspace.heads import WORKSPACE_TOPIC, HeadMoved, HeadState, WorkspaceDeleted, decode_head, encode_head
from laser.workspace.trees import TREE_TYPE

__all__ = ["HeadLog", "WorkspaceConnection", "head_conversation"]

_FOLD: Final = "laser.workspace"
_MAX_VERDICTS: Final = 4_096


class WorkspaceConnection(Connection, ContentConnection, Protocol):
    """An open client. ``Laser`` is one."""


class HeadLog:
    """The moves of one head: written to the log, and folded from it."""

    def __init__(self, laser: WorkspaceConnection, content: Content, name: str, agent: str | None) -> None:
        self._laser = laser
        self._content = content
        self._name = name
        self._agent = agent
        self._conversation = head_conversation(content.tenant, name)
        self._lock = anyio.Lock()
        self._tail = _HeadTail(laser, content.tenant, name)

    async def read(self) -> HeadState:
        """The head, with every move that was on the log when this was called. Not to be changed."""
        async with self._lock:
            await self._tail.catch_up()
            return self._tail.state

    async def move(self, event: HeadMoved | WorkspaceDeleted) -> bool:
        """Writes a move and says whether the log took it.

        The tree is held before the record names it, or together with it; a move that lost lets go of it again.
        """
        record = NewRecord(
            new_record_id(),
            encode_head(event),
            encode_provenance(Provenance(conversation_id=self._conversation, agent=self._agent)),
        )
        root = event.root if isinstance(event, HeadMoved) else None
        log, stream = self._laser.open_log(), self._laser.stream
        await in_own_topic(log, stream, WORKSPACE_TOPIC, lambda: self._append(record, root))
        async with self._lock:
            await self._tail.catch_up()
            took = self._tail.applied.pop(record.id, False)
        if root is not None and not took:
            await self._content.release(self._holder(record.id))
        return took

    async def let_go(self) -> None:
        """Lets go of every tree that a version held."""
        await self._content.release_below(self._holder(None))

    async def _append(self, record: NewRecord, root: str | None) -> None:
        log, stream = self._laser.open_log(), self._laser.stream
        if root is None:
            await log.append(stream, WORKSPACE_TOPIC, (record,), key=self._conversation)
            return
        store = await self._laser.open_content()
        entry = ContentEntry(ContentRef(root, TREE_TYPE), 0, None, "tree", "workspace", self._name)
        await append_holding(
            log,
            store,
            self._content.tenant,
            entry,
            stream,
            WORKSPACE_TOPIC,
            record,
            self._conversation,
            find_first=False,
        )

    def _holder(self, record_id: int | None) -> str:
        return record_holder(self._laser.stream, WORKSPACE_TOPIC, self._conversation, record_id)


class _HeadTail(TailFold):
    """One head, folded so far.

    Where moves that were not folded yet are gone by retention it does not begin anew: what is left would be another
    head than it was.

    Attributes:
        state: the head. applied: by a record's id, whether the log took it; the newest only.
    """

    anew_after = (StaleCheckpointError, NotFoundError)

    def __init__(self, laser: WorkspaceConnection, tenant: str, name: str) -> None:
        super().__init__(laser, head_conversation(tenant, name), WORKSPACE_TOPIC, _FOLD)
        self._workspace = tenant, name
        self.state = HeadState()
        self.applied: dict[int, bool] = {}

    def begin(self) -> None:
        """See ``TailFold.begin``."""
        self.state = HeadState()

    async def take(self, messages: Sequence[ContextMessage], topic: TopicInfo) -> None:
        """See ``TailFold.take``."""
        for message in messages:
            self.applied[message.record_id] = self._apply(message)
        # Only the moves of this handle ask for their verdict, and they ask at once.
        while len(self.applied) > _MAX_VERDICTS:
            del self.applied[next(iter(self.applied))]

    def _apply(self, message: ContextMessage) -> bool:
        try:
            event = decode_head(message.payload)
        except CodecError:
            return False
        if (event.tenant, event.name) != self._workspace:
            return False
        return self.state.apply(event, message.provenance.agent, message.timestamp_micros, message.record_id)


def head_conversation(tenant: str, name: str) -> str:
    """The conversation that a workspace's moves belong to, so that they share a partition."""
    return derive_conversation_id(f"laser.workspace/{len(tenant)}:{tenant}/{name}")
