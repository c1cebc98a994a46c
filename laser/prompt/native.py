"""Compaction at the provider: opaque state that stands for the beginning of a conversation, for one model only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
import orjson

from laser.errors import SummaryError
from laser.model.chat import chat_facts
from laser.model.messages import ContextMessage
from laser.models.selection import ModelSelection
from laser.prompt.notes import NativeNote

__all__ = ["NativeCompact", "compact_natively", "native_cut"]

NativeCompact = Callable[[Sequence[bytes], ModelSelection], Awaitable[bytes]]
"""Compacts messages at their provider: from their JSON and the model to the JSON of a list of opaque items."""


async def compact_natively(
    native: NativeCompact, part: Sequence[ContextMessage], model: ModelSelection, seconds: float, runs: int
) -> NativeNote:
    """The state that stands for messages.

    Args:
        part: the messages, from the conversation's beginning. seconds: that it may take.
        runs: how many states came before, this one included.

    Raises:
        SummaryError: it is late, or what the provider gave is no list of items.
    """
    try:
        with anyio.fail_after(seconds):
            items = await native([message.payload for message in part], model)
    except TimeoutError as error:
        raise SummaryError(f"the provider compacted nothing within {seconds:g} s; nothing was changed") from error
    try:
        value = orjson.loads(items)
    except orjson.JSONDecodeError as error:
        raise SummaryError("the provider's compaction is no JSON; nothing was changed") from error
    if not isinstance(value, list) or not value:
        raise SummaryError("the provider's compaction is no list of items; nothing was changed")
    last = part[-1]
    return NativeNote(model, items.decode(), last.topic, last.partition, last.offset, len(part), runs)


def native_cut(messages: Sequence[ContextMessage], keep_last: int) -> int:
    """How many messages are compacted: all but the last ones, never a call without its results."""
    cut = max(0, len(messages) - keep_last)
    facts = [chat_facts(message.payload) for message in messages]
    callers: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    for place, fact in enumerate(facts):
        spans += [(callers[call_id], place) for call_id in fact.results if call_id in callers]
        for call_id in fact.calls:
            callers[call_id] = place
    answered = {first for first, _ in spans}
    moved = True
    while moved:
        moved = False
        for first, last in spans:
            if first < cut <= last:
                cut, moved = first, True
    # An open call waits for its result: it stays verbatim, with all after it.
    for place in range(cut):
        if facts[place].calls and place not in answered and not any(fact.role == "user" for fact in facts[place:]):
            return place
    return cut
