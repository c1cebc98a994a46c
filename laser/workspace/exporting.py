"""Trees into directories of this machine. Symbolic links are never followed."""

from __future__ import annotations

import os
from contextlib import aclosing

import anyio.to_thread

from laser.errors import InvalidError
from laser.workspace.directories import FOLDER, open_below, place_of
from laser.workspace.trees import Trees, file_ref

__all__ = ["export_tree"]


async def export_tree(trees: Trees, root: str | None, directory: str | os.PathLike[str]) -> int:
    """Writes a tree into a directory that is empty or absent."""
    place = place_of(directory)
    base = await anyio.to_thread.run_sync(_open_empty, place)
    count = 0
    try:
        async with aclosing(trees.walk(root)) as files:
            async for path, node in files:
                target = await anyio.to_thread.run_sync(_create, base, path, node.executable)
                try:
                    async with aclosing(trees.content.stream(file_ref(node))) as chunks:
                        async for chunk in chunks:
                            await anyio.to_thread.run_sync(_write_all, target, chunk, path)
                finally:
                    os.close(target)
                count += 1
        return count
    finally:
        os.close(base)


def _open_empty(place: str) -> int:
    try:
        os.makedirs(place, exist_ok=True)
        descriptor = os.open(place, FOLDER)
    except OSError as error:
        raise InvalidError(f"directory: {place} cannot be written to: {error}", argument="directory") from error
    if os.listdir(descriptor):
        os.close(descriptor)
        raise InvalidError(f"directory: {place} is not empty; give an empty or a new one", argument="directory")
    return descriptor


def _create(base: int, path: str, executable: bool) -> int:
    """A new file below an open directory."""
    *directories, name = path.split("/")
    try:
        at = open_below(base, directories, make=True)
        try:
            create = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            return os.open(name, create, 0o755 if executable else 0o644, dir_fd=at)
        finally:
            os.close(at)
    except OSError as error:
        raise _unwritable(path, error) from error


def _write_all(descriptor: int, data: bytes, path: str) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: str, error: OSError) -> InvalidError:
    return InvalidError(f"directory: {path!r:.300} cannot be written there: {error.strerror}", argument="directory")
