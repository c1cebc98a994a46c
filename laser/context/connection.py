"""What the rooms above need of a client: an open log, the stores beside it, and the stream's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from laser.content.store import ContentStore
from laser.ports.kv import KeyValue
from laser.ports.log import Log
from laser.ports.view_store import Views

__all__ = ["Connection"]

T = TypeVar("T")


class Connection(Protocol):
    """An open client. ``Laser`` is one."""

    @property
    def stream(self) -> str:
        """The stream's name."""
        ...

    def open_log(self) -> Log:
        """The log.

        Raises:
            ClosedError: the client was closed.
        """
        ...

    async def open_kv(self) -> KeyValue:
        """The key-value store, opened at its first use.

        Raises:
            ClosedError: the client was closed. ConfigError: no store is configured.
        """
        ...

    async def open_views(self) -> Views:
        """The read views, opened at their first use.

        Raises:
            ClosedError: the client was closed. StorageError: they cannot be opened.
        """
        ...

    async def open_content(self) -> ContentStore:
        """The content store, opened at its first use.

        Raises:
            ClosedError: the client was closed. ConfigError: no catalog is configured.
        """
        ...

    def share(self, key: str, make: Callable[[], T]) -> T:
        """What a room keeps once for all its handles of this client, made at the first call for a key."""
        ...
