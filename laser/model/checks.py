"""Checks of arguments that several rooms share. Each names the argument and says what would be right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from laser.errors import InvalidError, LimitError
from laser.limits import MAX_NAME_BYTES, MAX_OFFSET, MAX_PAYLOAD_BYTES

__all__ = [
    "check_name",
    "check_offsets",
    "check_payload",
    "check_progress",
    "check_record_id",
    "check_record_ids",
    "check_topics",
    "shown",
]

_SHOWN = 60


def shown(value: object) -> str:
    """What a caller gave, as an error shows it: short, and also where it has no text, such as a list that holds itself
    a thousand levels down, or a number of thousands of digits."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever its repr does, the error to raise is about the value
        return f"what is given, of type {type(value).__name__},"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def check_name(value: str, argument: str) -> str:
    """A stream's or topic's name: 1 to 255 UTF-8 bytes, no control characters, not a bare number.

    Raises:
        InvalidError: another form. LimitError: too long.
    """
    if not isinstance(value, str):
        raise InvalidError(f"{argument}: expected a name, got {type(value).__name__}", argument=argument)
    return _checked_name(value, argument)


# Every append and read names its topic, and programs have few of them.
@lru_cache(maxsize=1024)
def _checked_name(value: str, argument: str) -> str:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidError(f"{argument}: holds a lone surrogate, which UTF-8 cannot", argument=argument) from error
    if size > MAX_NAME_BYTES:
        raise LimitError(
            f"{argument}: has {size} bytes, allowed are {MAX_NAME_BYTES}",
            argument=argument,
            size=size,
            limit=MAX_NAME_BYTES,
        )
    if not value.strip() or value != value.strip():
        raise InvalidError(f"{argument}: {value!r} is empty or has blanks at its ends", argument=argument)
    if any(char < " " or "\x7f" <= char <= "\x9f" for char in value):
        raise InvalidError(f"{argument}: {value!r} holds a control character", argument=argument)
    if value.isdecimal():
        # A server takes a decimal name for a number, and would answer for another stream or topic.
        raise InvalidError(f"{argument}: {value!r} is a number; a name needs something else too", argument=argument)
    return value


def check_topics(values: Sequence[str], argument: str = "topics") -> list[str]:
    """Topic names without repeats, in their order.

    Raises:
        InvalidError: a single text instead of a list, or a bad name in it.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidError(f"{argument}: expected a list of topic names, got {shown(values)}", argument=argument)
    return list(dict.fromkeys(check_name(value, argument) for value in values))


def check_payload(value: bytes | str, argument: str = "payload") -> bytes:
    """A payload as bytes; text becomes UTF-8.

    Raises:
        InvalidError: another type, or text that UTF-8 cannot hold. LimitError: too long.
    """
    if isinstance(value, str):
        try:
            data = value.encode()
        except UnicodeEncodeError as error:
            raise InvalidError(
                f"{argument}: holds a lone surrogate at character {error.start}, which UTF-8 cannot; "
                "encode it yourself, for example with errors='replace'",
                argument=argument,
            ) from error
    elif isinstance(value, bytes):
        data = value
    elif isinstance(value, bytearray | memoryview):
        data = bytes(value)
    else:
        raise InvalidError(
            f"{argument}: expected bytes or text, got {type(value).__name__}; for an object, append its JSON",
            argument=argument,
        )
    if len(data) > MAX_PAYLOAD_BYTES:
        raise LimitError(
            f"{argument}: has {len(data)} bytes, allowed are {MAX_PAYLOAD_BYTES}",
            argument=argument,
            size=len(data),
            limit=MAX_PAYLOAD_BYTES,
        )
    return data


def check_progress(value: object) -> None:
    """What ``progress=`` takes: a function of one value, or ``None``.

    Raises:
        InvalidError: it cannot be called.
    """
    if value is not None and not callable(value):
        raise InvalidError(
            f"progress: {shown(value)} is not a function; give one that takes how far the work is, or None",
            argument="progress",
        )


def check_record_id(value: int, argument: str = "id") -> int:
    """A record id: a whole number from 1 to 2**128 - 1.

    Raises:
        InvalidError: it is not.
    """
    if type(value) is not int or not 0 < value < 2**128:
        raise InvalidError(f"{argument}: {shown(value)} is not a whole number from 1 to 2**128 - 1", argument=argument)
    return value


def check_record_ids(values: Sequence[int], count: int, argument: str = "ids") -> list[int]:
    """So many record ids, all different.

    Raises:
        InvalidError: they are not.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InvalidError(f"{argument}: expected a list of ids, got {type(values).__name__}", argument=argument)
    if len(values) != count:
        raise InvalidError(f"{argument}: {len(values)} of them for {count} payloads", argument=argument)
    for place, value in enumerate(values):
        try:
            check_record_id(value, f"{argument}[{place}]")
        except InvalidError as error:
            error.argument = argument
            raise
    if len(set(values)) != count:
        raise InvalidError(f"{argument}: one id stands twice", argument=argument)
    return list(values)


def check_offsets(value: Mapping[int, int], argument: str) -> dict[int, int]:
    """Offsets by partition, both whole numbers from 0.

    Raises:
        InvalidError: another form.
    """
    if not isinstance(value, Mapping):
        raise InvalidError(
            f"{argument}: expected a mapping from partition to offset, got {shown(value)}", argument=argument
        )
    for partition, offset in value.items():
        if type(partition) is not int or not 0 <= partition < 2**32:
            raise InvalidError(f"{argument}: {shown(partition)} is not a partition number", argument=argument)
        if type(offset) is not int or not 0 <= offset <= MAX_OFFSET:
            raise InvalidError(
                f"{argument}: {shown(offset)} is not an offset, partition {partition}", argument=argument
            )
    return dict(value)
