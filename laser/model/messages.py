"""What a user reads back: messages of a conversation, receipts, and what was skipped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from laser.model.content import ContentEntry
from laser.model.provenance import Provenance

__all__ = ["AppendReceipt", "ContextMessage", "Messages", "SkippedRecord"]


class AppendReceipt(msgspec.Struct, frozen=True, gc=False):
    """Proof that a record is on the log.

    Attributes:
        stream_id, topic_id, partition, offset: where.
        id: the record's id, unsigned 128 bits; append again with it and nothing is written twice.
    """

    stream_id: int
    topic_id: int
    partition: int
    offset: int
    id: int


class ContextMessage(msgspec.Struct, frozen=True, gc=False):
    """One message of a conversation.

    Attributes:
        payload: the bytes as appended. topic: the topic's name.
        partition, offset: its place in the topic. record_id: the record's id, unsigned 128 bits.
        timestamp_micros: the broker's time at append, microseconds since 1970 UTC, as stored.
        stream_id, topic_id: the engine's numbers, for building references.
        provenance: who wrote it. envelope: the decoded envelope of a record that carries one, else ``None``.
        content: of a message whose bytes are kept as content: what and where; else ``None``. The payload is then the
            reference as it stands on the log, until ``fetch(resolve=…)`` or ``Content.resolve`` puts the bytes there.
    """

    payload: bytes
    topic: str
    partition: int
    offset: int
    record_id: int
    timestamp_micros: int
    stream_id: int
    topic_id: int
    provenance: Provenance
    envelope: Mapping[str, Any] | None = None
    content: ContentEntry | None = None

    @property
    def id(self) -> str:
        """The place as ``partition:offset``, the form that ``Provenance.causal_parent`` takes."""
        return f"{self.partition}:{self.offset}"

    @property
    def text(self) -> str:
        """The payload as UTF-8 text; bytes that are not UTF-8 become U+FFFD."""
        return self.payload.decode("utf-8", "replace")


class SkippedRecord(msgspec.Struct, frozen=True, gc=False):
    """A record that was in the window but could not be decoded.

    Attributes:
        topic, partition, offset: where. reason: what is wrong with it.
    """

    topic: str
    partition: int
    offset: int
    reason: str


class Messages(list[ContextMessage]):
    """The result of a read: a list of messages, oldest first, that also reports what was left out.

    Attributes:
        skipped: records of the window that could not be decoded.
    """

    def __init__(self, messages: Iterable[ContextMessage] = (), skipped: Iterable[SkippedRecord] = ()) -> None:
        super().__init__(messages)
        self.skipped: tuple[SkippedRecord, ...] = tuple(skipped)
