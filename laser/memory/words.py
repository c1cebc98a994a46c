"""Words of a text, as laser-sdk's folded recall compares them."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from itertools import groupby

__all__ = ["plain_words"]


def plain_words(text: str) -> frozenset[str]:
    """The words in lower case: runs of letters, digits and vowel signs. No stemming; unspaced scripts are one word."""
    if text.isascii():
        # Nine texts of ten: one pass in C.
        return frozenset(text.translate(_ASCII_BREAKS).lower().split())
    runs = groupby(text, _is_part)
    return frozenset("".join(chars).lower() for part, chars in runs if part)


@lru_cache(maxsize=8192)
def _is_part(char: str) -> bool:
    if char.isalnum():
        return True
    # Vowel signs belong to their word; accents that stand apart, joiners and signs that silence a vowel do not.
    return unicodedata.category(char) in ("Mn", "Mc") and not unicodedata.combining(char)


_ASCII_BREAKS = {code: " " for code in range(128) if not chr(code).isalnum()}
