"""What the rooms above need of a client: an open log, a key-value store, and the stream's name."""

from __future__ import annotations

from typing import Protocol

from laser.ports.kv import KeyValue
from laser.ports.log import Log

__all__ = ["Connection"]


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
