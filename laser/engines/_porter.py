"""English words without their endings, as Porter described it in 1980 and FTS5's stemmer does it. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

__all__ = ["stem"]

# Endings that become others where something of a word is left before them; a longer one stands before its end.
_SECOND: Final = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "logi": "log", "bli": "ble",
    "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate",
    "alism": "al", "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive",
    "biliti": "ble",
}  # fmt: skip
_THIRD: Final = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
# Endings that go where more is left.
_FOURTH: Final = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ion", "ism", "ate", "iti", "ous", "ive", "ize",
    "al", "er", "ic", "ou",
)  # fmt: skip
_LONGEST: Final = 64


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of a word of small ASCII letters; another word as it is."""
    if not 3 <= len(word) <= _LONGEST or not word.isascii():
        return word
    word = _past(_plural(word))
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _exchange(_exchange(word, _SECOND), _THIRD)
    for ending in _FOURTH:
        if word.endswith(ending):
            left = word[: -len(ending)]
            if _measure(left) > 1 and (ending != "ion" or left.endswith(("s", "t"))):
                word = left
            break
    return _last(word)


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = next((ending for ending in ("ed", "ing") if word.endswith(ending)), None)
    left = "" if ending is None else word[: -len(ending)]
    if "v" not in _shape(left):
        return word
    if left.endswith(("at", "bl", "iz")):
        return left + "e"
    if len(left) > 1 and left[-1] == left[-2] and _shape(left)[-1] == "c":
        return left if left[-1] in "lsz" else left[:-1]
    return left + "e" if _measure(left) == 1 and _is_short(left) else left


def _exchange(word: str, endings: dict[str, str]) -> str:
    for ending, other in endings.items():
        if word.endswith(ending):
            left = word[: -len(ending)]
            return left + other if _measure(left) > 0 else word
    return word


def _last(word: str) -> str:
    if word.endswith("e"):
        left = word[:-1]
        if _measure(left) > 1 or (_measure(left) == 1 and not _is_short(left)):
            word = left
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _shape(word: str) -> str:
    """A letter for each letter: ``v`` for a vowel, ``c`` for a consonant; ``y`` after a consonant is a vowel."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """How often consonants follow vowels."""
    return _shape(word).count("vc")


def _is_short(word: str) -> bool:
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"
