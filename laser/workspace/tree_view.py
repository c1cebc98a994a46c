"""A version of a file tree, to be read."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from laser.errors import InvalidError
from laser.model.content import ContentRef
from laser.workspace.exporting import export_tree
from laser.workspace.paths import join_path, parse_path
from laser.workspace.trees import FileNode, Node, TreeNode, Trees, absent, file_ref

__all__ = ["Change", "FileInfo", "TreeView"]


class FileInfo(msgspec.Struct, frozen=True):
    """A file or directory of a tree.

    Attributes:
        path: within the tree. directory: whether it is one. size: bytes, of a directory those of all its files.
        ref: a file's content; ``None`` for a directory. executable: whether a file is to be run.
        files: how many a directory has, with those below; 1 for a file.
    """

    path: str
    directory: bool
    size: int
    ref: ContentRef | None
    executable: bool
    files: int


class Change(msgspec.Struct, frozen=True):
    """A file that differs between two trees. before, after: its content; ``None`` where it is not there."""

    path: str
    before: ContentRef | None
    after: ContentRef | None


# The class below has a method "list".
_Changes = list[Change]


class TreeView:
    """A version of a tree, to be read. It never changes: ``Workspace.at`` and ``Workspaces.snapshot`` make it.

    Attributes:
        root: its digest; ``None`` for an empty tree. Keep it to come back to this very version.
    """

    def __init__(self, trees: Trees, root: str | None) -> None:
        self._trees = trees
        self.root = root

    async def list(self, path: str = "", *, recursive: bool = False) -> list[FileInfo]:
        """What is in a directory, by name; with ``recursive`` every file below it.

        Raises:
            NotFoundError: there is no such directory.
        """
        parts = parse_path(path, root=True)
        node = await self._trees.find(self.root, parts)
        if parts and node is None:
            raise absent(path)
        if isinstance(node, FileNode):
            raise InvalidError(f"path: {path!r} is a file, not a directory", argument="path")
        digest = node.digest if isinstance(node, TreeNode) else None
        if recursive:
            return [_info(found, file) async for found, file in self._trees.walk(digest, path)]
        tree = await self._trees.load(digest)
        return [_info(join_path(path, name), tree[name]) for name in sorted(tree)]

    async def stat(self, path: str) -> FileInfo:
        """What is at a path.

        Raises:
            NotFoundError: nothing is.
        """
        node = await self._trees.find(self.root, parse_path(path))
        if node is None:
            raise absent(path)
        return _info(path, node)

    async def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes of a file, checked: all, or those from ``start`` up to, not including, ``stop``."""
        return await self._trees.content.get(file_ref(await self._file(path)), start=start, stop=stop)

    async def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """Bytes of a file in pieces, in bounded memory."""
        node = await self._file(path)
        async with aclosing(self._trees.content.stream(file_ref(node))) as chunks:
            async for chunk in chunks:
                yield chunk

    async def diff(self, other: TreeView) -> _Changes:
        """Files that differ in another version, by path."""
        return [
            Change(path, None if before is None else file_ref(before), None if after is None else file_ref(after))
            async for path, before, after in self._trees.diff(self.root, other.root)
        ]

    async def export(self, directory: str | os.PathLike[str]) -> int:
        """Writes the tree into a directory that is empty or absent. Returns how many files there are.

        Raises:
            InvalidError: the directory holds something, or is a symbolic link.
        """
        return await export_tree(self._trees, self.root, directory)

    async def _file(self, path: str) -> FileNode:
        node = await self._trees.find(self.root, parse_path(path))
        if node is None:
            raise absent(path)
        if isinstance(node, TreeNode):
            raise InvalidError(f"path: {path!r} is a directory, not a file", argument="path")
        return node

    def __repr__(self) -> str:
        return f"TreeView({self.root!r})"


def _info(path: str, node: Node) -> FileInfo:
    if isinstance(node, FileNode):
        return FileInfo(path, False, node.size, file_ref(node), node.executable, 1)
    return FileInfo(path, True, node.size, None, False, node.files)
