"""The folds that ``laser state`` knows by name. Each starts with no messages and gives JSON."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import laser as ls
from laser.cli.output import message_json

__all__ = ["FOLDS", "NamedFold"]


class NamedFold:
    """A fold, what it starts with, and what it says to people."""

    def __init__(self, init: Any, fold: Callable[[Any, ls.ContextMessage], Any]) -> None:
        self._init = init
        self.fold = fold

    @property
    def init(self) -> Any:
        """The state without any message."""
        return copy.deepcopy(self._init)


def _count(state: int, message: ls.ContextMessage) -> int:
    return state + 1


def _last(state: Any, message: ls.ContextMessage) -> Any:
    return message_json(message)


def _messages_by_agent(state: dict[str, int], message: ls.ContextMessage) -> dict[str, int]:
    agent = message.provenance.agent or ""
    state[agent] = state.get(agent, 0) + 1
    return state


def _tokens(state: dict[str, Any], message: ls.ContextMessage) -> dict[str, Any]:
    said = message.provenance
    state["estimated"] += ls.estimate_tokens(message.payload)
    state["input"] += said.input_tokens or 0
    state["output"] += said.output_tokens or 0
    state["cost_usd"] += said.cost_usd or 0.0
    return state


FOLDS: Final = {
    "count": NamedFold(0, _count),
    "last": NamedFold(None, _last),
    "messages-by-agent": NamedFold({}, _messages_by_agent),
    "tokens": NamedFold({"estimated": 0, "input": 0, "output": 0, "cost_usd": 0.0}, _tokens),
}
"""By name: how many messages; the last one; how many of each agent, with ``""`` for none; and their tokens, estimated
as bytes divided by four, and as their writers said."""
