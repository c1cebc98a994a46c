"""A version of a workspace as files to look into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laser.errors import InvalidError, LimitError, NotFoundError
from laser.ports.files import FileEntry

if TYPE_CHECKING:
    # Workspaces are loaded at their first use.
    from laser.workspace.tree_view import TreeView

__all__ = ["TreeFiles"]


class TreeFiles:
    """A version of a workspace, for ``Session.discover``: ``TreeFiles(await workspace.tree(), name="site")``.

    It is looked into as of that version; what somebody edits meanwhile is for the next discovery.

    Args:
        name: what people call it.
    """

    def __init__(self, tree: TreeView, *, name: str) -> None:
        self._tree = tree
        self._name = name

    @property
    def name(self) -> str:
        """What people call it."""
        return self._name

    async def entries(self, path: str) -> tuple[FileEntry, ...]:
        """What stands in a folder; nothing when it is absent, or no folder."""
        try:
            found = await self._tree.list(path)
        except (NotFoundError, InvalidError):
            return ()
        return tuple(
            FileEntry(info.path.rpartition("/")[2], "folder" if info.directory else "file", info.size) for info in found
        )

    async def read(self, path: str, limit: int) -> bytes:
        """A file whole.

        Raises:
            LimitError: it has more than ``limit`` bytes. NotFoundError: it is absent, or no file.
        """
        info = await self._tree.stat(path)
        if info.directory:
            raise NotFoundError(f"{path} is no file")
        if info.size > limit:
            raise LimitError(f"{path}: has {info.size} bytes, allowed are {limit}", size=info.size, limit=limit)
        return await self._tree.read(path)

    def __repr__(self) -> str:
        return f"TreeFiles({self._name!r})"
