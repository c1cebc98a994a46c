"""The moves of one workspace's head: written to the log, and folded from it."""

from __future__ import annotations

from typing import Final, Protocol

import anyio

from laser.content.content import Content
from laser.content.store import ContentConnection
from laser.context.connection import Connection
from laser.context.referencing import append_holding, record_holder
from laser.context.replay import Replay
from laser.context.snapshots import resume_point, snapshot_of_spans
from laser.context.spans import look_up, spans_from_checkpoint, spans_full
from laser.errors import CodecError, NotFoundError, StaleCheckpointError
from laser.model.content import ContentEntry, ContentRef
from laser.model.ids import derive_conversation_id, new_record_id
from laser.model.messages import ContextMessage
from laser.model.provenance import Provenance
from laser.model.records import NewRecord
from laser.model.snapshot import Snapshot
from laser.model.topics import TopicConfig
from laser.model.window import Match
from laser.wire.provenance import encode_provenance
from laser.workspace.heads import WORKSPACE_TOPIC, HeadMoved, HeadState, WorkspaceDeleted, decode_head, encode_head
from laser.workspace.trees import TREE_TYPE

__all__ = ["HeadLog", "WorkspaceConnection", "head_conversation"]

_PARTITIONS: Final = 4
_FOLD: Final = "laser.workspace"
_MAX_VERDICTS: Final = 4_096


class WorkspaceConnection(Connection, ContentConnection, Protocol):
    """An open client. ``Laser`` is one."""


class HeadLog:
    """The moves of one head, folded once and then only from where the last fold ended."""

    def __init__(self, laser: WorkspaceConnection, content: Content, name: str, agent: str | None) -> None:
        self._laser = laser
        self._content = content
        self._name = name
        self._agent = agent
        self._conversation = head_conversation(content.tenant, name)
        self._lock = anyio.Lock()
        self._state = HeadState()
        self._at: Snapshot | None = None
        self._last_ids: dict[tuple[str, int], tuple[int, int | None]] = {}
        self._applied: dict[int, bool] = {}

    async def read(self) -> HeadState:
        """The head, with every move that was on the log when this was called. Not to be changed."""
        async with self._lock:
            await self._catch_up()
            return self._state

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
        try:
            await self._append(record, root)
        except NotFoundError:
            if await self._laser.open_log().topic(self._laser.stream, WORKSPACE_TOPIC) is not None:
                raise
            await self._laser.open_log().ensure_topic(self._laser.stream, WORKSPACE_TOPIC, TopicConfig(_PARTITIONS))
            await self._append(record, root)
        async with self._lock:
            await self._catch_up()
            took = self._applied.pop(record.id, False)
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

    async def _catch_up(self) -> None:
        try:
            replay = await self._replay(self._at)
            moved = await self._run(replay)
        except StaleCheckpointError:
            # The topic was made anew, or lost its end: what was folded is of another log.
            self._state, self._at = HeadState(), None
            self._last_ids.clear()
            replay = await self._replay(None)
            moved = await self._run(replay)
        if moved or self._at is None:
            log, stream = self._laser.open_log(), self._laser.stream
            self._at = await snapshot_of_spans(
                log, stream, self._conversation, _FOLD, 1, replay.positions(), b"{}", None, self._last_ids
            )

    async def _replay(self, start: Snapshot | None) -> Replay:
        log, stream, topics = self._laser.open_log(), self._laser.stream, [WORKSPACE_TOPIC]
        infos = await look_up(log, stream, topics)
        if start is None:
            spans = spans_full(topics, infos)
        else:
            spans = spans_from_checkpoint(topics, infos, resume_point(start, topics, infos, stream))
        return Replay(log, stream, Match(self._conversation), spans)

    async def _run(self, replay: Replay) -> bool:
        moved = False
        while (batch := await replay.next_batch()) is not None:
            for message in batch:
                moved = True
                self._applied[message.record_id] = self._apply(message)
        # Only the moves of this handle ask for their verdict, and they ask at once.
        while len(self._applied) > _MAX_VERDICTS:
            del self._applied[next(iter(self._applied))]
        return moved

    def _apply(self, message: ContextMessage) -> bool:
        try:
            event = decode_head(message.payload)
        except CodecError:
            return False
        if event.tenant != self._content.tenant or event.name != self._name:
            return False
        return self._state.apply(event, message.provenance.agent, message.timestamp_micros, message.record_id)

    def _holder(self, record_id: int | None) -> str:
        return record_holder(self._laser.stream, WORKSPACE_TOPIC, self._conversation, record_id)


def head_conversation(tenant: str, name: str) -> str:
    """The conversation that a workspace's moves belong to, so that they share a partition."""
    return derive_conversation_id(f"laser.workspace/{len(tenant)}:{tenant}/{name}")
