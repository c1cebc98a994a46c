"""Objects as files below one directory."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, ParamSpec, TypeVar

import anyio
import anyio.to_thread

from laser.engines._loop import HomeLoop
from laser.engines._objects import absent, check_key
from laser.errors import ClosedError, StorageError

__all__ = ["DirectoryObjects", "open_directory_objects"]

P = ParamSpec("P")
T = TypeVar("T")

_PART: Final = ".part"
_MOST_CALLS: Final = 8
_BINARY: Final = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


async def open_directory_objects(directory: str | os.PathLike[str]) -> DirectoryObjects:
    """Opens a directory as an object store, and makes it where absent, with mode 0700.

    Several processes may use it at once.

    Raises:
        StorageError: it cannot be made or used.
    """
    place = os.path.abspath(os.fspath(directory))  # noqa: ASYNC240 - looks at no file
    store = DirectoryObjects(place)
    await store.prepare()
    return store


class DirectoryObjects:
    """An ``Objects`` on the file system. Made by ``open_directory_objects``.

    An object is written beside its place under another name, brought to the disk, and renamed. So a file under its own
    name is whole, and survives a power cut. Files have mode 0600.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._home = HomeLoop(f"the objects in {directory}")
        self._threads = anyio.CapacityLimiter(_MOST_CALLS)
        self._closed = False

    async def prepare(self) -> None:
        """Makes the directory."""
        await self._in_thread(_make_directory, self._directory)

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """See ``Objects.put``."""
        path = self._path(key)
        part = path + _PART
        fd = await self._in_thread(_create, part)
        try:
            try:
                async for chunk in chunks:
                    await self._in_thread(_write, fd, chunk)
                await self._in_thread(os.fsync, fd)
            finally:
                # Shielded, as is what follows: a file that nobody closes or removes would stay for good.
                with anyio.CancelScope(shield=True):
                    await self._in_thread(os.close, fd)
            await self._in_thread(_publish, part, path)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._in_thread(_remove, [part, path])
            raise

    async def get(self, key: str, start: int, stop: int) -> bytes:
        """See ``Objects.get``."""
        path = self._path(key)
        try:
            return await self._in_thread(_read, path, start, stop)
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise absent(f"the objects in {self._directory}", key) from error
            raise

    async def delete(self, keys: Sequence[str]) -> None:
        """See ``Objects.delete``."""
        paths = [self._path(key) for key in keys]
        await self._in_thread(_remove, [name for path in paths for name in (path, path + _PART)])

    async def aclose(self) -> None:
        """See ``Objects.aclose``."""
        self._home.check()
        self._closed = True

    def __repr__(self) -> str:
        return f"<DirectoryObjects {self._directory!r}{' closed' if self._closed else ''}>"

    def _path(self, key: str) -> str:
        tenant, _, name = check_key(key).partition("/")
        # ULIDs of one time begin alike and end at random: the end spreads them over directories.
        return os.path.join(self._directory, tenant, name[-2:], name)

    async def _in_thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._home.check()
        if self._closed:
            raise ClosedError(f"the objects in {self._directory} were closed; open them again")
        try:
            return await anyio.to_thread.run_sync(lambda: call(*args, **kwargs), limiter=self._threads)
        except OSError as error:
            raise StorageError(f"{self._directory}: {error}", path=self._directory) from error


def _create(part: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
    try:
        return os.open(part, flags, 0o600)
    except FileNotFoundError:
        _make_directory(os.path.dirname(part))
        return os.open(part, flags, 0o600)


def _write(fd: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _publish(part: str, path: str) -> None:
    os.rename(part, path)
    _sync_directory(os.path.dirname(path))


def _read(path: str, start: int, stop: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | _BINARY)
    with open(fd, "rb", buffering=0) as file:
        file.seek(start)
        found = file.read(stop - start)
        # One read gives what it can, at most 2 GiB on Linux.
        while len(found) < stop - start:
            more = file.read(stop - start - len(found))
            if not more:
                break
            found += more
        return found


def _remove(paths: Sequence[str]) -> None:
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue


def _make_directory(path: str) -> None:
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        _make_directory(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    _sync_directory(parent)


def _sync_directory(path: str) -> None:
    if os.name == "posix":
        # The entry must survive a power cut as much as the file.
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
