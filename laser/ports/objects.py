"""Object storage: large immutable bytes by key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

__all__ = ["Objects"]


class Objects(Protocol):
    """Bytes by key, written once and whole.

    Keys are 32 lower-case hexadecimal digits, a slash, and a ULID of 26 characters. A key is written at most once in
    its life, so there is nothing to overwrite.

    **Atomicity.** An object is there whole or not at all: a ``put`` that fails, is cancelled or whose process dies
    leaves nothing that a ``get`` would show. What it leaves otherwise, ``delete`` of the key removes. When ``put``
    returns, the object survives a power cut as far as the store can say.

    **Errors of every method.** ``ClosedError`` after ``aclose``, in another event loop, or in a forked child;
    ``InvalidError`` for a key of another form; ``StorageError`` from a local store; ``TransportError`` and its kinds
    from a remote one, ``ConfigError`` where the store's bucket does not exist.

    Every method may be called by many tasks at once; none blocks the event loop. A call, and each step of a ``put``,
    ends within the store's timeout.
    """

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """Writes an object from chunks of any size, in bounded memory. What the iterator raises comes out unchanged."""
        ...

    async def get(self, key: str, start: int, stop: int) -> bytes:
        """Bytes from ``start`` up to, not including, ``stop``; ``start < stop``, both within the object.

        Fewer bytes, or an error, where the object has become shorter than it was written.

        Raises:
            NotFoundError: the object is absent.
        """
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Removes objects, and what an interrupted ``put`` left. Absent ones are as good as removed."""
        ...

    async def aclose(self) -> None:
        """Closes the store. Calling it again does nothing."""
        ...
