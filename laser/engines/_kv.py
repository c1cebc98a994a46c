"""What the key-value engines share."""

from __future__ import annotations

from typing import Final

from laser.errors import ConflictError
from laser.ports.kv import ABSENT

__all__ = ["AFTER_ALL", "conflict"]

AFTER_ALL: Final = b"\xff"
"""No UTF-8 text holds this byte: a key with it at the end is greater than every key that begins with that key."""


def conflict(namespace: str, key: str, expect: int, found: int) -> ConflictError:
    """Another version was there than expected; both may be ``ABSENT``."""
    there = f"version {found}" if found else "nothing"
    wanted = "nothing" if expect == ABSENT else f"version {expect}"
    return ConflictError(f"key {key!r} of namespace {namespace!r}: expected {wanted}, there is {there}; read it again")
