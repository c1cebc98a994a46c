"""Directories of this machine, opened so that no step below them follows a symbolic link."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from laser.errors import InvalidError

__all__ = ["FOLDER", "open_below", "place_of"]

FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
"""How to open a directory that is no link."""


def place_of(directory: str | os.PathLike[str]) -> str:
    """The absolute path of a directory that a caller named."""
    place = os.fspath(directory) if isinstance(directory, str | os.PathLike) else None
    try:
        if isinstance(place, str) and place and b"\0" not in os.fsencode(place):
            return os.path.abspath(place)
    except UnicodeEncodeError:
        # Half a character, which no name of a file holds.
        pass
    raise InvalidError(f"directory: {directory!r:.80} is no path of a directory", argument="directory")


def open_below(base: int, directories: Sequence[str], *, make: bool = False) -> int:
    """A directory below an open one. No step follows a link that somebody put there meanwhile.

    Args:
        make: whether directories that are not there are made.
    """
    at = os.dup(base)
    for part in directories:
        try:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=at)
            below = os.open(part, FOLDER, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at
