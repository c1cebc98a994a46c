"""Workspaces: named, versioned file trees that an agent can read and edit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import aclosing

import msgspec

from laser.content.content import Content
from laser.content.sources import ContentSource
from laser.errors import ConflictError, InvalidError, LimitError, NotFoundError
from laser.limits import MAX_NOTE_BYTES
from laser.workspace.heads import HeadMoved, Version, WorkspaceDeleted
from laser.workspace.importing import ImportReport, StatCache, import_tree
from laser.workspace.media_types import type_of
from laser.workspace.paths import check_place, parse_path
from laser.workspace.reading import HeadLog, WorkspaceConnection
from laser.workspace.tree_view import Change, FileInfo, TreeView
from laser.workspace.trees import FileNode, TreeNode, Trees, absent

__all__ = ["Head", "Workspace"]


class Head(msgspec.Struct, frozen=True):
    """Where a workspace is. revision: to be named by the next edit. root: digest of the tree; ``None`` when empty."""

    revision: int
    root: str | None


# The class below has a method "list".
_Changes = list[Change]
_Versions = list[Version]


class Workspace:
    """A named file tree of a tenant. ``Workspaces`` makes it.

    Its *head* is a version of the tree. Every edit puts new content, builds a new tree that shares everything unchanged
    with the old one, and moves the head from the revision that it saw; where another edit was faster it changes nothing
    and raises ``ConflictError``. Old versions stay, and so does their content, until the workspace is deleted.

    Args (of every edit):
        seen: the revision that the edit is meant for, from ``head()``; ``None`` takes the one that it finds.
        note: why, for ``history``; 1 to ``MAX_NOTE_BYTES`` bytes.
    """

    def __init__(self, laser: WorkspaceConnection, content: Content, name: str, agent: str | None = None) -> None:
        self._trees = Trees(content)
        self._log = HeadLog(laser, content, name, agent)
        self._stats = StatCache()
        self._tenant = content.tenant
        self.name = name

    async def head(self) -> Head:
        """Where the workspace is.

        Raises:
            NotFoundError: there is none of this name.
        """
        state = await self._log.read()
        if state.deleted:
            raise NotFoundError(
                f"workspace {self.name!r} does not exist; create it with workspaces({self._tenant!r}).create()"
            )
        return Head(state.revision, state.versions[-1].root)

    async def tree(self) -> TreeView:
        """The newest version, as of now."""
        return TreeView(self._trees, (await self.head()).root)

    async def at(self, revision: int) -> TreeView:
        """An earlier version.

        Raises:
            NotFoundError: there is none of this revision.
        """
        for version in await self.history():
            if version.revision == revision:
                return TreeView(self._trees, version.root)
        raise NotFoundError(f"revision: workspace {self.name!r} has no version {revision!r}")

    async def history(self) -> _Versions:
        """Every version, oldest first."""
        await self.head()
        return list((await self._log.read()).versions)

    async def list(self, path: str = "", *, recursive: bool = False) -> list[FileInfo]:
        """See ``TreeView.list``, of the newest version."""
        return await (await self.tree()).list(path, recursive=recursive)

    async def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
        """See ``TreeView.read``, of the newest version."""
        return await (await self.tree()).read(path, start=start, stop=stop)

    async def write(
        self,
        path: str,
        data: ContentSource,
        *,
        media_type: str | None = None,
        executable: bool = False,
        seen: int | None = None,
        note: str | None = None,
    ) -> Head:
        """Writes a file, whole, making the directories that it needs.

        Args:
            data: bytes, text, a path of a file on this machine, or an async iterator of bytes.
            media_type: ``None`` tells it by the path's ending.

        Raises:
            ConflictError: another edit was faster, or a directory stands there; nothing was changed.
            InvalidError: a path that leads out of the tree, or differs from another in case only.
        """
        if data is None:
            # In an edit it would delete.
            raise InvalidError("data: is None; give bytes or text, or delete the file with delete()", argument="data")
        parse_path(path)
        return await self.edit({path: data}, media_type=media_type, executable=executable, seen=seen, note=note)

    async def edit(
        self,
        files: Mapping[str, ContentSource | None],
        *,
        media_type: str | None = None,
        executable: bool = False,
        seen: int | None = None,
        note: str | None = None,
    ) -> Head:
        """Writes and deletes several files as one version, all or none. A value of ``None`` deletes."""
        if not isinstance(files, Mapping) or not files:
            raise InvalidError("files: expected paths with what is to be in them", argument="files")
        if not isinstance(executable, bool):
            raise InvalidError(f"executable: {executable!r:.80} is neither True nor False", argument="executable")
        paths = {path: parse_path(path) for path in files}
        head = await self._seen(seen, note)
        root = head.root
        for path, parts in paths.items():
            data = files[path]
            if data is None:
                if await self._trees.find(root, parts) is None:
                    raise absent(path)
                root = await self._trees.set(root, parts, None)
                continue
            kind = media_type or type_of(path, data)
            ref = await self._trees.content.put(data, media_type=kind)
            size = (await self._trees.content.head(ref)).size
            root = await self._trees.set(root, parts, FileNode(ref.digest, size, kind, executable))
        return await self._move(head, root, note)

    async def delete(self, path: str, *, seen: int | None = None, note: str | None = None) -> Head:
        """Deletes a file, or a directory with everything in it.

        Raises:
            NotFoundError: nothing is there.
        """
        parse_path(path)
        return await self.edit({path: None}, seen=seen, note=note)

    async def rename(self, path: str, to: str, *, seen: int | None = None, note: str | None = None) -> Head:
        """Moves a file or directory to another path. Nothing may be there.

        Raises:
            NotFoundError: nothing is at ``path``. ConflictError: something is at ``to``, or another edit was faster.
        """
        parts, target = parse_path(path), parse_path(to, "to")
        if target[: len(parts)] == parts:
            raise InvalidError(f"to: {to!r} is within {path!r}", argument="to")
        head = await self._seen(seen, note)
        node = await self._trees.find(head.root, parts)
        if node is None:
            raise absent(path)
        if isinstance(node, TreeNode):
            # What is below goes deeper with it.
            async with aclosing(self._trees.walk(node.digest, to)) as files:
                async for below, _ in files:
                    check_place(below, below.count("/") + 1, "to")
        without = await self._trees.set(head.root, parts, None)
        if await self._trees.find(without, target) is not None:
            raise ConflictError(f"to: there is something at {to!r} already; delete it first")
        return await self._move(head, await self._trees.set(without, target, node), note)

    async def diff(self, before: int, after: int | None = None) -> _Changes:
        """Files that differ between two versions, by path; ``None`` means the newest."""
        old = await self.at(before)
        return await old.diff(await self.tree() if after is None else await self.at(after))

    async def export(self, directory: str | os.PathLike[str]) -> int:
        """See ``TreeView.export``, of the newest version."""
        return await (await self.tree()).export(directory)

    async def import_(
        self,
        directory: str | os.PathLike[str],
        *,
        path: str = "",
        seen: int | None = None,
        note: str | None = None,
    ) -> ImportReport:
        """Makes the tree, or a directory of it, what a directory of this machine is.

        Files that this handle imported before and that look unchanged (size, times, inode) are not read again. Symbolic
        links, special files, what goes meanwhile and paths that a tree cannot hold are left out, and named in the
        report.

        Args:
            path: the directory within the tree; ``""`` for all of it.
        """
        parts = parse_path(path, root=True)
        head = await self._seen(seen, note)
        node = await self._trees.find(head.root, parts) if parts else None
        if isinstance(node, FileNode):
            raise ConflictError(f"path: {path!r} is a file; delete it first")
        found, report = await import_tree(self._trees, directory, path, self._stats)
        if parts:
            root = await self._trees.set(head.root, parts, None) if node is not None else head.root
            root = root if found is None else await self._trees.set(root, parts, found)
        else:
            root = None if found is None else found.digest
        if root != head.root:
            await self._move(head, root, note)
        return report

    async def move(self, root: str | None, *, seen: int, note: str | None = None) -> Head:
        """Moves the head to any tree of the tenant: back to an old version, or to another workspace's.

        Raises:
            NotFoundError: the tenant has no such tree. ConflictError: another edit was faster.
        """
        head = await self._seen(seen, note)
        if root is not None:
            await self._trees.load(root)
        return await self._move(head, root, note)

    async def create(self, note: str | None = None) -> Head:
        """Makes the workspace, empty.

        Raises:
            ConflictError: there is one of this name.
        """
        _check_note(note)
        state = await self._log.read()
        if not state.deleted or not await self._log.move(
            HeadMoved(self._tenant, self.name, state.revision, None, note)
        ):
            raise ConflictError(f"workspace {self.name!r} exists already; open it")
        return await self.head()

    async def drop(self) -> None:
        """Deletes the workspace with its history. Content that nothing else holds goes with the next collection.

        Raises:
            NotFoundError: there is none. ConflictError: an edit was faster; nothing was deleted.
        """
        head = await self.head()
        if not await self._log.move(WorkspaceDeleted(self._tenant, self.name, head.revision)):
            raise ConflictError(f"workspace {self.name!r} was moved meanwhile; look at it before it is deleted")
        await self._log.let_go()

    async def _seen(self, seen: int | None, note: str | None) -> Head:
        _check_note(note)
        if seen is not None and (type(seen) is not int or seen < 1):
            raise InvalidError(f"seen: {seen!r:.80} is no revision, a whole number from 1", argument="seen")
        head = await self.head()
        if seen is not None and seen != head.revision:
            raise _lost(self.name, seen, head.revision)
        return head

    async def _move(self, head: Head, root: str | None, note: str | None) -> Head:
        if root == head.root:
            return head
        if not await self._log.move(HeadMoved(self._tenant, self.name, head.revision, root, note)):
            raise _lost(self.name, head.revision, (await self._log.read()).revision)
        return Head(head.revision + 1, root)

    def __repr__(self) -> str:
        return f"Workspace({self.name!r}, tenant={self._tenant!r})"


def _lost(name: str, seen: int, revision: int) -> ConflictError:
    return ConflictError(
        f"workspace {name!r} is at revision {revision}, the edit saw {seen}; read it again and decide anew"
    )


def _check_note(note: str | None) -> None:
    if note is None:
        return
    if not isinstance(note, str) or not note.strip():
        raise InvalidError("note: expected text with something in it", argument="note")
    try:
        size = len(note.encode())
    except UnicodeEncodeError as error:
        raise InvalidError("note: holds a lone surrogate, which UTF-8 cannot", argument="note") from error
    if size > MAX_NOTE_BYTES:
        raise LimitError(
            f"note: has {size} bytes, allowed are {MAX_NOTE_BYTES}", argument="note", size=size, limit=MAX_NOTE_BYTES
        )
