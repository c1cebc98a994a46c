"""What a recall gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from laser.model.memory import Remembered

__all__ = ["MemoryItem", "one_each"]


class MemoryItem(msgspec.Struct, frozen=True):
    """One remembered item, as recalled.

    Attributes:
        id: its id. kind: ``fact``, ``message``, ``summary``, ``entity``, ``feedback`` or ``procedure``.
        body: as remembered.
        score: what the order is by, higher first; ``None`` where the order is by time alone. Scores of different
            strategies cannot be compared.
        signals: what the score was made of, by name: ``keyword`` (BM25), ``semantic`` (cosine), ``feedback`` (the sum
            of the weights), ``recency`` (1 for the newest, falling by half a month), ``rerank``; only those that were
            used.
        weight: the sum of the feedback on it; ``None`` where there is none.
        conversation: where it was remembered. agent, user, app: for whom, ``None`` where nobody was named.
        created_at_micros: the broker's time, microseconds since 1970 UTC. partition, offset: where the record is.
        key, value: of a fact with a key, else ``None``. origin: who wrote it: ``engine``, ``operator`` or
            ``distilled:SESSION``; ``None`` for anything but such a fact.
        expires_at_micros: when the fact ends; ``None`` never.
        source: the record that it was learnt from, as laser-sdk writes it. producer: likewise; ``None`` for none.
    """

    id: str
    kind: str
    body: bytes
    score: float | None
    signals: Mapping[str, float]
    weight: float | None
    conversation: str
    agent: str | None
    user: str | None
    app: str | None
    created_at_micros: int
    partition: int
    offset: int
    key: str | None = None
    origin: str | None = None
    expires_at_micros: int | None = None
    source: Any = None
    producer: Any = None

    @property
    def text(self) -> str:
        """The body as UTF-8 text; bytes that are not UTF-8 become U+FFFD."""
        return self.body.decode("utf-8", "replace")

    @property
    def value(self) -> str | None:
        """The value of a fact with a key."""
        return None if self.key is None else self.text.removeprefix(f"{self.key}: ")

    @classmethod
    def of(
        cls,
        item: Remembered,
        weight: float | None,
        score: float | None = None,
        signals: Mapping[str, float] | None = None,
    ) -> MemoryItem:
        """The item of a record."""
        owner, fact = item.owner, item.fact
        return cls(
            item.id,
            item.kind,
            item.body,
            score,
            signals or {},
            weight,
            owner.conversation or "",
            owner.agent,
            owner.user,
            owner.app,
            item.at_micros,
            item.partition,
            item.offset,
            None if fact is None else fact.key,
            None if fact is None else fact.origin,
            None if fact is None else fact.expires_at_micros,
            item.lineage.get("origin"),
            item.lineage.get("producer"),
        )


def one_each(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    """The items without later ones of the same id: one that several conversations have is given once."""
    return list({item.id: item for item in reversed(list(items))}.values())[::-1]
