"""What the content room needs of a client."""

from __future__ import annotations

from typing import Protocol

import msgspec

from laser.errors import ConfigError
from laser.limits import MAX_INLINE_BYTES
from laser.ports.catalog import Catalog, JointAppends
from laser.ports.log import Log
from laser.ports.objects import Objects

__all__ = ["ContentConnection", "ContentStore"]


class ContentStore(msgspec.Struct, frozen=True):
    """Where content is.

    Attributes:
        objects: where what is larger than ``MAX_INLINE_BYTES`` goes; ``None`` where nothing was configured.
        joint: the catalog once more where it is in the same file as the log, so that both are written as one.
    """

    catalog: Catalog
    objects: Objects | None
    joint: JointAppends | None = None

    async def aclose(self) -> None:
        """Closes both."""
        try:
            await self.catalog.aclose()
        finally:
            if self.objects is not None:
                await self.objects.aclose()

    def need_objects(self) -> Objects:
        """The object store.

        Raises:
            ConfigError: there is none.
        """
        if self.objects is None:
            raise ConfigError(
                f"objects: content of more than {MAX_INLINE_BYTES:,} bytes needs object storage, and there is none: "
                "give Laser.connect objects=, such as s3://BUCKET or embedded:DIRECTORY; nothing was written"
            )
        return self.objects


class ContentConnection(Protocol):
    """An open client. ``Laser`` is one."""

    def open_log(self) -> Log:
        """The log.

        Raises:
            ClosedError: the client was closed.
        """
        ...

    async def open_content(self) -> ContentStore:
        """The content store, opened at its first use.

        Raises:
            ClosedError: the client was closed. ConfigError: no catalog is configured.
        """
        ...
