"""Facts: what is known of a customer, a tenant or a session, by key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from laser.errors import InvalidError, NotFoundError
from laser.limits import MAX_FACT_KEY_BYTES
from laser.memory.arguments import check_moment, check_text, read_body
from laser.memory.source import MemorySource
from laser.memory.writing import MemoryWriter
from laser.model.ids import derive_conversation_id, new_conversation_id
from laser.model.memory import FactMark, MemoryOwner, Remembered
from laser.ports.clock import Clock
from laser.wire.memory import encode_item, memory_headers

__all__ = ["Fact", "FactCell", "cell_of"]

_ORIGINS = ("engine", "operator")
_DISTILLED = "distilled:"
_MAX_ORIGIN_BYTES = 128


class Fact(msgspec.Struct, frozen=True):
    """One value of a fact.

    Attributes:
        key, value: text. origin: ``engine``, ``operator`` or ``distilled:SESSION``.
        created_at_micros: when the key was first set. updated_at_micros: when this value was; by the broker's clock,
            microseconds since 1970 UTC. expires_at_micros: when it stops being true; ``None`` never.
        id: of the item that holds it.
    """

    key: str
    value: str
    origin: str
    created_at_micros: int
    updated_at_micros: int
    expires_at_micros: int | None
    id: str


def cell_of(namespace: str, tenant: str | None, customer: str | None, session: str | None) -> MemoryOwner:
    """The cell that facts live in: the customer's where one is named, else the tenant's, else the session's.

    Raises:
        InvalidError: none is named.
    """
    if tenant is None and customer is None:
        if session is None:
            raise InvalidError("facts: name a tenant, a customer of it, or a session", argument="tenant")
        return MemoryOwner(namespace, session)
    # Names of any length and characters, told apart by their lengths, make one key: a cell's facts share a partition.
    parts = (namespace, tenant or "", customer or "")
    seed = "laser.facts/" + "/".join(f"{len(part)}:{part}" for part in parts)
    return MemoryOwner(namespace, derive_conversation_id(seed), None, customer, tenant)


class FactCell:
    """The facts of one cell. ``Memory.facts`` makes it, without any I/O.

    A new value of a key replaces the old one, which stays in ``history``. A fact whose time is over is never returned,
    swept or not.
    """

    def __init__(self, source: MemorySource, cell: MemoryOwner, clock: Clock) -> None:
        self._source = source
        self._writer = MemoryWriter(source)
        self._cell = cell
        self._clock = clock

    async def set(
        self,
        key: str,
        value: str,
        *,
        origin: str = "engine",
        expires_at: datetime | int | None = None,
    ) -> str:
        """Sets a fact. The same value with the same end and origin again writes nothing.

        Args:
            key: 1 to ``MAX_FACT_KEY_BYTES`` bytes. value: text.
            origin: who says so: ``engine``, ``operator``, or ``distilled:SESSION`` with the session it was drawn from.
            expires_at: when it stops being true: a datetime with a time zone, or microseconds since 1970 UTC.

        Returns:
            The id of the item that holds it.

        Raises:
            InvalidError, LimitError: a bad argument; nothing was written.
        """
        _check_key(key)
        if not isinstance(value, str) or not value:
            raise InvalidError("value: expected text that is not empty; forget the key instead", argument="value")
        body = read_body(f"{key}: {value}", "value")
        mark = FactMark(key, _check_origin(origin), check_moment(expires_at, "expires_at"))
        known = await self._newest(key)
        if known is not None and known.body == body and known.fact == mark and not known.is_over(self._now()):
            return known.id
        item_id = new_conversation_id()
        headers = memory_headers(self._cell, item_id, fact=mark)
        payload = encode_item(item_id, "fact", body)
        await self._source.append([(payload, headers)], self._cell.conversation or "")
        return item_id

    async def get(self, key: str) -> Fact | None:
        """The fact of a key; ``None`` where there is none, or its time is over."""
        values = await self._values(_check_key(key))
        return self._current(values)

    async def all(self) -> list[Fact]:
        """Every fact that holds now, by key."""
        by_key: dict[str, list[Remembered]] = {}
        for item in await self._values(None):
            if item.fact is not None:
                by_key.setdefault(item.fact.key, []).append(item)
        current = [self._current(by_key[key]) for key in sorted(by_key)]
        return [fact for fact in current if fact is not None]

    async def history(self, key: str) -> list[Fact]:
        """Every value that a key had, oldest first, replaced and outlived ones too."""
        values = await self._values(_check_key(key))
        return [_fact(item, values[0]) for item in values]

    async def forget(self, key: str) -> None:
        """Forgets a fact with its history.

        Raises:
            NotFoundError: there is none.
        """
        values = await self._values(_check_key(key))
        if not values:
            raise NotFoundError(f"key: there is no fact {key!r}")
        # The oldest first: half-way through, no earlier value holds again.
        await self._writer.forget_many(values)

    async def clear(self) -> int:
        """Forgets every fact of the cell, with its history. Returns how many keys there were."""
        values = await self._values(None)
        await self._writer.forget_many(values)
        return len({item.fact.key for item in values if item.fact is not None})

    async def _values(self, key: str | None) -> list[Remembered]:
        return await self._source.ask(lambda view: view.facts(self._cell, key))

    async def _newest(self, key: str) -> Remembered | None:
        values = await self._values(key)
        return values[-1] if values else None

    def _current(self, values: Sequence[Remembered]) -> Fact | None:
        if not values or values[-1].is_over(self._now()):
            return None
        return _fact(values[-1], values[0])

    def _now(self) -> int:
        return self._clock.now_micros()


def _fact(item: Remembered, first: Remembered) -> Fact:
    mark = item.fact
    assert mark is not None
    value = item.body.decode("utf-8", "replace").removeprefix(f"{mark.key}: ")
    return Fact(mark.key, value, mark.origin, first.at_micros, item.at_micros, mark.expires_at_micros, item.id)


def _check_key(key: str) -> str:
    return check_text(key, "key", MAX_FACT_KEY_BYTES)


def _check_origin(origin: str) -> str:
    distilled = isinstance(origin, str) and origin.startswith(_DISTILLED) and len(origin) > len(_DISTILLED)
    if origin not in _ORIGINS and not distilled:
        raise InvalidError(f"origin: {origin!r:.60} is not engine, operator or distilled:SESSION", argument="origin")
    return check_text(origin, "origin", _MAX_ORIGIN_BYTES)
