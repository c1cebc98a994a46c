"""Driving a strategy over long sessions turn by turn, as an agent does, and counting what that costs and saves."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import laser as ls
from laser.compaction.inputs import PreparedRequest
from laser.compaction.registry import StrategyRegistry
from laser.model.chat import chat_facts
from laser.testing.compaction_checks import check_request, kept_prefix, shown_places
from laser.testing.summarizers import NotingSummarizer

__all__ = ["WINDOW", "drive", "long_session"]

WINDOW = 12_000
_TOPIC = ls.AgentTopic.Sessions
_CHECK_EVERY = 8


def long_session(conversations: Sequence[Sequence[bytes]], least: int) -> tuple[list[bytes], int]:
    """Conversations one after another, with the instructions of the first only, until there are ``least`` messages.

    Ids of calls are made the session's own: those of different conversations may be the same.

    Returns:
        The messages, and how many conversations they are of.
    """
    messages: list[bytes] = []
    for number, conversation in enumerate(conversations):
        for place, payload in enumerate(conversation):
            value = json.loads(payload)
            if value["role"] == "system" and (number or place):
                continue
            for call in value.get("tool_calls") or ():
                call["id"] = f"{number}-{call['id']}"
            if "tool_call_id" in value:
                value["tool_call_id"] = f"{number}-{value['tool_call_id']}"
            messages.append(json.dumps(value, ensure_ascii=False).encode())
        if len(messages) >= least:
            return messages, number + 1
    return messages, len(conversations)


async def drive(
    registry: StrategyRegistry, messages: Sequence[bytes], strategies: Sequence[str] = (), window: int = WINDOW
) -> Counter[str]:
    """Appends messages, prepares a request before each answer of the assistant, and checks every request.

    Args:
        strategies: to switch to, one after another, each for its part of the session; none for the registry's default.

    Returns:
        ``messages``, ``requests``, ``compactions``, ``summaries``; ``tokens`` sent, and ``tokens whole`` without
        compaction; ``bytes`` sent, and ``bytes kept`` of them that were the beginning of the request before.
    """
    summarizer = NotingSummarizer()
    found: Counter[str] = Counter(messages=len(messages))
    async with ls.Laser.connect("memory:") as laser:
        await laser.ensure_topic(_TOPIC, 1)
        session = ls.new_conversation_id()
        compaction = laser.compaction(session, summarizer=summarizer, registry=registry)
        scope = laser.context(session)
        transcript = ls.Messages()
        before: PreparedRequest | None = None
        parts = {len(messages) * part // len(strategies): name for part, name in enumerate(strategies)}
        for place, payload in enumerate(messages):
            if place in parts:
                await compaction.switch(parts[place])
                before = None
            await scope.append(_TOPIC, payload)
            if place + 1 < len(messages) and chat_facts(messages[place + 1]).role != "assistant":
                continue
            prepared = await compaction.prepare(window=window)
            seen = prepared.observation
            found["requests"] += 1
            found["tokens"] += seen.tokens
            found["tokens whole"] += seen.full_tokens
            found["bytes"] += sum(len(one.payload) for one in prepared.inputs)
            found["compactions"] += seen.status == "compacted"
            # One turn can be so long that nothing may be folded: it still has to fit.
            assert seen.status in ("idle", "compacted", "deferred", "nothing_to_fold", "cooling_down"), seen
            assert not seen.over_window
            if before is not None:
                kept = kept_prefix(before, prepared)
                found["bytes kept"] += kept
                if seen.status != "compacted":
                    assert kept == sum(len(one.payload) for one in before.inputs), "the prefix changed by itself"
            before = prepared
            if seen.status == "compacted" or found["requests"] % _CHECK_EVERY == 0:
                transcript = await laser.assemble_context(session, last_n=10_000)
                check_request(prepared, transcript)
        before = await compaction.prepare(window=window)
        transcript = await laser.assemble_context(session, last_n=10_000)
        check_request(before, transcript)
        words = [request.text for request in summarizer.requests] + await _archived(laser, session)
        await _check_end(compaction, before, transcript, words, mixed=len(strategies) > 1)
        found["summaries"] = summarizer.asked
    return found


async def _check_end(
    compaction: Any, prepared: PreparedRequest, transcript: ls.Messages, seen: Sequence[str], *, mixed: bool
) -> None:
    """Every folded message was summarised or archived, once, and the tools reach it."""
    reached: dict[int, str] = {}
    after: str | None = None
    while True:
        page = await compaction.lcm.expand(after=after, limit=200)
        for row in page.rows:
            reached[row.seq] = reached.get(row.seq, "") + row.text
        after = page.next
        if after is None:
            break
    assert list(reached) == [message.offset for message in transcript]
    shown = set(shown_places(prepared, transcript))
    folded = [place for place in range(len(transcript)) if place not in shown]
    leaves = Counter(
        seq for fold in await _leaves(compaction) for first, last in fold for seq in range(first, last + 1)
    )
    assert set(leaves.values()) <= {1}, "two summaries of one row"
    if leaves and not mixed:
        assert {transcript[place].offset for place in folded} <= set(leaves)
    count = sum(len(text) for text in seen)
    whole = sum(len(reached[transcript[place].offset]) for place in folded)
    assert not folded or count >= whole * 0.95, "less was summarised or archived than was folded"
    for place in random.Random(1).sample(folded, min(20, len(folded))):
        row = transcript[place]
        line = max(reached[row.offset].splitlines(), key=len, default="")[:80]
        if len(line) > 20:
            hits = (await compaction.lcm.grep(line, limit=200)).hits
            assert row.offset in {hit.seq for hit in hits}


async def _archived(laser: ls.Laser, session: str) -> list[str]:
    """The words that ``snapcompact`` archived."""
    records = await laser.assemble_context(session, topics=["agent.compaction"], last_n=10_000)
    states = [json.loads(record.text).get("state", {}) for record in records]
    return [state["page"]["text"] for state in states if state.get("page")]


async def _leaves(compaction: Any) -> list[tuple[tuple[int, int], ...]]:
    found: list[tuple[tuple[int, int], ...]] = []
    after = 0
    while True:
        page = await compaction.lcm.list(after=after, limit=200)
        found += (fold.spans for fold in page.folds if fold.level == 0)
        if page.next is None:
            return found
        after = page.next
