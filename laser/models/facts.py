"""Reading facts out of a provider's answer, without trusting its form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laser.errors import CodecError
from laser.models.exact import settle
from laser.models.replies import ReplyError

__all__ = ["count", "mapping", "named_text", "objects", "reply_error", "text", "written"]


def mapping(value: object) -> Mapping[str, Any]:
    """The object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def objects(value: object, place: str) -> list[dict[str, Any]]:
    """A list of objects.

    Raises:
        CodecError: it is something else, and then nothing can be kept whole.
    """
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise CodecError(f"{place}: expected a list of objects")
    return value


def text(value: object) -> str:
    """The text; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def named_text(value: object) -> str | None:
    """The text, when it is one and not empty."""
    return value if isinstance(value, str) and value else None


def count(value: object) -> int | None:
    """A count of tokens: a whole number from 0 that fits 63 bits, else ``None``."""
    return value if type(value) is int and 0 <= value < 2**63 else None


def written(value: object) -> bytes:
    """A part of a settled answer as JSON."""
    return settle(value)[1]


def reply_error(value: object) -> ReplyError | None:
    """What an error object says."""
    if value is None:
        return None
    if not isinstance(value, dict):
        return ReplyError(None, text(value))
    code = named_text(value.get("code")) or named_text(value.get("type"))
    return ReplyError(code, text(value.get("message")))
