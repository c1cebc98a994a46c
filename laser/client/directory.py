"""A directory of this machine as files to look into."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import anyio.to_thread

from laser.errors import InvalidError, LimitError, NotFoundError, StorageError
from laser.limits import MAX_FOLDER_ENTRIES
from laser.ports.files import FileEntry

__all__ = ["Directory"]

# Neither waits for a writer of a pipe, nor follows a link.
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class Directory:
    """A directory of this machine, for ``Session.discover``. Read only; links in it are not followed.

    Args:
        path: of the directory. name: what people call it; the last part of the path by default.
    """

    def __init__(self, path: str | Path, *, name: str | None = None) -> None:
        if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
            raise InvalidError(f"path: {path!r:.80} is no directory's path", argument="path")
        self._root = Path(path).absolute()
        self._name = name or self._root.name or "/"

    @property
    def name(self) -> str:
        """What people call it."""
        return self._name

    async def entries(self, path: str) -> tuple[FileEntry, ...]:
        """What stands in a folder; nothing when it is absent, or no folder.

        Raises:
            LimitError: more than ``MAX_FOLDER_ENTRIES``. StorageError: it cannot be read.
        """
        return await anyio.to_thread.run_sync(self._list, _parts(path))

    async def read(self, path: str, limit: int) -> bytes:
        """A file whole.

        Raises:
            LimitError: it has more than ``limit`` bytes. NotFoundError: it is absent, a link, or no file.
            StorageError: it cannot be read.
        """
        return await anyio.to_thread.run_sync(self._read, _parts(path), limit)

    def _list(self, parts: list[str]) -> tuple[FileEntry, ...]:
        found: list[FileEntry] = []
        try:
            with self._folder(parts) as folder, os.scandir(folder) as there:
                for entry in there:
                    if len(found) == MAX_FOLDER_ENTRIES:
                        raise LimitError(
                            f"{'/'.join(parts)}: holds more than {MAX_FOLDER_ENTRIES} entries",
                            size=len(found) + 1,
                            limit=MAX_FOLDER_ENTRIES,
                        )
                    found.append(_entry(entry))
        except OSError as error:
            if error.errno in _ABSENT:
                return ()
            raise self._failed(parts, error) from error
        return tuple(found)

    def _read(self, parts: list[str], limit: int) -> bytes:
        try:
            with self._folder(parts[:-1]) as folder:
                file = os.open(parts[-1], _FILE, dir_fd=folder)
                try:
                    if not stat.S_ISREG(os.fstat(file).st_mode):
                        raise NotFoundError(f"{'/'.join(parts)} is no file")
                    return _read_all(file, "/".join(parts), limit)
                finally:
                    os.close(file)
        except OSError as error:
            if error.errno in (*_ABSENT, errno.ENXIO):
                raise NotFoundError(f"{'/'.join(parts)} is absent, a link, or no file") from error
            raise self._failed(parts, error) from error

    @contextmanager
    def _folder(self, parts: list[str]) -> Iterator[int]:
        """Opens a folder one part after another: no part can be changed into a link on the way."""
        opened = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                inner = os.open(part, _FOLDER, dir_fd=opened)
                os.close(opened)
                opened = inner
            yield opened
        finally:
            os.close(opened)

    def _failed(self, parts: list[str], error: OSError) -> StorageError:
        path = str(self._root.joinpath(*parts))
        return StorageError(f"{path!r} cannot be read: {error.strerror}", path=path)

    def __repr__(self) -> str:
        return f"Directory({str(self._root)!r})"


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise InvalidError(f"path: {path!r:.80} is no path inside a directory", argument="path")
    return parts


def _entry(entry: os.DirEntry[str]) -> FileEntry:
    if entry.is_symlink():
        return FileEntry(entry.name, "other")
    if entry.is_dir(follow_symlinks=False):
        return FileEntry(entry.name, "folder")
    if entry.is_file(follow_symlinks=False):
        return FileEntry(entry.name, "file", entry.stat(follow_symlinks=False).st_size)
    return FileEntry(entry.name, "other")


def _read_all(file: int, name: str, limit: int) -> bytes:
    data = bytearray()
    # One byte more than allowed tells, also of a file that grows while it is read.
    while len(data) <= limit and (piece := os.read(file, min(1 << 20, limit + 1 - len(data)))):
        data += piece
    if len(data) > limit:
        size = max(os.fstat(file).st_size, len(data))
        raise LimitError(f"{name}: has {size} bytes, allowed are {limit}", size=size, limit=limit)
    return bytes(data)
