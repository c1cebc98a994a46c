"""Trees into directories of this machine, and back. Symbolic links are never followed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from laser.context.gathering import gather
from laser.errors import InvalidError
from laser.workspace.paths import check_name, join_path
from laser.workspace.trees import FileNode, Node, TreeNode, Trees, file_ref

__all__ = ["ImportReport", "StatCache", "export_tree", "import_tree"]

_AT_ONCE: Final = 8
_PIECE: Final = 1 << 20
# A file that was changed within this time of when it was looked at may change again without its times telling.
_SETTLED_NANOS: Final = 2_000_000_000

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


class _Import:
    def __init__(self, trees: Trees, stats: StatCache, type_of: Callable[[str], str]) -> None:
        self._trees = trees
        self._stats = stats
        self._type_of = type_of
        self._slots = anyio.CapacityLimiter(_AT_ONCE)
        self.read = 0
        self.left_out: list[tuple[str, str]] = []

    def scan(self, place: str, prefix: str) -> _Found:
        """Looks at a directory and everything below it. Runs in a worker thread."""
        found = _Found({}, {})
        with os.scandir(place) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = join_path(prefix, entry.name)
                try:
                    check_name(entry.name)
                except InvalidError as error:
                    self.left_out.append((path.encode("utf-8", "replace").decode(), str(error)))
                    continue
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    found.directories[entry.name] = self.scan(entry.path, path)
                elif stat.S_ISREG(status.st_mode):
                    executable = int(bool(status.st_mode & 0o100))
                    found.files[entry.name] = (
                        status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, executable
                    )  # fmt: skip
                else:
                    what = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no regular file"
                    self.left_out.append((path, what))
        return found

    async def build(self, found: _Found, place: str, prefix: str, looked_at: int) -> TreeNode | None:
        """Puts what was found, files several at a time, directories once all in them are there."""
        tree: dict[str, Node] = {}

        async def put(name: str, stamp: _Stamp) -> None:
            async with self._slots:
                tree[name] = await self._file(os.path.join(place, name), join_path(prefix, name), stamp, looked_at)

        fresh: list[str] = []
        for name, stamp in found.files.items():
            known = self._stats.find(os.path.join(place, name), stamp)
            if known is None:
                fresh.append(name)
            else:
                tree[name] = known
        await gather([partial(put, name, found.files[name]) for name in fresh])
        for name, below in found.directories.items():
            node = await self.build(below, os.path.join(place, name), join_path(prefix, name), looked_at)
            if node is not None:
                tree[name] = node
        return await self._trees.store(tree) if tree else None

    async def _file(self, place: str, path: str, stamp: _Stamp, looked_at: int) -> FileNode:
        kind = self._type_of(path)
        file = _File(place)
        async with aclosing(file.chunks()) as chunks:
            ref = await self._trees.content.put(chunks, media_type=kind)
        self.read += 1
        node = FileNode(ref.digest, file.size, kind, bool(stamp[4]))
        self._stats.keep(place, stamp, looked_at, node)
        return node


class _File:
    """A file's bytes in pieces, opened without following a link. size: of what was given out so far."""

    def __init__(self, place: str) -> None:
        self._place = place
        self.size = 0

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The pieces."""
        with anyio.CancelScope(shield=True):
            # Shielded: a descriptor that a cancelled call had opened would be nobody's to close.
            descriptor = await anyio.to_thread.run_sync(_open_file, self._place)
        try:
            while data := await anyio.to_thread.run_sync(os.read, descriptor, _PIECE):
                self.size += len(data)
                yield data
        finally:
            os.close(descriptor)


async def import_tree(
    trees: Trees, directory: str | os.PathLike[str], stats: StatCache, type_of: Callable[[str], str]
) -> tuple[TreeNode | None, ImportReport]:
    """The tree of a directory, put as content; ``None`` where it has no files."""
    place = os.path.abspath(os.fspath(directory))  # noqa: ASYNC240 - looks at no file
    work = _Import(trees, stats, type_of)
    looked_at, found = await anyio.to_thread.run_sync(_look, work, place)
    node = await work.build(found, place, "", looked_at)
    files, size = (0, 0) if node is None else (node.files, node.size)
    return node, ImportReport(files, work.read, size, tuple(work.left_out))


async def export_tree(trees: Trees, root: str | None, directory: str | os.PathLike[str]) -> int:
    """Writes a tree into a directory that is empty or absent."""
    place = os.path.abspath(os.fspath(directory))  # noqa: ASYNC240 - looks at no file
    base = await anyio.to_thread.run_sync(_open_empty, place)
    try:
        count = 0
        async for path, node in trees.walk(root):
            target = await anyio.to_thread.run_sync(_create, base, path, node.executable)
            try:
                async for chunk in trees.content.stream(file_ref(node)):
                    await anyio.to_thread.run_sync(_write_all, target, chunk)
            finally:
                os.close(target)
            count += 1
        return count
    finally:
        os.close(base)


def _look(work: _Import, place: str) -> tuple[int, _Found]:
    if not os.path.isdir(place):
        raise InvalidError(f"directory: {place} is no directory", argument="directory")
    return time.time_ns(), work.scan(place, "")


def _open_file(place: str) -> int:
    descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidError(f"directory: {place} became something else than a file meanwhile", argument="directory")
    return descriptor


def _open_empty(place: str) -> int:
    try:
        os.makedirs(place, exist_ok=True)
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        raise InvalidError(f"directory: {place} cannot be written to: {error}", argument="directory") from error
    if os.listdir(descriptor):
        os.close(descriptor)
        raise InvalidError(f"directory: {place} is not empty; give an empty or a new one", argument="directory")
    return descriptor


def _create(base: int, path: str, executable: bool) -> int:
    """A new file below an open directory. No step follows a link that somebody put there meanwhile."""
    *directories, name = path.split("/")
    flags = os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_NOFOLLOW", 0)
    at = os.dup(base)
    try:
        for part in directories:
            try:
                os.mkdir(part, dir_fd=at)
            except FileExistsError:
                pass
            below = os.open(part, flags, dir_fd=at)
            os.close(at)
            at = below
        create = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        return os.open(name, create, 0o755 if executable else 0o644, dir_fd=at)
    except OSError as error:
        raise InvalidError(f"directory: {path!r} cannot be written there: {error}", argument="directory") from error
    finally:
        os.close(at)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
