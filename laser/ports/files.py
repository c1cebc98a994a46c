"""Files to look into: a directory of this machine, or a workspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

__all__ = ["FileEntry", "Files"]


class FileEntry(msgspec.Struct, frozen=True, gc=False):
    """What stands in a folder.

    Attributes:
        name: one part of a path. kind: ``other`` for what is neither a file nor a folder, and for links.
        size: bytes of a file, as far as known.
    """

    name: str
    kind: Literal["file", "folder", "other"]
    size: int = 0


@runtime_checkable
class Files(Protocol):
    """A tree of files, read only.

    Paths are relative to its root, with ``/`` between their parts and none of ``.``, ``..`` or empty ones. Nothing
    outside of the root can be reached, by links neither.
    """

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    async def entries(self, path: str) -> Sequence[FileEntry]:
        """What stands in a folder, in any order; nothing when it is absent, or no folder.

        Raises:
            StorageError: it cannot be read.
        """
        ...

    async def read(self, path: str, limit: int) -> bytes:
        """A file whole.

        Raises:
            LimitError: it has more than ``limit`` bytes. NotFoundError: it is absent, or no file.
            StorageError: it cannot be read.
        """
        ...
