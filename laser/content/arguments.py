"""Checks of what callers of the content room give. Each names the argument."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from laser.errors import InvalidError, LimitError
from laser.limits import MAX_CONTENT_REFS, MAX_HOLDER_BYTES, MAX_TENANT_BYTES
from laser.model.content import ContentRef, check_digest

__all__ = ["check_holder", "check_range", "check_refs", "check_tenant", "digest_of", "micros_of"]


def check_tenant(value: str) -> str:
    """A tenant's name: 1 to ``MAX_TENANT_BYTES`` UTF-8 bytes."""
    return _check_name(value, "tenant", MAX_TENANT_BYTES)


def check_holder(value: str, argument: str = "holder") -> str:
    """A holder's name: 1 to ``MAX_HOLDER_BYTES`` UTF-8 bytes."""
    return _check_name(value, argument, MAX_HOLDER_BYTES)


def digest_of(ref: ContentRef | str, argument: str = "ref") -> str:
    """The digest that a reference names; a text is taken for one."""
    if isinstance(ref, ContentRef):
        return ref.digest
    if isinstance(ref, str):
        return check_digest(ref, argument)
    raise InvalidError(f"{argument}: expected a ContentRef or a digest, got {type(ref).__name__}", argument=argument)


def check_refs(refs: Iterable[ContentRef | str], argument: str) -> list[str]:
    """The digests of several references, each once."""
    if isinstance(refs, str | ContentRef) or not isinstance(refs, Iterable):
        raise InvalidError(f"{argument}: expected a list of references", argument=argument)
    digests = list(dict.fromkeys(digest_of(ref, argument) for ref in refs))
    if len(digests) > MAX_CONTENT_REFS:
        raise LimitError(
            f"{argument}: {len(digests)} of them, allowed are {MAX_CONTENT_REFS} a call",
            argument=argument,
            size=len(digests),
            limit=MAX_CONTENT_REFS,
        )
    return digests


def check_range(start: int, stop: int | None) -> None:
    """The bounds of a range, whole numbers from 0."""
    for name, value in (("start", start), ("stop", stop)):
        if value is not None and (type(value) is not int or value < 0):
            raise InvalidError(f"{name}: {value!r} is not a whole number of bytes from 0", argument=name)


def micros_of(value: timedelta | float, argument: str) -> int:
    """A time as microseconds; a number is seconds."""
    if isinstance(value, timedelta):
        micros = value // timedelta(microseconds=1)
    elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e10:
        raise InvalidError(f"{argument}: {value!r} is neither a timedelta nor seconds from 0", argument=argument)
    else:
        micros = int(value * 1_000_000)
    if not 0 <= micros < 10**16:
        raise InvalidError(f"{argument}: {value!r} is not from 0 to 300 years", argument=argument)
    return micros


def _check_name(value: str, argument: str, limit: int) -> str:
    if not isinstance(value, str):
        raise InvalidError(f"{argument}: expected a name, got {type(value).__name__}", argument=argument)
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidError(f"{argument}: holds a lone surrogate, which UTF-8 cannot", argument=argument) from error
    if size > limit:
        raise LimitError(
            f"{argument}: has {size} bytes, allowed are {limit}", argument=argument, size=size, limit=limit
        )
    if not value or any(char < " " or "\x7f" <= char <= "\x9f" for char in value):
        raise InvalidError(f"{argument}: {value!r:.80} is empty or holds a control character", argument=argument)
    return value
