"""Memory: what agents learnt, found again by keyword, by meaning, by age."""

from __future__ import annotations

from typing import Final

from laser.context.connection import Connection
from laser.errors import InvalidError, NotFoundError
from laser.memory.arguments import (
    check_item_id,
    check_kind,
    check_limit,
    check_text,
    check_weight,
    read_body,
    read_owner,
)
from laser.memory.consolidation import ConsolidationReport, Summarize, consolidate
from laser.memory.facts import FactCell, cell_of
from laser.memory.forgetting import clear_items, forget_item, is_of_another, sweep_facts
from laser.memory.reading import Backend, MemoryReader, Strategy
from laser.memory.recalling import Related
from laser.memory.reranking import Rerank
from laser.memory.writing import MemoryWriter
from laser.model.ids import parse_conversation_id
from laser.model.memory import MemoryKind
from laser.ports.clock import Clock
from laser.ports.embedder import Embedder

__all__ = ["Backend", "Memory", "Strategy"]

_MAX_NOTE_BYTES: Final = 255


class Memory(MemoryReader):
    """The memory of a namespace, across conversations. ``Laser.memory`` makes it, without any I/O.

    Items live on the topic ``agent.memory``, which is created with the first one. They are recalled from a read view
    that first catches up with the topic, so a recall never misses what was remembered before it.

    ``conversation``, ``agent``, ``user`` and ``application`` say whose an item is, and whose items a call is about. A
    read that names one sees only items that name the same; a read that does not sees all of them.

    Args (of ``Laser.memory_with``):
        backend: ``auto`` recalls from the read view; ``log`` folds the topic in this process at every recall, as with
            ``folded``; ``vector`` is ``auto`` with ``semantic`` where a query names no strategy.
        embedder: for recall by meaning; items without a vector get theirs at the next such recall.
        rerank: a second look at the best by a model.

    **Forgetting.** A forgotten item is in no answer of any reader from then on, and neither is a summary that
    ``consolidate`` made of it; remembered again by its content (``dedup``) it stays forgotten, as in laser-sdk. Its
    record stays on the log until retention or ``purge_topic`` takes it, and words of it may stay in the view's file
    until SQLite tidies its index or ``rebuild`` makes it anew.

    **Errors of every method.** ``InvalidError`` and ``LimitError`` name a bad argument; nothing was read or written.
    Others are those of the log and of the views: ``ClosedError``, ``StorageError``, ``TransportError``.
    """

    def __init__(
        self,
        laser: Connection,
        namespace: str,
        backend: Backend = "auto",
        *,
        embedder: Embedder | None = None,
        rerank: Rerank | None = None,
        related: Related | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(laser, namespace, backend, embedder=embedder, rerank=rerank, related=related, clock=clock)
        self._writer = MemoryWriter(self._source)

    async def remember(
        self,
        payload: bytes | str,
        *,
        kind: MemoryKind = "fact",
        dedup: bool = False,
        durable: bool = False,
        conversation: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
        producer: tuple[str, str] | None = None,
    ) -> str:
        """Remembers something. When it returns, every later recall finds it.

        Args:
            payload: bytes, or text that becomes UTF-8; 0 to ``MAX_MEMORY_BODY_BYTES`` bytes.
            kind: ``fact``, ``message``, ``summary``, ``entity``, ``feedback`` or ``procedure``.
            dedup: derive the id from the payload, the kind, and whose it is: the same again is the same item.
            durable: ``consolidate`` leaves it alone.
            producer: what made it: name and version.

        Returns:
            The item's id.
        """
        owner = read_owner(self._namespace, conversation=conversation, agent=agent, user=user, application=application)
        return await self._writer.remember(owner, read_body(payload), check_kind(kind), dedup, durable, producer)

    async def improve(
        self,
        id: str,
        weight: float,
        *,
        note: str | None = None,
        conversation: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> str:
        """Gives feedback on an item: recalls rank it higher, or lower, from then on. Feedback adds up.

        Args:
            id: the item's. weight: positive to promote, negative to demote; 2 doubles a score, -2 halves it.
            note: the reason, 1 to 255 bytes.
            conversation: count it only for an item that was remembered in this conversation.
            agent, user, application: whose item it must be.

        Returns:
            The id of the feedback's record.

        Raises:
            NotFoundError: the item is of another agent, user or application than those named.
        """
        owner = read_owner(self._namespace, conversation=conversation, agent=agent, user=user, application=application)
        if note is not None:
            check_text(note, "note", _MAX_NOTE_BYTES)
        target, weight = check_item_id(id, "id"), check_weight(weight)
        if (agent, user, application) != (None, None, None) and await is_of_another(self._source, owner, target):
            raise NotFoundError(f"id: there is no item {target} of the agent, user or application that is named")
        return await self._writer.improve(owner, target, weight, note)

    async def forget(
        self,
        id: str,
        *,
        conversation: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> None:
        """Forgets an item, for good. Forgetting what is not there is no error.

        Of a fact with a key the earlier values go too, so that none of them holds again.

        Args:
            conversation: only where it was remembered in this conversation.
            agent, user, application: only where it is theirs.
        """
        owner = read_owner(self._namespace, conversation=conversation, agent=agent, user=user, application=application)
        await forget_item(self._source, self._writer, owner, check_item_id(id, "id"))

    async def clear(
        self,
        *,
        conversation: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> int:
        """Forgets every item of a scope: exactly those that name all that is given here. Facts go with their history.

        Returns:
            How many there were.

        Raises:
            InvalidError: nothing is given; a whole namespace is never cleared by an omission.
        """
        owner = read_owner(self._namespace, conversation=conversation, agent=agent, user=user, application=application)
        if (conversation, agent, user, application) == (None, None, None, None):
            raise InvalidError(
                "clear: name a conversation, agent, user or application; a whole namespace goes item by item",
                argument="conversation",
            )
        return await clear_items(self._source, self._writer, owner)

    async def consolidate(
        self,
        max_items: int,
        *,
        summarizer: Summarize | None = None,
        prune_summarized: bool = False,
        conversation: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        application: str | None = None,
    ) -> ConsolidationReport:
        """Keeps the newest items of a scope and forgets the rest, perhaps with a summary of its messages first.

        Args:
            max_items: how many stay, from 0. Durable items and facts with a key stay anyway and do not count.
            summarizer: from the bodies of all ``message`` items, newest first, to the summary's; sync or async. A
                summary that is empty or blank, or an error, leaves everything as it is.
            prune_summarized: the messages that went into the summary go first.
        """
        owner = read_owner(self._namespace, conversation=conversation, agent=agent, user=user, application=application)
        check_limit(max_items, "max_items")
        return await consolidate(
            self._source, self._writer, owner, max_items, summarizer, prune_summarized, self._clock.now_micros()
        )

    def facts(self, *, tenant: str | None = None, customer: str | None = None, session: str | None = None) -> FactCell:
        """The facts of a customer of a tenant, of a tenant, or of a session: the first of these that is named.

        Args:
            tenant, customer: names of 1 to 255 bytes. session: a conversation id.
        """
        names = read_owner(self._namespace, user=customer, application=tenant)
        where = None if session is None else parse_conversation_id(session)
        return FactCell(self._source, cell_of(self._namespace, names.app, names.user, where), self._clock)

    async def sweep(self) -> int:
        """Forgets every fact of the namespace whose time is over, with what it replaced. Returns how many values."""
        return await sweep_facts(self._source, self._writer, self._namespace, self._clock.now_micros())
