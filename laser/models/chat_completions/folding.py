"""A stream of Chat Completions, folded into the completion that it is of."""

from __future__ import annotations

from typing import Any, Final

from laser.models.chat_completions.reading import read
from laser.models.facts import mapping
from laser.models.growing import GrowingTexts
from laser.models.replies import ModelReply

__all__ = ["CompletionsFold"]

# Of these a later piece says the same again, or the only thing; all other texts grow piece by piece.
_SET_ONCE: Final = frozenset({"id", "type", "role", "format"})


class CompletionsFold:
    """The completion that the chunks so far are of.

    Attributes:
        ended: whether the choice has its reason to stop, or an error arrived. unread: stays empty; unknown fields of
            a chunk are kept like known ones.
    """

    def __init__(self) -> None:
        self.ended = False
        self.unread: dict[str, None] = {}
        self._whole: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._texts = GrowingTexts()
        self._error: object = None

    def add(self, chunk: dict[str, Any]) -> None:
        """Takes one chunk."""
        if chunk.get("error") is not None:
            self._error = chunk["error"]
            self.ended = True
            return
        for key, value in chunk.items():
            if key == "choices":
                for choice in value if isinstance(value, list) else ():
                    self._choice(mapping(choice))
            elif key == "object":
                self._whole[key] = "chat.completion"
            elif key != "obfuscation" and (value is not None or key not in self._whole):
                self._whole[key] = value

    def result(self) -> ModelReply:
        """The reply so far."""
        self._texts.join()
        whole = dict(self._whole)
        whole["choices"] = [_unnumbered(self._choices[index]) for index in sorted(self._choices)]
        stopped = bool(self._choices) and all(choice.get("finish_reason") for choice in self._choices.values())
        return read(whole, interrupted=not stopped and self._error is None, error=self._error)

    def _choice(self, piece: Any) -> None:
        index = piece.get("index", 0)
        if not isinstance(index, int):
            return
        choice = self._choices.setdefault(index, {"index": index, "message": {}})
        _grow(self._texts, choice["message"], mapping(piece.get("delta")))
        for key, value in piece.items():
            if key in ("index", "delta"):
                continue
            if key == "finish_reason":
                choice[key] = value or choice.get(key)
                self.ended = self.ended or bool(value)
            elif isinstance(value, dict) and isinstance(choice.get(key), dict):
                _grow(self._texts, choice[key], value)
            elif value is not None or key not in choice:
                choice[key] = value


def _grow(texts: GrowingTexts, target: dict[str, Any], piece: Any) -> None:
    for key, value in piece.items():
        known = target.get(key)
        if isinstance(value, list) and key in ("tool_calls", "reasoning_details"):
            _grow_list(texts, target, key, value)
        elif known is None:
            if value is not None or key not in target:
                target[key] = value
        elif value is None:
            continue
        elif isinstance(known, str) and isinstance(value, str):
            if key in _SET_ONCE:
                target[key] = value or known
            elif key != "name":
                texts.add(target, key, value)
            elif value != known:  # some repeat a tool's name in every piece
                target[key] = known + value
        elif isinstance(known, dict) and isinstance(value, dict):
            _grow(texts, known, value)
        elif isinstance(known, list) and isinstance(value, list):
            known.extend(value)
        else:
            texts.set(target, key, value)


def _grow_list(texts: GrowingTexts, target: dict[str, Any], key: str, pieces: list[Any]) -> None:
    """Entries by their ``index``, if there is one; a new id begins a new entry."""
    known = target.get(key)
    entries: list[Any] = known if isinstance(known, list) else []
    target[key] = entries
    for piece in pieces:
        if not isinstance(piece, dict):
            entries.append(piece)
            continue
        index = piece.get("index")
        same = [entry for entry in entries if isinstance(entry, dict) and entry.get("index") == index]
        # Some give all parallel calls one number, and reasoning of several types does share one.
        for name in ("id",) if key == "tool_calls" else ("id", "type"):
            told = piece.get(name)
            same = [entry for entry in same if not told or entry.get(name) in (None, "", told)]
        if same:
            _grow(texts, same[-1], piece)
        else:
            entries.append(piece)


def _unnumbered(choice: dict[str, Any]) -> dict[str, Any]:
    """The choice as an answer that is not streamed has it: its calls have no numbers."""
    message = choice["message"]
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return choice
    plain = [
        {key: value for key, value in call.items() if key != "index"} if isinstance(call, dict) else call
        for call in calls
    ]
    return choice | {"message": message | {"tool_calls": plain}}
