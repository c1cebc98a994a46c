"""Directories of this machine into trees. Symbolic links are never followed."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from laser.context.gathering import gather
from laser.errors import InvalidError
from laser.workspace.directories import FOLDER, open_below, place_of
from laser.workspace.media_types import type_of
from laser.workspace.paths import check_name, check_place, clash_of, join_path
from laser.workspace.trees import FileNode, Node, TreeNode, Trees

__all__ = ["ImportReport", "StatCache", "import_tree"]

_AT_ONCE: Final = 8
_PIECE: Final = 1 << 20
# A file that was changed within this time of when it was looked at may change again without its times telling.
_SETTLED_NANOS: Final = 2_000_000_000
_CHANGED: Final = "became something else meanwhile"

_Stamp = tuple[int, int, int, int, int]


class ImportReport(msgspec.Struct, frozen=True):
    """What an import did.

    Attributes:
        files: files of the tree. read: those that were read; the others were known. size: bytes of all.
        left_out: paths of symbolic links, special files and names that a tree cannot hold, with the reason.
    """

    files: int
    read: int
    size: int
    left_out: tuple[tuple[str, str], ...]


class StatCache:
    """What files of this machine were when they were imported, so that unchanged ones need not be read again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Stamp, FileNode]] = {}

    def find(self, path: str, stamp: _Stamp) -> FileNode | None:
        """The file that was imported from there, if it looks the same."""
        known = self._known.get(path)
        return known[1] if known is not None and known[0] == stamp else None

    def keep(self, path: str, stamp: _Stamp, looked_at: int, node: FileNode) -> None:
        """Notes a file, unless it was changed so shortly before that it may change unnoticed."""
        if looked_at - max(stamp[2], stamp[3]) > _SETTLED_NANOS:
            self._known[path] = (stamp, node)


class _Found(msgspec.Struct):
    files: dict[str, _Stamp]
    directories: dict[str, _Found]


class _Gone(Exception):
    """A file that was found is not there any more, or is another kind of thing. Its text is the reason."""


class _Import:
    """One import.

    Args:
        base: an open directory, from which every file is opened without following a link. place: its name, by which its
            files are remembered. path: where it goes in the tree.
    """

    def __init__(self, trees: Trees, base: int, place: str, path: str, stats: StatCache) -> None:
        self._trees = trees
        self._base = base
        self._place = place
        self._path = path
        self._stats = stats
        self._slots = anyio.CapacityLimiter(_AT_ONCE)
        self._looked_at = time.time_ns()
        self.read = 0
        self.left_out: list[tuple[str, str]] = []

    async def run(self) -> TreeNode | None:
        """The tree of the directory; ``None`` where it has no files."""
        try:
            found = await anyio.to_thread.run_sync(self._scan, self._base, "")
        except OSError as error:
            raise _unreadable(self._place, error) from error
        return await self._build(found, "")

    def _scan(self, at: int, prefix: str) -> _Found:
        """Looks at an open directory and everything below it. Runs in a worker thread."""
        found = _Found({}, {})
        with os.scandir(at) as entries:
            named = sorted(entries, key=lambda entry: entry.name)
        for entry in named:
            path = join_path(prefix, entry.name)
            try:
                check_name(entry.name)
                full = join_path(self._path, path)
                check_place(full, full.count("/") + 1)
            except InvalidError as error:
                self._leave_out(path, str(error))
                continue
            try:
                self._scan_entry(found, entry, at, path)
            except OSError as error:
                self._leave_out(path, _reason(path, error))
        clash = clash_of([*found.files, *found.directories])
        if clash is not None:
            one, other = (join_path(prefix, name) for name in clash)
            raise InvalidError(
                f"directory: {one!r} and {other!r} differ in case or accents only, which not every file system tells "
                "apart; rename one of them",
                argument="directory",
            )
        return found

    def _scan_entry(self, found: _Found, entry: os.DirEntry[str], at: int, path: str) -> None:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            below = os.open(entry.name, FOLDER, dir_fd=at)
            try:
                found.directories[entry.name] = self._scan(below, path)
            finally:
                os.close(below)
        elif stat.S_ISREG(status.st_mode):
            executable = int(bool(status.st_mode & 0o100))
            found.files[entry.name] = (
                status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, executable
            )  # fmt: skip
        else:
            self._leave_out(path, "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no regular file")

    async def _build(self, found: _Found, prefix: str) -> TreeNode | None:
        """Puts what was found, files several at a time, directories once all in them are there."""
        tree: dict[str, Node] = {}

        async def put(name: str, stamp: _Stamp) -> None:
            path = join_path(prefix, name)
            async with self._slots:
                try:
                    tree[name] = await self._file(path, stamp)
                except _Gone as error:
                    self._leave_out(path, str(error))

        fresh: list[str] = []
        for name, stamp in found.files.items():
            known = self._stats.find(os.path.join(self._place, prefix, name), stamp)
            if known is None:
                fresh.append(name)
            else:
                tree[name] = known
        await gather([partial(put, name, found.files[name]) for name in fresh])
        for name, below in found.directories.items():
            node = await self._build(below, join_path(prefix, name))
            if node is not None:
                tree[name] = node
        return await self._trees.store(tree) if tree else None

    async def _file(self, path: str, stamp: _Stamp) -> FileNode:
        kind = type_of(path)
        file = _File(self._base, path)
        async with aclosing(file.chunks()) as chunks:
            ref = await self._trees.content.put(chunks, media_type=kind)
        self.read += 1
        node = FileNode(ref.digest, file.size, kind, bool(stamp[4]))
        self._stats.keep(os.path.join(self._place, path), stamp, self._looked_at, node)
        return node

    def _leave_out(self, path: str, reason: str) -> None:
        self.left_out.append((path.encode("utf-8", "replace").decode(), reason))


class _File:
    """A file's bytes in pieces, opened without following a link. size: of what was given out so far."""

    def __init__(self, base: int, path: str) -> None:
        self._base = base
        self._path = path
        self.size = 0

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The pieces."""
        with anyio.CancelScope(shield=True):
            # Shielded: a descriptor that a cancelled call had opened would be nobody's to close.
            descriptor = await anyio.to_thread.run_sync(_open_file, self._base, self._path)
        try:
            while data := await anyio.to_thread.run_sync(_read, descriptor, self._path):
                self.size += len(data)
                yield data
        finally:
            os.close(descriptor)


async def import_tree(
    trees: Trees,
    directory: str | os.PathLike[str],
    path: str,
    stats: StatCache,
) -> tuple[TreeNode | None, ImportReport]:
    """The tree of a directory, put as content; ``None`` where it has no files.

    Args:
        path: where it goes in a tree.
    """
    place = place_of(directory)
    base = await anyio.to_thread.run_sync(_open_existing, place)
    try:
        work = _Import(trees, base, place, path, stats)
        node = await work.run()
    finally:
        os.close(base)
    files, size = (0, 0) if node is None else (node.files, node.size)
    return node, ImportReport(files, work.read, size, tuple(work.left_out))


def _open_existing(place: str) -> int:
    try:
        # The directory that was named may be a link; nothing in it is followed.
        return os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidError(f"directory: {place} is no directory", argument="directory") from error
    except OSError as error:
        raise InvalidError(f"directory: {place}: {error.strerror}", argument="directory") from error


def _open_file(base: int, path: str) -> int:
    *directories, name = path.split("/")
    try:
        at = open_below(base, directories)
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        finally:
            os.close(at)
    except OSError as error:
        raise _Gone(_reason(path, error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _Gone(_CHANGED)
    return descriptor


def _read(descriptor: int, path: str) -> bytes:
    try:
        return os.read(descriptor, _PIECE)
    except OSError as error:
        raise _unreadable(path, error) from error


def _reason(path: str, error: OSError) -> str:
    """Why something is left out that was there a moment ago.

    Raises:
        InvalidError: it is there, but cannot be read. Without it the tree would not be what the directory is.
    """
    if isinstance(error, FileNotFoundError):
        return "gone meanwhile"
    if isinstance(error, NotADirectoryError) or error.errno == errno.ELOOP:
        return _CHANGED
    raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError) -> InvalidError:
    return InvalidError(f"directory: {path!r:.300} cannot be read: {error.strerror}", argument="directory")
