"""Conversations with questions about them, and which of their turns answer each: a file in LoCoMo's manner."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["CATEGORIES", "QUESTIONS", "Conversation", "Question", "Turn", "find_questions", "read_questions"]

QUESTIONS: Final = Path(__file__).resolve().parents[2] / "shared" / "data" / "locomo_dev.json"
"""Where the file is looked for unless ``--questions`` or ``LASER_QUESTIONS`` name it. It is never part of the
repository."""

CATEGORIES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
"""The kinds of questions that are asked; those of others, which have no answer, are not."""

_TURN_ID: Final = re.compile(r"D\d+:\d+")


class Turn(msgspec.Struct, frozen=True):
    """What somebody said. id: as evidence names it."""

    id: str
    speaker: str
    text: str


class Question(msgspec.Struct, frozen=True):
    """A question. evidence: ids of the turns that answer it, perhaps several in one text."""

    question: str
    category: int
    evidence: Sequence[str] = ()

    def turns(self, known: frozenset[str]) -> frozenset[str]:
        """Ids of the turns that answer it."""
        return known.intersection(*[[name for text in self.evidence for name in _TURN_ID.findall(text)]])


class Conversation(msgspec.Struct, frozen=True):
    """A conversation of many sessions. qa: questions about it."""

    id: str
    turns: Sequence[Turn]
    qa: Sequence[Question]


def find_questions(given: str | None) -> Path | None:
    """The file that was asked for, else the one at its usual place, where it is there."""
    if given:
        return Path(given)
    return QUESTIONS if QUESTIONS.is_file() else None


def read_questions(path: Path) -> list[Conversation]:
    """The conversations of a file: a JSON list of ``Conversation``; other fields are passed over.

    Raises:
        ValueError: the file has another form.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Conversation])
    except msgspec.DecodeError as error:
        raise ValueError(f"{path.name} is not a list of conversations with turns and questions: {error}") from error
