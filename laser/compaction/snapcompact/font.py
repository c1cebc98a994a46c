"""The X11 font 8x13, and text as characters that it has. Its source and licence stand in ``x11_8x13.md``."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

__all__ = ["CELL_HEIGHT", "CELL_WIDTH", "glyphs", "to_cells", "to_text"]

CELL_WIDTH: Final = 8
CELL_HEIGHT: Final = 13

_RECORD: Final = 2 + CELL_HEIGHT
_MARKS: Final = {"\n": "↵", "\t": "→", "\r": "␍"}
_MEANT: Final = {mark: char for char, mark in _MARKS.items()}
_ESCAPED: Final = r"u[0-9a-f]{4}|U[0-9a-f]{8}"
_READ: Final = re.compile(rf"\\(?:{_ESCAPED})|[{''.join(_MEANT)}]")
# Not drawn, though the font may have them: controls, formats, surrogates, and blanks that are no plain space.
_UNSEEN: Final = ("C", "Z")


@cache
def glyphs() -> Mapping[str, bytes]:
    """The pictures of the characters that are drawn: 13 bytes each, one a line, the highest bit at the left.

    A sign that looks exactly like one before it is not among them. Letters of different scripts that look alike are.
    """
    data = zlib.decompress(resources.files("laser.compaction.snapcompact").joinpath("x11_8x13.glyphs").read_bytes())
    found: dict[str, bytes] = {}
    seen: set[bytes] = set()
    for at in range(0, len(data), _RECORD):
        char = chr(int.from_bytes(data[at : at + 2], "big"))
        glyph = data[at + 2 : at + _RECORD]
        category = unicodedata.category(char)
        unseen = category[0] in _UNSEEN and char != " "
        if unseen or (glyph in seen and category[0] != "L"):
            continue
        found[char] = glyph
        seen.add(glyph)
    return found


def to_cells(text: str) -> str:
    r"""A text as the characters that are drawn for it, one a cell.

    Line breaks are drawn as ``↵``, tabs as ``→``, carriage returns as ``␍``. What the font lacks, and these signs
    themselves, are drawn as ``\uXXXX`` or ``\UXXXXXXXX``; so is the backslash of a text that looks like that already.
    """
    return _to_draw().sub(_drawn, text)


def to_text(cells: str) -> str:
    """The text that cells were made of; the opposite of ``to_cells``."""
    return _READ.sub(_meant, cells)


@cache
def _to_draw() -> re.Pattern[str]:
    plain = "".join(re.escape(char) for char in glyphs() if char not in _MEANT)
    return re.compile(rf"\\(?={_ESCAPED})|[^{plain}]")


def _drawn(match: re.Match[str]) -> str:
    char = match[0]
    mark = _MARKS.get(char)
    if mark is not None:
        return mark
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _meant(match: re.Match[str]) -> str:
    found = match[0]
    if found in _MEANT:
        return _MEANT[found]
    code = int(found[2:], 16)
    return chr(code) if code < 0x110000 else found
