"""Conversation ids: ULIDs in 26 Crockford base32 characters."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable
from functools import lru_cache

from laser.errors import IdError

__all__ = [
    "UlidSource",
    "derive_content_id",
    "derive_conversation_id",
    "derive_edge_id",
    "derive_node_id",
    "new_conversation_id",
    "parse_conversation_id",
    "ulid_bytes",
    "ulid_text",
]

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUE = {char: value for value, char in enumerate(_ALPHABET)}
_CANONICAL = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_MASK_64 = (1 << 64) - 1
_RANDOM_BITS = 80


def ulid_text(value: int) -> str:
    """The 26 characters of a 128-bit id."""
    return "".join(_ALPHABET[(value >> shift) & 31] for shift in range(125, -1, -5))


def ulid_bytes(text: str) -> bytes:
    """The 16 big-endian bytes of a canonical id."""
    value = 0
    for char in text:
        value = value << 5 | _VALUE[char]
    return value.to_bytes(16, "big")


def parse_conversation_id(text: str) -> str:
    """The canonical (upper-case) form of a conversation id.

    Args:
        text: 26 Crockford base32 characters in any case, the first one 0 to 7.

    Raises:
        IdError: the text is not such an id. A first character above 7 would need more than 128 bits; other
            implementations wrap it silently, which puts two ids into one conversation.
    """
    if type(text) is str and len(text) == 26 and text.isascii():
        upper = text.upper()
        if _CANONICAL.fullmatch(upper):
            return upper
    shown = repr(text) if isinstance(text, str) and len(text) <= 64 else f"a {type(text).__name__} of another form"
    raise IdError(
        f"conversation_id: {shown} is not a conversation id: 26 characters of {_ALPHABET}, the first one 0 to 7. "
        "Make one with new_conversation_id(), or derive one from your own key with derive_conversation_id(key).",
        argument="conversation_id",
    )


class UlidSource:
    """Makes ids that never decrease within the source, whatever the clock does.

    Args:
        clock: milliseconds since 1970.
        entropy: bytes of randomness, by count.
    """

    def __init__(self, clock: Callable[[], int] | None = None, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._clock = clock or _wall_clock_millis
        self._entropy = entropy
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        """The next id as a 128-bit integer, above every earlier one of this source."""
        return self.next_many(1)[0]

    def next_many(self, count: int) -> range:
        """The next ids, one after another."""
        with self._lock:
            # The clock is read inside the lock: read outside, two threads could come in with their times swapped.
            millis = self._clock() & ((1 << 48) - 1)
            fresh = millis << _RANDOM_BITS | int.from_bytes(self._entropy(10), "big")
            if fresh <= self._last:
                fresh = self._last + 1 + int.from_bytes(self._entropy(4), "big")
            self._last = fresh + count - 1
            return range(fresh, fresh + count)


def _wall_clock_millis() -> int:
    return time.time_ns() // 1_000_000


def _record_id_source() -> UlidSource:
    # Record ids must differ, not be secret: a generator with a seed of its own spares a system call for each.
    return UlidSource(entropy=random.Random(os.urandom(32)).randbytes)


_SOURCE = UlidSource()
_RECORD_SOURCE = _record_id_source()


def _start_anew() -> None:
    # A forked child would go on from its parent's state and mint the parent's next ids again; and a lock that
    # another thread holds at the fork stays locked in the child for good.
    global _SOURCE, _RECORD_SOURCE
    _SOURCE, _RECORD_SOURCE = UlidSource(), _record_id_source()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def new_conversation_id() -> str:
    """A new conversation id: a ULID, ascending within a process even when the clock steps back."""
    return ulid_text(_SOURCE.next())


def new_record_ids(count: int) -> range:
    """New record ids, as ``new_record_id`` makes them, one after another."""
    return _RECORD_SOURCE.next_many(count)


def new_record_id() -> int:
    """A new record id: an unsigned 128-bit integer, never 0, unique in practice."""
    return _RECORD_SOURCE.next()


def derive_conversation_id(seed: str) -> str:
    """The conversation id that belongs to a key of the caller's own, such as a user or ticket name.

    The same seed gives the same id in every process and language: two 64-bit FNV-1a hashes over a version byte,
    a salt byte and the seed's UTF-8 bytes (the format of laser-sdk 0.8).

    Raises:
        IdError: the seed is not text that UTF-8 can hold.
    """
    try:
        data = seed.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise IdError(f"seed: expected text that UTF-8 can hold, got {type(seed).__name__}", argument="seed") from error
    return ulid_text(_fnv1a(b"\x01\x1d" + data) << 64 | _fnv1a(b"\x01\x9e" + data))


@lru_cache(maxsize=4096)
def derive_node_id(label: str, value: str) -> str:
    """The id of a graph's node, from what it stands for (the format of laser-sdk 0.8).

    Args:
        label, value: text that UTF-8 can hold; the label without a NUL character, which ends it here.
    """
    return derive_content_id(label.encode() + b"\0" + value.encode())


@lru_cache(maxsize=4096)
def derive_edge_id(source: str, type: str, target: str) -> str:
    """The id of a graph's edge, from its two nodes' ids and its type (the format of laser-sdk 0.8)."""
    return derive_content_id(b"\0".join((ulid_bytes(source), type.encode(), ulid_bytes(target))))


def derive_content_id(data: bytes) -> str:
    """The id of something that is its content, as laser-sdk 0.8 makes it: two FNV-1a hashes, salts 0x4d and 0xc7."""
    return ulid_text(_fnv1a(b"\x4d" + data) << 64 | _fnv1a(b"\xc7" + data))


def _fnv1a(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & _MASK_64
    return value
