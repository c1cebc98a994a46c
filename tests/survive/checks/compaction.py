"""Compaction over real conversations, turn by turn: nothing lost, nothing shown twice, never over the window.

Sessions of more than a thousand messages, each with every strategy, and with the strategies in turn on one session.
"""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from laser.compaction.lcm.strategy import Lcm
from laser.compaction.registry import StrategyRegistry
from laser.compaction.rolling import Rolling
from laser.compaction.snapcompact.strategy import Snapcompact
from laser.compaction.strategy import CompactionStrategy
from tests.compaction.driving import drive, long_session
from tests.shared import airline_conversations
from tests.survive.figures import Budget, CannotRunError, Figures

_LEAST = 1_000
_LEAST_PERCENT = {"% of tokens saved": 70, "% of bytes kept as prefix": 90}
_STRATEGIES: tuple[CompactionStrategy, ...] = (Rolling(), Lcm(), Snapcompact())


def run(budget: Budget, seed: int) -> Figures:
    """Each check that does not hold ends that session, and is in the row."""
    try:
        conversations = airline_conversations()
    except pytest.skip.Exception as error:
        raise CannotRunError(str(error)) from error
    sessions = _sessions(conversations)[: budget.choose(1, 1_000)]
    found: Counter[str] = Counter()
    broken: list[str] = []
    turns = [strategy.name for strategy in _STRATEGIES]
    for number, messages in enumerate(sessions):
        for names in (*([name] for name in turns), [*turns, turns[0]]):
            registry = StrategyRegistry(_STRATEGIES, default=names[0])
            try:
                counts = anyio.run(drive, registry, messages, names)
            except AssertionError as error:
                broken.append(f"session {number}, {' then '.join(names)}: {error}")
                continue
            label = " then ".join(names)
            found[f"{label}: messages"] += counts["messages"]
            found[f"{label}: summaries"] += counts["summaries"]
            found[f"{label}: compactions"] += counts["compactions"]
            for part in ("tokens", "tokens whole", "bytes", "bytes kept"):
                found[f"{label}: {part}"] += counts[part]
    shown: dict[str, int] = {}
    for label in dict.fromkeys(name.partition(":")[0] for name in found):
        shown[f"{label}: messages"] = found[f"{label}: messages"]
        shown[f"{label}: compactions"] = found[f"{label}: compactions"]
        shown[f"{label}: summaries"] = found[f"{label}: summaries"]
        whole, sent = found[f"{label}: tokens whole"], found[f"{label}: tokens"]
        shown[f"{label}: % of tokens saved"] = round(100 - 100 * sent / whole)
        shown[f"{label}: % of bytes kept as prefix"] = round(
            100 * found[f"{label}: bytes kept"] / found[f"{label}: bytes"]
        )
        broken += (
            f"{label}: {name} is {shown[f'{label}: {name}']}, at least {least} is expected"
            for name, least in _LEAST_PERCENT.items()
            if shown[f"{label}: {name}"] < least
        )
    return Figures(f"{len(sessions)} sessions, a request before each answer", shown, broken, engine="memory")


def _sessions(conversations: list[list[bytes]]) -> list[list[bytes]]:
    sessions: list[list[bytes]] = []
    at = 0
    while at < len(conversations):
        messages, count = long_session(conversations[at:], _LEAST)
        at += count
        # The last one is too short to show anything.
        if len(messages) >= _LEAST:
            sessions.append(messages)
    return sessions
