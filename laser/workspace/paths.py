"""Paths within a workspace. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

from laser.errors import InvalidError, LimitError
from laser.limits import MAX_PATH_BYTES, MAX_PATH_DEPTH, MAX_PATH_PART_BYTES

__all__ = ["ROOT", "check_name", "check_place", "clash_of", "fold_name", "join_path", "parse_path"]

ROOT: Final = ""
"""The path of the whole tree."""


def parse_path(path: str, argument: str = "path", *, root: bool = False) -> tuple[str, ...]:
    """The parts of a path such as ``docs/notes.md``.

    Args:
        root: whether the whole tree, ``""``, is a path too.

    Raises:
        InvalidError, LimitError: it is absolute, leads out of the tree, or has a part that no file system would take.
    """
    if not isinstance(path, str):
        raise InvalidError(f"{argument}: expected text, got {type(path).__name__}", argument=argument)
    if path == ROOT:
        if root:
            return ()
        raise InvalidError(f"{argument}: is empty; name a file, as in docs/notes.md", argument=argument)
    parts = tuple(path.split("/"))
    check_place(path, len(parts), argument)
    for part in parts:
        check_name(part, argument)
    return parts


def check_place(path: str, depth: int, argument: str = "path") -> None:
    """The size of a path, and its parts.

    Raises:
        LimitError: too long, or too deep.
    """
    size = _size(path, argument)
    if size > MAX_PATH_BYTES:
        raise LimitError(
            f"{argument}: has {size} bytes, allowed are {MAX_PATH_BYTES}",
            argument=argument,
            size=size,
            limit=MAX_PATH_BYTES,
        )
    if depth > MAX_PATH_DEPTH:
        raise LimitError(
            f"{argument}: has {depth} parts, allowed are {MAX_PATH_DEPTH}",
            argument=argument,
            size=depth,
            limit=MAX_PATH_DEPTH,
        )


def check_name(name: str, argument: str = "path") -> str:
    """One part of a path.

    Raises:
        InvalidError, LimitError: it is empty, ``.`` or ``..``, or holds a slash, a backslash or a control character.
    """
    if name in ("", ".", ".."):
        raise InvalidError(
            f"{argument}: {name!r} is no name of a file; give a path within the tree, as in docs/notes.md",
            argument=argument,
        )
    if any(char in "/\\" or char < " " or "\x7f" <= char <= "\x9f" for char in name):
        raise InvalidError(
            f"{argument}: {name!r:.80} holds a slash, a backslash or a control character", argument=argument
        )
    size = _size(name, argument)
    if size > MAX_PATH_PART_BYTES:
        raise LimitError(
            f"{argument}: a part has {size} bytes, allowed are {MAX_PATH_PART_BYTES}",
            argument=argument,
            size=size,
            limit=MAX_PATH_PART_BYTES,
        )
    return name


def fold_name(name: str) -> str:
    """What a file system that does not tell cases or forms of accents apart makes of a name."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def clash_of(names: Iterable[str]) -> tuple[str, str] | None:
    """Two of some names that are one on a file system that does not tell cases or forms of accents apart."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower() if name.isascii() else fold_name(name), name)
        if other != name:
            return other, name
    return None


def join_path(*parts: str) -> str:
    """A path from its parts."""
    return "/".join(part for part in parts if part)


def _size(text: str, argument: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidError(f"{argument}: holds a lone surrogate, which UTF-8 cannot", argument=argument) from error
