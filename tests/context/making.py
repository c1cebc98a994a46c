"""Messages made by hand, for tests of what is pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

import laser as ls

CONVERSATION = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def message(payload: bytes | str, *, offset: int = 0, agent: str | None = None, topic: str = "t") -> ls.ContextMessage:
    """One message."""
    data = payload.encode() if isinstance(payload, str) else payload
    provenance = ls.Provenance(conversation_id=CONVERSATION, agent=agent)
    return ls.ContextMessage(data, topic, 0, offset, offset + 1, offset, 1, 1, provenance)


def history(payloads: Sequence[bytes | str], agents: Sequence[str | None] = ()) -> list[ls.ContextMessage]:
    """Messages with these payloads, offsets from 0."""
    named = [*agents, *[None] * len(payloads)]
    return [message(payload, offset=at, agent=named[at]) for at, payload in enumerate(payloads)]


def chat(*messages: dict[str, Any]) -> list[ls.ContextMessage]:
    """Messages whose payloads are these as JSON."""
    return history([json.dumps(one) for one in messages])


def payloads(messages: Sequence[ls.ContextMessage]) -> list[bytes]:
    """Their payloads."""
    return [one.payload for one in messages]


AGENTS = ("a", "b", "", "é")

histories = st.lists(
    st.tuples(st.binary(max_size=40), st.none() | st.sampled_from(AGENTS)), max_size=12
).map(lambda made: history([payload for payload, _ in made], [agent for _, agent in made]))  # fmt: skip


def is_ordered_subset(part: Sequence[ls.ContextMessage], whole: Sequence[ls.ContextMessage]) -> bool:
    """Whether the part's very objects stand in the whole in the same order."""
    places = {id(one): at for at, one in enumerate(whole)}
    at = [places.get(id(one), -1) for one in part]
    return -1 not in at and at == sorted(set(at))
