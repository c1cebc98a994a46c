"""What the records of a memory topic say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

__all__ = [
    "MEMORY_KINDS",
    "FactMark",
    "Forgotten",
    "MemoryChange",
    "MemoryKind",
    "MemoryOwner",
    "Remembered",
    "Weighed",
]

MemoryKind = Literal["fact", "message", "summary", "entity", "feedback", "procedure"]

MEMORY_KINDS: Final[tuple[MemoryKind, ...]] = ("fact", "message", "summary", "entity", "feedback", "procedure")


class MemoryOwner(msgspec.Struct, frozen=True, gc=False):
    """Whose memory it is; ``None`` where nobody was named.

    Attributes:
        namespace: as on the wire, ``stream:STREAM/NAMESPACE``.
        conversation: canonical; of a record it is always there, of a read ``None`` means every conversation.
        agent, user, app: names.
    """

    namespace: str
    conversation: str | None = None
    agent: str | None = None
    user: str | None = None
    app: str | None = None

    def sees(self, other: MemoryOwner) -> bool:
        """Whether a read for this owner sees what another one wrote: every part that this one names is equal."""
        return (
            self.namespace == other.namespace
            and self.conversation in (None, other.conversation)
            and self.agent in (None, other.agent)
            and self.user in (None, other.user)
            and self.app in (None, other.app)
        )


class FactMark(msgspec.Struct, frozen=True, gc=False):
    """What makes an item a fact with a key.

    Attributes:
        key: the fact's key. origin: who wrote it: ``engine``, ``operator`` or ``distilled:SESSION``.
        expires_at_micros: when it stops being true, microseconds since 1970 UTC; ``None`` never.
    """

    key: str
    origin: str
    expires_at_micros: int | None = None


class Remembered(msgspec.Struct, frozen=True):
    """An item was remembered.

    Attributes:
        id: a ULID, 26 characters. kind: a ``MemoryKind``, or one that a newer writer knows.
        body: as given. at_micros: the broker's time. partition, offset: where the record is.
        fact: for a fact with a key. durable: consolidation leaves it alone.
        sources: of a summary, the ids of the items that went into it.
        lineage: ``origin`` and ``producer`` as laser-sdk writes them, else empty.
    """

    id: str
    kind: str
    body: bytes
    owner: MemoryOwner
    at_micros: int
    partition: int
    offset: int
    fact: FactMark | None = None
    durable: bool = False
    sources: tuple[str, ...] = ()
    lineage: Mapping[str, Any] = {}

    def is_over(self, now_micros: int) -> bool:
        """Whether it is a fact whose time is over."""
        end = None if self.fact is None else self.fact.expires_at_micros
        return end is not None and end <= now_micros


class Weighed(msgspec.Struct, frozen=True, gc=False):
    """Feedback on an item.

    Attributes:
        target: the item's id. weight: finite, positive promotes. within: only for an item of this conversation.
        note: the reason, in words.
    """

    target: str
    weight: float
    within: str | None
    owner: MemoryOwner
    at_micros: int
    partition: int
    offset: int
    note: str | None = None


class Forgotten(msgspec.Struct, frozen=True, gc=False):
    """An item was forgotten.

    Attributes:
        target: the item's id. within: only an item of this conversation.
        pruned: to save room, after it went into a summary or for being old; else because somebody wanted it gone, and
            then summaries made of it go too.
    """

    target: str
    within: str | None
    owner: MemoryOwner
    at_micros: int
    partition: int
    offset: int
    pruned: bool = False


MemoryChange = Remembered | Weighed | Forgotten
