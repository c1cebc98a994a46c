"""Words as tokens that FTS5 keeps whole. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from unicodedata import ucd_3_2_0

from laser.engines._words import is_unspaced

__all__ = ["MARK", "index_token"]

MARK: Final = "~"
"""What a spelt-out word begins with: a token character of the index, and in no word."""


@lru_cache(maxsize=8_192)
def index_token(word: str) -> str:
    """The word as it stands in the index.

    FTS5 knows the letters of Unicode 6.1 and cuts a word at every other character, such as a newer letter or a vowel
    sign of Thai. A word with one of those, and every pair of an unspaced script, is spelt out in numbers of one length,
    so that the beginning of a word is still the beginning of its token.
    """
    if word.isascii() or not (is_unspaced(word) or any(_is_cut_at(char) for char in word)):
        return word
    return MARK + "".join(f"{ord(char):07d}" for char in word)


def _is_cut_at(char: str) -> bool:
    # A table that is older than FTS5's own: what it calls a letter or a number FTS5 does too.
    return ucd_3_2_0.category(char)[0] not in "LN"
