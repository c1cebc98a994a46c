"""Putting a prompt together: order, budget, layers, trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson

from laser.prompt.built import BuiltPrompt, PromptSection, join_system
from laser.prompt.eviction import Costed, Fitted, counted, fit
from laser.prompt.fingerprints import Fingerprints, first_change, take_fingerprints
from laser.prompt.gathering import Contribution
from laser.prompt.provider import TurnContext
from laser.prompt.reports import HistoryReport
from laser.prompt.trace import BudgetReport, CategoryReport, EvictionReport, PromptTrace, ProviderReport

__all__ = ["compose"]

_JOIN: Final = "\n\n"


def compose(
    turn: TurnContext,
    found: Sequence[Contribution],
    tools: bytes,
    before: Fingerprints | None,
    name: str,
    began: float,
) -> BuiltPrompt:
    """The prompt of what the providers gave.

    Args:
        tools: the JSON of the schemas. before: fingerprints of the turn before. name: of the build.
        began: when it began, by ``time.perf_counter``.

    Raises:
        BudgetError: what must stay does not fit.
    """
    budget, tokens = turn.profile.budget, turn.tokens
    costed = [counted(fragment, one.provider, tokens) for one in found for fragment in one.fragments]
    current = _current(turn, costed)
    tools_cost = tokens.count(tools.decode()) if tools else 0
    message_cost = tokens.count(current.decode() + "\n") if current is not None else 0
    left = budget.left(tools_cost, message_cost)
    ordered = _in_order(costed)
    fitted = fit(ordered, left, _measure(tokens.count))
    identity, volatile = _system(fitted.kept, "identity"), _system(fitted.kept, "volatile")
    messages = _messages(fitted.kept, current)
    fingerprints = take_fingerprints(
        tools, identity, _by_category(fitted.kept, "identity"), _by_category(fitted.kept, "volatile")
    )
    report = BudgetReport(
        budget.tokens,
        budget.reply,
        max(tools_cost, budget.tools or 0),
        max(message_cost, budget.message or 0),
        left,
        sum(one.tokens for one in ordered),
        fitted.used,
        "evicted" if fitted.evicted else "fits",
    )
    trace = PromptTrace(
        name,
        turn.conversation,
        turn.agent,
        tokens.name,
        report,
        _categories(fitted.kept),
        _evictions(fitted),
        tuple(
            ProviderReport(one.provider, one.status, round(one.seconds * 1_000, 3), len(one.fragments), one.reason)
            for one in found
        ),
        next((one.history for one in found if one.history is not None), HistoryReport()),
        fingerprints,
        first_change(before, fingerprints),
        _warnings(found, fitted),
        round((time.perf_counter() - began) * 1_000, 3),
    )
    sections = tuple(
        PromptSection(
            one.fragment.category,
            one.fragment.layer,
            one.fragment.place,
            one.fragment.text,
            one.tokens,
            one.fragment.priority,
            one.provider,
        )
        for one in fitted.kept
    )
    schemas = tuple(orjson.dumps(dict(tool)) for tool in turn.tools)
    return BuiltPrompt(identity, volatile, messages, schemas, trace, sections, turn.profile.prompt_caching)


def _in_order(costed: Sequence[Costed]) -> list[Costed]:
    """Identity, volatile, history, tail; in the system text by priority, the highest first, else as given."""
    ranks = {"system": 0, "history": 2, "tail": 3}

    def rank(one: Costed) -> tuple[int, int]:
        fragment = one.fragment
        place = ranks[fragment.place] + (fragment.place == "system" and fragment.layer == "volatile")
        return place, 0 if fragment.place == "history" else -fragment.priority

    return sorted(costed, key=rank)


def _measure(count: Callable[[str], int]) -> Callable[[Sequence[Costed]], int]:
    """Tokens of fragments as they are joined, with what is attached to them."""

    def measure(fragments: Sequence[Costed]) -> int:
        if not fragments:
            return 0
        system = join_system(_system(fragments, "identity"), _system(fragments, "volatile"))
        rest = [
            one.fragment.text if one.fragment.measured is None else one.fragment.measured
            for one in fragments
            if one.fragment.place == "history"
        ]
        rest += [_user(one.fragment.text).decode() for one in fragments if one.fragment.place == "tail"]
        return count("\n".join([system, *rest])) + sum(one.fragment.flat for one in fragments)

    return measure


def _system(fragments: Sequence[Costed], layer: str) -> str:
    return _JOIN.join(
        one.fragment.text for one in fragments if one.fragment.place == "system" and one.fragment.layer == layer
    )


def _messages(fragments: Sequence[Costed], current: bytes | None) -> tuple[bytes, ...]:
    history = [one.fragment.text.encode() for one in fragments if one.fragment.place == "history"]
    tail = [_user(one.fragment.text) for one in fragments if one.fragment.place == "tail"]
    if current is not None:
        return (*history, *tail, current)
    # The current message is the history's last: the tail comes before it, not after what it is to be an answer to.
    if history and tail and _is_plain_user(history[-1]):
        return (*history[:-1], *tail, history[-1])
    return (*history, *tail)


def _current(turn: TurnContext, costed: Sequence[Costed]) -> bytes | None:
    """The next message of the user as JSON; ``None`` where there is none, or the history ends with it already.

    After it only calls and results may stand: an answer in words ends its turn, and the same words are new then.
    """
    if not turn.message:
        return None
    for one in reversed(costed):
        if one.fragment.place != "history":
            continue
        value = orjson.loads(one.fragment.text)
        role = value.get("role")
        if role == "user" and not _brings_results(value):
            if value.get("content") == turn.message or _only_text(value.get("content")) == turn.message:
                return None
            break
        if role == "assistant" and not _calls(value):
            break
    return _user(turn.message)


def _calls(value: Mapping[str, Any]) -> bool:
    content = value.get("content")
    uses = isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_use" for block in content
    )
    return bool(value.get("tool_calls") or value.get("function_call")) or uses


def _brings_results(value: Mapping[str, Any]) -> bool:
    content = value.get("content")
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in content
    )


def _only_text(content: object) -> str | None:
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        text = content[0].get("text")
        return text if isinstance(text, str) else None
    return None


def _is_plain_user(message: bytes) -> bool:
    value = orjson.loads(message)
    return isinstance(value, dict) and value.get("role") == "user" and not _brings_results(value)


def _user(text: str) -> bytes:
    return orjson.dumps({"role": "user", "content": text.encode("utf-8", "replace").decode()})


def _by_category(fragments: Sequence[Costed], layer: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for one in fragments:
        if one.fragment.layer == layer and one.fragment.place != "history":
            found.setdefault(one.fragment.category, []).append(one.fragment.text)
    return {name: _JOIN.join(texts) for name, texts in found.items()}


def _categories(fragments: Sequence[Costed]) -> tuple[CategoryReport, ...]:
    counts: dict[tuple[str, str, str], list[int]] = {}
    for one in fragments:
        key = (one.fragment.category, one.fragment.layer, one.fragment.place)
        count = counts.setdefault(key, [0, 0])
        count[0] += 1
        count[1] += one.tokens
    return tuple(CategoryReport(*key, number, tokens) for key, (number, tokens) in counts.items())


def _evictions(fitted: Fitted) -> tuple[EvictionReport, ...]:
    counts: dict[tuple[str, str], list[int]] = {}
    for one in fitted.evicted:
        count = counts.setdefault((one.fragment.category, one.provider), [0, 0, one.fragment.priority])
        count[0] += 1
        count[1] += one.tokens
        count[2] = max(count[2], one.fragment.priority)
    return tuple(
        EvictionReport(category, provider, count[0], count[1], count[2])
        for (category, provider), count in counts.items()
    )


def _warnings(found: Sequence[Contribution], fitted: Fitted) -> tuple[str, ...]:
    ends = {
        "late": "was not ready in time and is left out",
        "failed": "failed and is left out",
        "flooded": "gave more than is looked at and is left out",
    }
    warnings = [f"{one.provider} {ends[one.status]}" for one in found if one.is_lost]
    gone = {one.fragment.category for one in fitted.evicted if one.fragment.layer == "identity"}
    warnings += [f"{name} of the identity layer was evicted: the cached prefix changes" for name in sorted(gone)]
    return tuple(warnings)
