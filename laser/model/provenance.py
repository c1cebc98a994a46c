"""Provenance: who wrote a record, in which conversation, and why."""

from __future__ import annotations

import msgspec

__all__ = ["Provenance", "Usage"]


class Usage(msgspec.Struct, frozen=True):
    """What a model call used: tokens read and written, and its cost in US dollars; ``None`` where not known."""

    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where a record comes from. Carried in the record's headers, so readers need not open the payload.

    Args:
        conversation_id: the conversation; ``append`` fills it in when it is left out.
        parent_conversation_id: the conversation that started this one.
        root_conversation_id: the first conversation of the tree.
        agent: the name of the agent that wrote the record.
        target_agent_id: the agent it is meant for; ``*`` for all, which a read shows as ``None``.
        causal_parent: the record that caused this one, as ``partition:offset``.
        idempotency_key: the caller's own key for "this very piece of work".
        correlation_id: ties a request to its answers.
        deadline_micros: when the work is void, in microseconds since 1970 UTC.
        fence_token: a fencing token, unsigned 64 bits.
        input_tokens: tokens that the model read. output_tokens: tokens that it wrote.
        cost_usd: what the call cost, in US dollars; finite.

    Texts are 1 to 255 UTF-8 bytes without control characters.
    """

    conversation_id: str | None = None
    causal_parent: str | None = None
    parent_conversation_id: str | None = None
    root_conversation_id: str | None = None
    agent: str | None = None
    target_agent_id: str | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    deadline_micros: int | None = None
    fence_token: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    def partition_key(self) -> str | None:
        """The key that decides the record's partition: the conversation id."""
        return self.conversation_id

    @property
    def deadline(self) -> int | None:
        """``deadline_micros``, as laser-sdk calls it."""
        return self.deadline_micros

    @property
    def usage(self) -> Usage | None:
        """Tokens and cost together, ``None`` where nothing of them is known."""
        if self.input_tokens is None and self.output_tokens is None and self.cost_usd is None:
            return None
        return Usage(self.input_tokens, self.output_tokens, self.cost_usd)
