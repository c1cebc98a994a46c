"""The context scope: one conversation of a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from laser.content.content import Content, check_content
from laser.content.previews import describe
from laser.context.appending import (
    build_provenance,
    build_record,
    build_records,
    build_reference,
    check_writers,
    with_lineage,
)
from laser.context.assembly import assemble, choose_policy
from laser.context.checkpoints import take_checkpoint
from laser.context.connection import Connection
from laser.context.following import Follow
from laser.context.policies import PolicyLike, as_policy
from laser.context.referencing import append_holding
from laser.context.resuming import AutoSave, fold_with_store
from laser.context.state import Fold, FoldProgress, ReplayBound, fold_state
from laser.context.stores import SnapshotBackend, Store
from laser.context.telemetry import observe
from laser.errors import InvalidError
from laser.limits import DEFAULT_LAST_N
from laser.model.checkpoint import Checkpoint
from laser.model.checks import check_name, check_progress, check_record_id, check_topics
from laser.model.content import ContentEntry, ContentRef
from laser.model.ids import new_record_id, parse_conversation_id, ulid_text
from laser.model.messages import AppendReceipt, Messages
from laser.model.provenance import Provenance
from laser.model.records import Appended, NewRecord
from laser.model.topics import AgentTopic

__all__ = ["ConversationScope", "ConversationState"]

State = TypeVar("State")


class ConversationScope:
    """One conversation's messages and state. ``ContextScope`` is this with the rooms that build on it.

    A conversation's records on one topic share a partition: its id is the partition key.
    """

    def __init__(self, laser: Connection, conversation_id: str, lineage: Provenance | None = None) -> None:
        self._laser = laser
        self._stream = laser.stream
        self._conversation = parse_conversation_id(conversation_id)
        self._lineage = lineage

    @property
    def conversation(self) -> str:
        """The conversation id, canonical."""
        return self._conversation

    async def append(
        self,
        topic: str,
        payload: bytes | str,
        *,
        agent: str | None = None,
        provenance: Provenance | None = None,
        id: int | None = None,
        content: Content | None = None,
    ) -> AppendReceipt:
        """Writes one message. When it returns, the message is on the log as durably as its topic says.

        Args:
            topic: a topic that ``Laser.bootstrap`` or ``Laser.ensure_topic`` made.
            payload: bytes, or text that becomes UTF-8; 0 to ``MAX_PAYLOAD_BYTES`` bytes.
            agent: who writes it, 1 to 255 bytes.
            provenance: more about it. On ``agent.sessions`` a missing target becomes ``*``.
            id: the record's id, 1 to 2**128 - 1, for writing the same message again after
                ``AppendIndeterminateError`` or a crash: when a record of this conversation among the newest
                ``CONTEXT_READ_WINDOW`` of the partition has it, nothing is written and its receipt is returned.
            content: a tenant's content, from ``Laser.content``. A payload of more than ``content.over`` bytes is put
                there, and the message refers to it; ``fetch(resolve=content)`` gives the bytes back.

        Raises:
            InvalidError, LimitError: a bad argument; nothing was written.
            NotFoundError: the topic is absent; nothing was written to it.
            AppendIndeterminateError: no answer came; the message may be on the log. Append again with
                ``id=error.record_ids[0]``.
        """
        check_name(topic, "topic")
        if content is not None:
            check_content(content, "content")
        full = self._provenance(topic, agent, provenance)
        record = build_record(payload, full, id)
        if content is not None and len(record.payload) > content.over:
            # The whole call may be refused for its id or provenance; so these were looked at before anything is put.
            ref = await content.put(payload if isinstance(payload, str) else record.payload)
            entry = describe(ref, record.payload, ulid_text(record.id))
            return await self._append_entry(topic, content, entry, full, record.id, agent, find_first=id is not None)
        with observe("append", self._stream, self._conversation, topic, agent) as observed:
            done = await self._laser.open_log().append(
                self._stream, topic, (record,), key=self._conversation, find_first=id is not None
            )
            observed.note(messages=1, partition=done.partition)
        return AppendReceipt(done.stream_id, done.topic_id, done.partition, done.offsets[0], record.id)

    async def append_content(
        self,
        topic: str,
        ref: ContentRef | ContentEntry,
        *,
        content: Content,
        agent: str | None = None,
        provenance: Provenance | None = None,
        id: int | None = None,
    ) -> AppendReceipt:
        """Writes one message that refers to content of any size, and holds the content for as long as it is there.

        Args:
            ref: what ``content.put`` gave, or an entry that says more of it, from ``content.entry``.
            content: whose content it is. topic, agent, provenance, id: as in ``append``.

        Raises:
            NotFoundError: the content or the topic is absent; nothing was written. Others as ``append``.
        """
        check_name(topic, "topic")
        if not isinstance(ref, ContentRef | ContentEntry):
            raise InvalidError(
                f"ref: expected a ContentRef or a ContentEntry, got {type(ref).__name__}", argument="ref"
            )
        check_content(content, "content")
        full = self._provenance(topic, agent, provenance)
        identity = new_record_id() if id is None else check_record_id(id)
        if isinstance(ref, ContentRef):
            ref = await content.entry(ref, entry_id=ulid_text(identity))
        return await self._append_entry(topic, content, ref, full, identity, agent, find_first=id is not None)

    async def append_many(
        self,
        topic: str,
        payloads: Sequence[bytes | str],
        *,
        agent: str | Sequence[str | None] | None = None,
        provenance: Provenance | None = None,
        ids: Sequence[int] | None = None,
    ) -> list[AppendReceipt]:
        """Writes several messages as one batch: in order, next to each other, all or none.

        Args:
            payloads: at most ``MAX_BATCH_RECORDS``, together at most ``MAX_BATCH_BYTES`` bytes; none writes nothing.
            agent: who writes them all, or a list with the writer of each: a tool call and its result, or a question
                and its answer, are on the log together or not at all.
            provenance: as in ``append``, the same for all. ids: one for each payload, all different.

        Returns:
            A receipt for each payload, in their order.

        Raises:
            As ``append``; the error names the place in the list.
        """
        check_name(topic, "topic")
        writers = check_writers(agent, payloads)
        known = {writer: self._provenance(topic, writer, provenance) for writer in dict.fromkeys(writers)}
        records = build_records(payloads, [known[writer] for writer in writers], ids)
        if not records:
            return []
        with observe(
            "append", self._stream, self._conversation, topic, next(iter(known)) if len(known) == 1 else None
        ) as observed:
            done = await self._laser.open_log().append(
                self._stream, topic, records, key=self._conversation, find_first=ids is not None
            )
            observed.note(messages=len(records), partition=done.partition)
        return [
            AppendReceipt(done.stream_id, done.topic_id, done.partition, offset, record.id)
            for offset, record in zip(done.offsets, records, strict=True)
        ]

    async def fetch(
        self,
        *,
        topics: Sequence[str] | None = None,
        n: int = DEFAULT_LAST_N,
        token_budget: int | None = None,
        resolve: Content | None = None,
    ) -> Messages:
        """The newest messages, oldest first.

        Args:
            topics: names; ``None`` reads ``agent.sessions``. An absent topic reads as empty.
            n: how many, from 0; 0 reads nothing.
            token_budget: tokens that they may cost together, by the default estimate; the newest one stays even
                when it alone costs more. A message that refers to content costs what its entry says.
            resolve: a tenant's content: those that are kept and refer to it get their bytes as payload.

        Raises:
            InvalidError: a bad argument; nothing was read.
            NotFoundError, StorageError, LimitError: of ``resolve``; see ``Content.resolve``.
        """
        if resolve is not None:
            check_content(resolve, "resolve")
        policy = choose_policy(last_n=n, roles=None, token_budget=token_budget, policy=None, count_name="n")
        found = await assemble(self._laser.open_log(), self._stream, self._conversation, policy, topics=topics)
        return found if resolve is None else await _resolved(found, resolve)

    async def fetch_with(
        self, topics: Sequence[str], policy: PolicyLike, *, resolve: Content | None = None
    ) -> Messages:
        """The messages that a policy keeps, oldest first.

        Args:
            topics: names. policy: a policy, or a function from messages to the messages to keep; it sees references
                as they are. resolve: as in ``fetch``.
        """
        if resolve is not None:
            check_content(resolve, "resolve")
        found = await assemble(
            self._laser.open_log(), self._stream, self._conversation, as_policy(policy), topics=topics
        )
        return found if resolve is None else await _resolved(found, resolve)

    async def block(
        self,
        *,
        topics: Sequence[str] | None = None,
        n: int = DEFAULT_LAST_N,
        token_budget: int | None = None,
        resolve: Content | None = None,
    ) -> str:
        """The newest messages as one text ready for a prompt: their texts joined by newlines. As ``fetch``."""
        messages = await self.fetch(topics=topics, n=n, token_budget=token_budget, resolve=resolve)
        return "\n".join(message.text for message in messages)

    async def checkpoint(self, topics: Sequence[str] | None = None) -> Checkpoint:
        """Where topics end now.

        Args:
            topics: names; ``None`` means ``agent.sessions``. An absent topic is not covered.
        """
        return await take_checkpoint(self._laser.open_log(), self._stream, topics)

    async def state(
        self,
        topics: Sequence[str],
        init: State,
        fold: Fold[State],
        *,
        last_n: int | None = None,
        from_offsets: Mapping[str, Mapping[int, int]] | None = None,
        from_checkpoint: Checkpoint | None = None,
        at: Checkpoint | None = None,
        full: bool = False,
        progress: Callable[[FoldProgress], None] | None = None,
    ) -> State:
        """Folds the conversation's messages into a value, in their order. Takes exactly one bound.

        The whole range of the bound is read, page by page and in constant memory; only ``last_n`` is limited to the
        read window.

        Args:
            topics: names; an absent topic has no messages.
            init: the value to begin with; a dict, list, set, deque or bytearray is copied first.
            fold: from the value so far and a message to the new value; a plain or an async function.
            last_n: the newest messages. from_offsets: by topic name, by partition, the first offset; a missing
                partition is read from its beginning. from_checkpoint: what came after it. at: what came before it.
                full: everything that the log holds.
            progress: called after each page, and at the end, with how far the fold is.

        Raises:
            InvalidError: no bound or several, or a bad argument; nothing was read.
            StaleCheckpointError: the log is not the one of the checkpoint. RetentionGapError: records that the bound
                needs are gone.
        """
        check_progress(progress)
        bound = ReplayBound(last_n, from_offsets, from_checkpoint, at, full)
        with observe("fold", self._stream, self._conversation, topics) as observed:
            return await fold_state(
                self._laser.open_log(),
                self._stream,
                self._conversation,
                topics,
                init,
                fold,
                bound,
                observed.follow(progress),
            )

    async def state_with(
        self,
        store: Store | SnapshotBackend,
        topics: Sequence[str],
        init: Any,
        fold: Fold[Any],
        *,
        save: AutoSave | None = None,
        progress: Callable[[FoldProgress], None] | None = None,
    ) -> Any:
        """Folds from the store's latest snapshot on; from ``init`` and the start where there is none.

        A snapshot of another version of the fold, or one that cannot be read, is passed over with a warning in the
        log ``laser.context``, and the fold starts from the beginning.

        Args:
            store: ``TopicSnapshotStore``, ``KvSnapshotStore``, or any object with ``latest`` and ``save``.
            topics, init, fold, progress: as in ``state``. save: when to save by itself; ``None`` never.

        Raises:
            StaleCheckpointError: the stream or a topic was made anew since the snapshot, or lost records.
            RetentionGapError: records after the snapshot are gone.
        """
        check_progress(progress)
        with observe("fold", self._stream, self._conversation, topics) as observed:
            return await fold_with_store(
                self._laser, self._conversation, store, topics, init, fold, save, observed.follow(progress)
            )

    def follow(self, topics: Sequence[str] | None = None, from_checkpoint: Checkpoint | None = None) -> Follow:
        """New messages as they arrive, and one ``CaughtUp`` when those that were there already are through.

        Args:
            topics: names; ``None`` means ``agent.sessions``.
            from_checkpoint: begin there; ``None`` begins at the end as of the first step of the iteration.
        """
        if from_checkpoint is not None and not isinstance(from_checkpoint, Checkpoint):
            raise InvalidError(
                f"from_checkpoint: expected a Checkpoint, got {type(from_checkpoint).__name__}",
                argument="from_checkpoint",
            )
        names = [AgentTopic.Sessions] if topics is None else check_topics(topics)
        return Follow(self._laser.open_log(), self._stream, self._conversation, names, from_checkpoint)

    async def _append_entry(
        self,
        topic: str,
        content: Content,
        entry: ContentEntry,
        provenance: Provenance,
        record_id: int,
        agent: str | None,
        *,
        find_first: bool,
    ) -> AppendReceipt:
        record = build_reference(entry, provenance, record_id)
        with observe("append", self._stream, self._conversation, topic, agent) as observed:
            done = await append_holding(
                self._laser.open_log(),
                await self._laser.open_content(),
                content.tenant,
                entry,
                self._stream,
                topic,
                record,
                self._conversation,
                find_first=find_first,
            )
            observed.note(messages=1, partition=done.partition)
        return AppendReceipt(done.stream_id, done.topic_id, done.partition, done.offsets[0], record.id)

    async def _write(self, topic: str, records: Sequence[NewRecord], find_first: bool) -> Appended:
        return await self._laser.open_log().append(
            self._stream, topic, records, key=self._conversation, find_first=find_first
        )

    def _provenance(self, topic: str, agent: str | None, provenance: Provenance | None) -> Provenance:
        if self._lineage is not None:
            provenance = with_lineage(self._lineage, provenance)
        return build_provenance(self._conversation, topic, agent, provenance)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(stream={self._stream!r}, conversation={self._conversation!r})"


async def _resolved(messages: Messages, content: Content) -> Messages:
    return Messages([await content.resolve(message) for message in messages], messages.skipped)


class ConversationState:
    """The folds of ``ContextScope.state`` and ``state_with`` without a scope."""

    @staticmethod
    async def load(
        laser: Connection,
        conversation: str,
        topics: Sequence[str],
        init: State,
        fold: Fold[State],
        *,
        last_n: int | None = None,
        from_offsets: Mapping[str, Mapping[int, int]] | None = None,
        from_checkpoint: Checkpoint | None = None,
        at: Checkpoint | None = None,
        full: bool = False,
        progress: Callable[[FoldProgress], None] | None = None,
    ) -> State:
        """As ``ContextScope.state``."""
        return await ConversationScope(laser, conversation).state(
            topics,
            init,
            fold,
            last_n=last_n,
            from_offsets=from_offsets,
            from_checkpoint=from_checkpoint,
            at=at,
            full=full,
            progress=progress,
        )

    @staticmethod
    async def load_with(
        laser: Connection,
        store: Store | SnapshotBackend,
        conversation: str,
        topics: Sequence[str],
        init: Any,
        fold: Fold[Any],
        *,
        save: AutoSave | None = None,
        progress: Callable[[FoldProgress], None] | None = None,
    ) -> Any:
        """As ``ContextScope.state_with``."""
        return await ConversationScope(laser, conversation).state_with(
            store, topics, init, fold, save=save, progress=progress
        )
