"""Fact survival: which argument values of real tool calls still stand in a trimmed prompt. No model is asked.

For every tool call of a conversation, each text among its arguments of at least four characters that the messages
before it already held is wanted. It is kept when it stands in the built prompt's history, which gets so many tokens
(bytes divided by four of the messages as JSON). Beside it newest-first trimming: whole messages from the newest back, a
result never without its call. System messages are the identity and no part of the history.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

import laser as ls
from laser.model.chat import chat_facts
from laser.prompt.history.folding import HistoryFold, HistorySettings
from laser.prompt.history.items import item_of_payload

__all__ = ["FactSurvival", "conversations_file", "facts_text", "measure_facts", "read_conversations"]

_LEAST_CHARACTERS = 4
_DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "tau_airline_gpt4o.jsonl"


class FactSurvival(msgspec.Struct, frozen=True):
    """What was measured.

    Attributes:
        tokens: that the history gets. wanted: values. newest_first, kept: how many of them stand in a prompt trimmed
            newest first, and in laser's. calls: prompts that were looked at. trims: how often laser trimmed.
        over_budget, broken_pairs, moved: prompts over the budget, with a half pair, and between two trims with a
            changed prefix; all 0.
    """

    tokens: int
    wanted: int
    newest_first: int
    kept: int
    calls: int
    trims: int
    over_budget: int
    broken_pairs: int
    moved: int


def conversations_file() -> Path | None:
    """The conversations beside this clone; ``None`` where they are not: they are not ours to ship."""
    return _DATA if _DATA.is_file() else None


def read_conversations(path: Path) -> list[list[dict[str, Any]]]:
    """The messages of each conversation of a JSONL file."""
    return [json.loads(line)["messages"] for line in path.read_text().splitlines()]


def measure_facts(
    conversations: Sequence[Sequence[dict[str, Any]]], tokens: int, *, ledger: float = 0.15, low_water: float = 0.75
) -> FactSurvival:
    """Measures all conversations.

    Args:
        tokens: of the history. ledger, low_water: as of ``History``, whose defaults these are.
    """
    settings = HistorySettings(tokens, int(tokens * low_water), int(tokens * ledger), compress=True)
    sums = [0] * 8
    for conversation in conversations:
        one = _measure([message for message in conversation if message["role"] != "system"], settings)
        sums = [before + now for before, now in zip(sums, one, strict=True)]
    return FactSurvival(tokens, *sums)


def facts_text(found: FactSurvival) -> str:
    """One line for people."""
    return (
        f"history of {found.tokens:,} tokens: laser keeps {found.kept:,} of {found.wanted:,} values "
        f"({found.kept / found.wanted:.1%}), newest first {found.newest_first:,} "
        f"({found.newest_first / found.wanted:.1%}); {found.calls:,} prompts, {found.trims:,} trims, "
        f"{found.over_budget} over budget, {found.broken_pairs} with a half pair, {found.moved} moved between trims"
    )


def _measure(messages: Sequence[dict[str, Any]], settings: HistorySettings) -> list[int]:
    fold = HistoryFold(settings, ls.tokens())
    texts = [json.dumps(message, ensure_ascii=False) for message in messages]
    wanted = newest_first = kept = calls = over = broken = moved = trims = 0
    before: list[str] | None = None
    for place, message in enumerate(messages):
        arguments = list(_arguments(message))
        if arguments:
            calls += 1
            shown = ([fold.ledger.text] if fold.ledger.text else []) + [item.text for item in fold.shown()]
            prompt = "\n".join(shown)
            over += -(-len(prompt.encode()) // 4) > settings.tokens
            broken += _is_broken(shown)
            if before is not None and fold.trims == trims:
                moved += shown[: len(before)] != before
            before, trims = shown, fold.trims
            held, trimmed = "\n".join(texts[:place]), "\n".join(_newest_first(messages, texts, place, settings.tokens))
            for values in arguments:
                for value in dict.fromkeys(values):
                    if value in held:
                        wanted += 1
                        kept += value in prompt
                        newest_first += value in trimmed
        fold.push(item_of_payload(texts[place].encode(), ls.tokens()))
    return [wanted, newest_first, kept, calls, fold.trims, over, broken, moved]


def _arguments(message: dict[str, Any]) -> Iterator[list[str]]:
    for call in message.get("tool_calls") or ():
        try:
            value = json.loads(call["function"]["arguments"])
        except ValueError:
            continue
        yield [text for text in _texts(value) if len(text) >= _LEAST_CHARACTERS]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for held in value.values() if isinstance(value, dict) else value:
            yield from _texts(held)


def _newest_first(messages: Sequence[dict[str, Any]], texts: Sequence[str], end: int, tokens: int) -> Sequence[str]:
    cut, used = end, 0
    while cut and (used := used + -(-len(texts[cut - 1].encode()) // 4)) <= tokens:
        cut -= 1
    while cut < end and messages[cut]["role"] == "tool":
        cut += 1
    return texts[cut:end]


def _is_broken(shown: Sequence[str]) -> bool:
    waiting: list[str] = []
    for text in shown:
        facts = chat_facts(text.encode())
        for call_id in facts.results:
            if call_id not in waiting:
                return True
            waiting.remove(call_id)
        waiting += facts.calls
    return bool(waiting)
