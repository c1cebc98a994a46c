"""Hashes of content: one over all, and one a part, so that a range can be checked by itself."""

from __future__ import annotations

import hashlib
from typing import Final

from laser.errors import LimitError, StorageError
from laser.limits import CONTENT_PART_BYTES, MAX_CONTENT_BYTES

__all__ = ["PART_HASH_BYTES", "Hasher", "check_part", "check_size", "check_whole", "damaged"]

PART_HASH_BYTES: Final = 16


class Hasher:
    """Hashes content from chunks of any size.

    Attributes:
        size: bytes so far.
    """

    def __init__(self) -> None:
        self.size = 0
        self._whole = hashlib.sha256()
        self._parts = bytearray()
        self._part = hashlib.sha256()
        self._room = CONTENT_PART_BYTES

    def update(self, chunk: bytes | memoryview) -> None:
        """Takes the next chunk.

        Raises:
            LimitError: it is too much.
        """
        rest = memoryview(chunk)
        self.size += len(rest)
        check_size(self.size)
        self._whole.update(rest)
        while rest:
            piece, rest = rest[: self._room], rest[self._room :]
            self._part.update(piece)
            self._room -= len(piece)
            if not self._room:
                self._end_part()

    def finish(self) -> tuple[str, bytes]:
        """The digest of all, hexadecimal, and the hashes of the parts, one after another."""
        if self._room < CONTENT_PART_BYTES:
            self._end_part()
        return self._whole.hexdigest(), bytes(self._parts)

    def _end_part(self) -> None:
        self._parts += self._part.digest()[:PART_HASH_BYTES]
        self._part = hashlib.sha256()
        self._room = CONTENT_PART_BYTES


def check_size(size: int) -> None:
    """Refuses what is larger than content may be.

    Raises:
        LimitError: it is.
    """
    if size > MAX_CONTENT_BYTES:
        raise LimitError(
            f"data: has more than {MAX_CONTENT_BYTES:,} bytes; put it in pieces",
            argument="data",
            size=size,
            limit=MAX_CONTENT_BYTES,
        )


def check_whole(digest: str, size: int, data: bytes, what: str) -> None:
    """Makes sure that these are the bytes.

    Raises:
        StorageError: they are not.
    """
    if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
        raise damaged(digest, what)


def check_part(digest: str, parts: bytes, number: int, data: bytes | memoryview, what: str) -> None:
    """Makes sure that these are the bytes of a part.

    Raises:
        StorageError: they are not.
    """
    wanted = parts[number * PART_HASH_BYTES : (number + 1) * PART_HASH_BYTES]
    if hashlib.sha256(data).digest()[:PART_HASH_BYTES] != wanted:
        raise damaged(digest, what)


def damaged(digest: str, what: str) -> StorageError:
    """The bytes are not what was put."""
    return StorageError(
        f"content sha256:{digest}: the bytes in {what} are not what was put; restore them from a backup, or put the "
        "content again after it was collected"
    )
