"""What must hold of every prepared request, whatever the strategy."""

from __future__ import annotations

from collections.abc import Sequence

from laser.compaction.inputs import PreparedInput, PreparedRequest
from laser.compaction.rows import INSTRUCTIONS
from laser.model.chat import chat_facts
from laser.model.messages import ContextMessage

__all__ = ["check_request", "kept_prefix", "pairs_of", "shown_places"]


def check_request(prepared: PreparedRequest, transcript: Sequence[ContextMessage], *, over: bool = False) -> None:
    """Asserts that a request shows a transcript as it must.

    Each row is shown once or summarised, never both; pairs are whole; instructions and the newest message of the user
    are there as they are; rows come in their order; and it fits the window.

    Args:
        transcript: all messages of the session, none of them gone. over: it may be over the window.
    """
    seen = prepared.observation
    shown = shown_places(prepared, transcript)
    facts = [chat_facts(message.payload) for message in transcript]
    assert len(set(shown)) == len(shown), "a row is shown twice"
    assert len(shown) + seen.covered == len(transcript) == seen.rows, "a row is neither shown nor summarised, or both"
    there = set(shown)
    for call, result in pairs_of(transcript):
        assert (call in there) == (result in there), f"the pair of {call} and {result} was split"
    pinned = [place for place, fact in enumerate(facts) if fact.role in INSTRUCTIONS]
    assert there.issuperset(pinned), "an instruction was folded"
    plain = [place for place in shown if place not in set(pinned)]
    assert plain == sorted(plain), "rows are out of order"
    users = [place for place, fact in enumerate(facts) if fact.role == "user" and not fact.results]
    if users:
        newest = next(
            (one for one in prepared.inputs if one.source and shown_place(one, transcript) == users[-1]), None
        )
        assert newest is not None, "the newest message of the user is not shown"
        assert newest.payload == transcript[users[-1]].payload
        behind = [place for place in range(users[-1], len(transcript)) if place not in there]
        assert not behind, "something after the newest message of the user was folded"
    for one in prepared.inputs:
        if one.source is not None and one.kind != "stub":
            assert one.payload == transcript[shown_place(one, transcript)].payload, "a row was changed"
        if one.kind == "stub":
            before, after = chat_facts(transcript[shown_place(one, transcript)].payload), chat_facts(one.payload)
            assert (before.role, before.results) == (after.role, after.results), "a stub lost its role or its pair"
    assert seen.tokens == seen.reserved + sum(one.tokens for one in prepared.inputs)
    assert over or not seen.over_window, f"{seen.tokens} tokens are over the window of {seen.window}"


def shown_places(prepared: PreparedRequest, transcript: Sequence[ContextMessage]) -> list[int]:
    """The places in the transcript of the rows that a request shows, in its order."""
    return [shown_place(one, transcript) for one in prepared.inputs if one.source is not None]


def shown_place(one: PreparedInput, transcript: Sequence[ContextMessage]) -> int:
    """The place in the transcript of the row that an input shows."""
    assert one.source is not None
    low, high = 0, len(transcript)
    while low < high:
        middle = (low + high) // 2
        if transcript[middle].offset < one.source.seq:
            low = middle + 1
        else:
            high = middle
    assert low < len(transcript), "a source that is no row"
    assert transcript[low].offset == one.source.seq, "a source that is no row"
    return low


def pairs_of(transcript: Sequence[ContextMessage]) -> list[tuple[int, int]]:
    """Places of calls and of their results."""
    waiting: dict[str, list[int]] = {}
    found: list[tuple[int, int]] = []
    for place, message in enumerate(transcript):
        fact = chat_facts(message.payload)
        found += ((waiting[call_id].pop(), place) for call_id in fact.results if waiting.get(call_id))
        for call_id in fact.calls:
            waiting.setdefault(call_id, []).append(place)
    return found


def kept_prefix(before: PreparedRequest, after: PreparedRequest) -> int:
    """How many bytes of a request the next one begins with, input by input."""
    kept = 0
    for one, other in zip(before.inputs, after.inputs, strict=False):
        if one.payload != other.payload:
            break
        kept += len(one.payload)
    return kept
