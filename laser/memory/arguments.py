"""From what a caller gives to what memory works on. Everything is checked before anything is read or written."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Final

from laser.errors import IdError, InvalidError, LimitError
from laser.limits import MAX_MEMORY_BODY_BYTES, MAX_MEMORY_RESULTS, MAX_NAME_BYTES
from laser.model.checks import shown
from laser.model.ids import parse_conversation_id
from laser.model.memory import MEMORY_KINDS, MemoryKind, MemoryOwner
from laser.wire.memory import wire_namespace

__all__ = [
    "check_budget",
    "check_item_id",
    "check_kind",
    "check_limit",
    "check_moment",
    "check_query",
    "check_text",
    "check_weight",
    "read_body",
    "read_namespace",
    "read_owner",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_namespace(stream: str, namespace: str) -> str:
    """A namespace as records carry it."""
    check_text(namespace, "namespace", MAX_NAME_BYTES)
    # laser-sdk takes such a name for one of another stream's.
    if namespace.startswith("stream:"):
        raise InvalidError("namespace: must not begin with 'stream:'", argument="namespace")
    return check_text(wire_namespace(stream, namespace), "namespace", MAX_NAME_BYTES)


def read_owner(
    namespace: str,
    *,
    conversation: str | None = None,
    agent: str | None = None,
    user: str | None = None,
    application: str | None = None,
) -> MemoryOwner:
    """An owner of given names."""
    for value, argument in ((agent, "agent"), (user, "user"), (application, "application")):
        if value is not None:
            check_text(value, argument, MAX_NAME_BYTES)
    where = None if conversation is None else parse_conversation_id(conversation)
    return MemoryOwner(namespace, where, agent, user, application)


def read_body(payload: bytes | str, argument: str = "payload") -> bytes:
    """The bytes of an item."""
    if isinstance(payload, str):
        try:
            data = payload.encode()
        except UnicodeEncodeError as error:
            raise InvalidError(f"{argument}: holds a lone surrogate, which UTF-8 cannot", argument=argument) from error
    elif isinstance(payload, bytes | bytearray):
        data = bytes(payload)
    else:
        raise InvalidError(f"{argument}: expected text or bytes, got {type(payload).__name__}", argument=argument)
    if len(data) > MAX_MEMORY_BODY_BYTES:
        raise LimitError(
            f"{argument}: has {len(data)} bytes, an item may have {MAX_MEMORY_BODY_BYTES}; keep large things elsewhere "
            "and remember where",
            argument=argument,
            size=len(data),
            limit=MAX_MEMORY_BODY_BYTES,
        )
    return data


def check_kind(kind: MemoryKind) -> MemoryKind:
    """One of the kinds."""
    if kind not in MEMORY_KINDS:
        raise InvalidError(f"kind: {shown(kind)} is not one of {', '.join(MEMORY_KINDS)}", argument="kind")
    return kind


def check_item_id(item_id: str, argument: str) -> str:
    """An item's id, canonical."""
    try:
        return parse_conversation_id(item_id)
    except IdError as error:
        raise IdError(
            f"{argument}: {item_id!r:.64} is not the id of an item, as remember() returns it", argument=argument
        ) from error


def check_weight(weight: float) -> float:
    """A finite number."""
    try:
        if not isinstance(weight, bool) and isinstance(weight, int | float) and math.isfinite(weight):
            return float(weight)
    except OverflowError:
        # A whole number above all floats.
        pass
    raise InvalidError(f"weight: {shown(weight)} is not a finite number", argument="weight")


def check_limit(limit: int, argument: str = "limit") -> int:
    """A whole number from 0."""
    if type(limit) is not int or limit < 0:
        raise InvalidError(f"{argument}: {shown(limit)} is not a whole number from 0", argument=argument)
    if limit > MAX_MEMORY_RESULTS:
        raise LimitError(
            f"{argument}: {limit}, allowed are {MAX_MEMORY_RESULTS}",
            argument=argument,
            size=limit,
            limit=MAX_MEMORY_RESULTS,
        )
    return limit


def check_budget(budget: int | None) -> int | None:
    """A whole number of tokens from 0, or none."""
    if budget is not None and (type(budget) is not int or budget < 0):
        raise InvalidError(f"token_budget: {shown(budget)} is not a whole number from 0", argument="token_budget")
    return budget


def check_query(query: str | None) -> str | None:
    """A text to search for, ``None`` where there is nothing in it."""
    if query is not None and not isinstance(query, str):
        raise InvalidError(f"query: expected text, got {type(query).__name__}", argument="query")
    if not query or not query.strip():
        return None
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise InvalidError("query: holds a lone surrogate, which UTF-8 cannot", argument="query") from error
    return query


def check_text(value: str, argument: str, limit: int) -> str:
    """Text of 1 to so many UTF-8 bytes, without control characters.

    Raises:
        InvalidError, LimitError: it is not.
    """
    if not isinstance(value, str):
        raise InvalidError(f"{argument}: expected text, got {type(value).__name__}", argument=argument)
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidError(f"{argument}: holds a lone surrogate, which UTF-8 cannot", argument=argument) from error
    if not size:
        raise InvalidError(f"{argument}: is empty", argument=argument)
    if size > limit:
        raise LimitError(
            f"{argument}: has {size} bytes, allowed are {limit}", argument=argument, size=size, limit=limit
        )
    if any(char < " " or "\x7f" <= char <= "\x9f" for char in value):
        raise InvalidError(f"{argument}: holds a control character", argument=argument)
    return value


def check_moment(value: datetime | int | None, argument: str) -> int | None:
    """A moment in microseconds since 1970 UTC.

    Raises:
        InvalidError: a datetime without a time zone, which could mean any of 24 hours, or another type.
    """
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidError(
                f"{argument}: {value.isoformat()} has no time zone; give one, as in datetime.now(UTC)",
                argument=argument,
            )
        value = (value - _EPOCH) // timedelta(microseconds=1)
    if type(value) is int and 0 <= value < 10**18:
        return value
    raise InvalidError(
        f"{argument}: {shown(value)} is neither a datetime from 1970 on nor microseconds since 1970 UTC",
        argument=argument,
    )
