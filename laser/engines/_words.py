"""Words of items and questions, as keyword indexes keep them. The same on every engine. Pure."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

__all__ = ["index_words", "is_unspaced", "label_words", "question_words", "split_label", "without_labels"]

# Function words of English: they are in every other text and say nothing of what it is about.
_FUNCTION_WORDS: Final = """
a about above after again against all also am an and any are aren as at be because been before being below between
both but by can could couldn d did didn do does doesn doing don down during each few for from further had hadn has
hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m me
might mine more most must my myself no nor not now o of off on once only or other our ours ourselves out over own re s
same shall she should shouldn so some such t than that the their theirs them themselves then there these they this
those through to too under until up us ve very was wasn we were weren what when where which while who whom whose why
will with won would wouldn you your yours yourself yourselves
"""
_STOP: Final = frozenset(_FUNCTION_WORDS.split())

# A stemmer takes "walked" to "walk"; these forms it does not know. The first of a group is what the others become.
_GROUPS: Final = """arise arose arisen|awake awoke awoken|bear bore borne|become became|begin began begun|bend bent|
bind bound|bite bit bitten|bleed bled|blow blew blown|break broke broken|breed bred|bring brought|build built|
burn burnt|buy bought|catch caught|choose chose chosen|cling clung|come came|creep crept|deal dealt|dig dug|
draw drew drawn|dream dreamt|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt|
fight fought|find found|flee fled|fling flung|fly flew flown|forbid forbade forbidden|forget forgot forgotten|
forgive forgave forgiven|freeze froze frozen|get got gotten|give gave given|go went gone|grow grew grown|hang hung|
hear heard|hide hid hidden|hold held|keep kept|kneel knelt|know knew known|lay laid|lead led|lean leant|leap leapt|
learn learnt|leave left|lend lent|lie lain|light lit|lose lost|make made|mean meant|meet met|mistake mistook mistaken|
pay paid|prove proven|ride rode ridden|ring rang rung|rise rose risen|run ran|say said|see saw seen|seek sought|
sell sold|send sent|sew sewn|shake shook shaken|shine shone|shoot shot|show shown|shrink shrank shrunk|sing sang sung|
sink sank sunk|sit sat|sleep slept|slide slid|speak spoke spoken|spend spent|spin spun|spring sprang sprung|
stand stood|steal stole stolen|stick stuck|sting stung|strike struck|strive strove|swear swore sworn|sweep swept|
swell swollen|swim swam swum|swing swung|take took taken|teach taught|tear tore torn|tell told|think thought|
throw threw thrown|understand understood|wake woke woken|wear wore worn|weave wove woven|weep wept|win won|
write wrote written|child children|man men|woman women|person people|foot feet|tooth teeth|mouse mice|goose geese|
life lives|wife wives|knife knives|leaf leaves"""
_REGULAR: Final = {form: base for base, *forms in map(str.split, _GROUPS.split("|")) for form in forms}

# Han, kana, Thai, Lao, Myanmar and Khmer are written without spaces: a run becomes its pairs of characters.
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD: Final = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")
_ASCII_BREAKS: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_IS_UNSPACED: Final = re.compile(f"[{_UNSPACED}]")
# Where marks are that join letters; of few texts.
_HAS_MARKS: Final = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0711-\u0e00"
    "\u0f00-\u0fff\u135d-\u135f\u1700-\u1773\u1800-\u1fff\u20d0-\u20f0\u2cef-\u2cf1\u2d7f-\u2dff\ua66f-\ufe2f"
    "\U00010a00-\U0001efff]"
)
_MARKS: Final = (*range(0x300, 0xFE30), *range(0x10A00, 0x11D00), *range(0x1E000, 0x1E950))
_LABEL: Final = re.compile(r"\s*([^\W\d_][\w.'-]{0,63}(?: [\w.'-]{1,64}){0,2}):\s+(?=\S)")


def index_words(text: str) -> list[str]:
    """The words of a text: lower case, irregular English forms made regular, unspaced runs as pairs of characters.

    The last character of a run stands alone too, so that a question of one character finds it by its beginning.
    """
    if text.isascii():
        # Nine texts of ten: in C all the way.
        words = text.translate(_ASCII_BREAKS).lower().split()
        return list(map(_REGULAR.get, words, words))
    plain, pattern = unicodedata.normalize("NFKC", text).lower(), _WORD
    if not plain.isascii() and _HAS_MARKS.search(plain):
        pattern, silent = _with_marks()
        plain = silent.sub("", plain)
    found: list[str] = []
    for word in pattern.findall(plain):
        if _IS_UNSPACED.match(word):
            found += [word[place : place + 2] for place in range(len(word))]
        else:
            found.append(_REGULAR.get(word, word))
    return found


@lru_cache(maxsize=1)
def _with_marks() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Words with the vowel signs that belong to them, and the signs that a writer may leave out: accents that stand
    apart, vowel points of Hebrew and Arabic, joiners of Indic letters. It takes some milliseconds to put together."""
    marks = [char for char in map(chr, _MARKS) if unicodedata.category(char) in ("Mn", "Mc")]
    spoken = "".join(char for char in marks if not unicodedata.combining(char))
    silent = "".join(char for char in marks if unicodedata.combining(char) and not _IS_UNSPACED.match(char))
    return re.compile(f"[{_UNSPACED}]+|(?:[^\\W_{_UNSPACED}]|[{spoken}])+"), re.compile(f"[{silent}]")


def is_unspaced(word: str) -> bool:
    """Whether a word of ``index_words`` is a pair, or the last character, of a run without spaces."""
    return _IS_UNSPACED.match(word) is not None


def question_words(text: str) -> list[str]:
    """The words of a question, each once, without function words where others are left."""
    every = list(dict.fromkeys(index_words(text)))
    if len(every) > 1:
        # The single last character of an unspaced run is in its last pair already.
        every = [word for word in every if len(word) > 1 or not _IS_UNSPACED.match(word)] or every
    return [word for word in every if word not in _STOP] or every


def split_label(text: str) -> tuple[str, str]:
    """Who says it and what: ``("Ann", "hello")`` of ``"Ann: hello"``, and no label where the text has none."""
    match = _LABEL.match(text)
    return (match[1], text[match.end() :]) if match else ("", text)


@lru_cache(maxsize=1_024)
def label_words(label: str) -> tuple[str, ...]:
    """The words of a label that a question can name it by."""
    return tuple(word for word in index_words(label) if word not in _STOP)


def without_labels(question: str, named: frozenset[str]) -> str:
    """The question without the words of labels that it names: such a name brings everything of that person close."""
    if not named:
        return question
    kept = [part for part in question.split() if not set(index_words(part)) & named]
    return " ".join(kept) or question
