"""Words of items and questions as numbers. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from laser.engines._porter import stem
from laser.engines._words import is_unspaced, label_words

__all__ = ["index_hashes", "label_hash", "word_hash"]


def index_hashes(ns: int, label: str, words: Sequence[str]) -> list[int]:
    """What is kept of an item's label and words."""
    found = {word_hash(ns, word) for word in words}
    # One character of an unspaced script is looked for at the beginning of pairs.
    found.update(_hash(f"{ns}^{word[0]}") for word in words if len(word) > 1 and is_unspaced(word))
    found.update(label_hash(ns, word) for word in label_words(label))
    return sorted(found)


def word_hash(ns: int, word: str) -> int:
    """The number of a word in a namespace."""
    single = len(word) == 1 and is_unspaced(word)
    return _hash(f"{ns}^{word}" if single else f"{ns}:{_token(word)}")


def label_hash(ns: int, word: str) -> int:
    """The number of a word of a label."""
    return _hash(f"{ns}@{_token(word)}")


@lru_cache(maxsize=65_536)
def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8, person=b"laser-memory").digest(), "big", signed=True)


def _token(word: str) -> str:
    if not word.isascii():
        # Without accents, as SQLite's index keeps them.
        word = "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
    return stem(word)
