"""What messages are estimated to cost. By their bytes, never by a provider's own count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from laser.compaction.images import part_facts

__all__ = ["Estimator", "message_cost", "text_cost"]

Estimator = Callable[[bytes], int]
"""Tokens of a message's payload, a whole number from 0. Pure."""

MESSAGE_OVERHEAD: Final = 4
"""Tokens that a message costs beside its content."""

_ASCII: Final = bytes(range(128))


def text_cost(text: bytes) -> int:
    """Tokens of a text: bytes of ASCII divided by four, of other scripts by four thirds, each rounded up.

    Tokenizers need up to a token for two bytes of Chinese, and more for emoji: a quarter would count far too few.
    """
    if text.isascii():
        return (len(text) + 3) // 4
    other = len(text.translate(None, _ASCII))
    return (len(text) - other + 3) // 4 + (other * 3 + 3) // 4


def message_cost(payload: bytes) -> int:
    """Tokens of a message with all that stands in it: roles, calls, arguments, ids. Attached images and files count by
    their dimensions and kind, however long their bytes are."""
    if b'"image' not in payload and b'"data"' not in payload and b"base64" not in payload and b"_data" not in payload:
        return text_cost(payload) + MESSAGE_OVERHEAD
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return text_cost(payload) + MESSAGE_OVERHEAD
    attached: list[int] = []

    def lighten(held: Any) -> Any:
        if isinstance(held, dict):
            facts = part_facts(held)
            if facts is not None:
                attached.append(facts.tokens)
                return {"type": held.get("type")}
            return {name: lighten(entry) for name, entry in held.items()}
        return [lighten(entry) for entry in held] if isinstance(held, list) else held

    try:
        rest = orjson.dumps(lighten(value))
    except (orjson.JSONEncodeError, RecursionError):
        return text_cost(payload) + MESSAGE_OVERHEAD
    # Without one the bytes count as they are: written anew they may be fewer, of keys that stand twice one is left.
    return text_cost(rest if attached else payload) + sum(attached) + MESSAGE_OVERHEAD
