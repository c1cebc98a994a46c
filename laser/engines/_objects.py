"""What the object stores share."""

from __future__ import annotations

import re
from typing import Final

from laser.errors import InvalidError, NotFoundError

__all__ = ["absent", "check_key"]

_KEY: Final = re.compile(r"[0-9a-f]{32}/[0-7][0-9A-HJKMNP-TV-Z]{25}")


def check_key(key: str) -> str:
    """A key of the form that ``Objects`` names: nothing that a file system or a URL could take for more than a name.

    Raises:
        InvalidError: another form.
    """
    if not _KEY.fullmatch(key):
        raise InvalidError(f"key: {key!r:.80} is not 32 hexadecimal digits, a slash and a ULID", argument="key")
    return key


def absent(what: str, key: str) -> NotFoundError:
    """The object is not there."""
    return NotFoundError(f"{what}: object {key} does not exist")
