"""What stands for the older messages of a conversation: summaries of the session's strategy, or a provider's state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import orjson

from laser.compaction.coverage import NO_COVERAGE, Coverage
from laser.compaction.covering import read_coverage
from laser.compaction.inputs import PreparedInput
from laser.compaction.registry import StrategyRegistry
from laser.model.messages import ContextMessage
from laser.model.topics import AgentTopic
from laser.models.selection import ModelSelection
from laser.prompt.fencing import fence
from laser.prompt.fragments import Fragment
from laser.prompt.history.results import lighten
from laser.prompt.notes import NativeNote
from laser.prompt.provider import TurnContext

__all__ = ["NO_STAND_IN", "StandIn", "drawn_for", "read_stand_in", "stand_in_fragments"]

_PRIORITY: Final = 59
_NATIVE_UNIT: Final = -1


class StandIn(msgspec.Struct, frozen=True):
    """What a prompt shows in the place of older messages.

    Attributes:
        coverage: by the session's strategy. native: a provider's state; where there is one, it alone counts.
    """

    coverage: Coverage = NO_COVERAGE
    native: NativeNote | None = None

    def covers(self, message: ContextMessage) -> bool:
        """Whether it stands for a message."""
        if self.native is not None:
            return self.native.covers(message)
        return message.topic == AgentTopic.Sessions and self.coverage.covers(message.partition, message.offset)

    def stub(self, message: ContextMessage) -> bytes | None:
        """How a message is shown whose result is left out; ``None`` for one that is shown as it is."""
        if self.native is not None or not self.coverage.stubs or message.topic != AgentTopic.Sessions:
            return None
        return self.coverage.stubs.get((message.partition, message.offset))


NO_STAND_IN: Final = StandIn()
"""Of a conversation that is shown whole."""


async def read_stand_in(turn: TurnContext, registry: StrategyRegistry) -> StandIn:
    """What stands for older messages in a turn's prompt; the same parts come back until something changes.

    A provider's state counts for the provider, protocol and model that made it, and where it stands for at least as
    much as the strategy's summaries: never both, which would show messages twice.
    """
    assert turn.laser is not None
    assert turn.scope is not None
    coverage = await read_coverage(
        turn.laser,
        turn.scope.conversation,
        registry,
        window=turn.profile.budget.tokens,
        provider=drawn_for(turn.model),
    )
    native = turn.notes.native
    if native is None or turn.model is None or not native.is_for(turn.model):
        return StandIn(coverage)
    if coverage.last is not None:
        partition, offset = coverage.last
        if native.topic != AgentTopic.Sessions or partition != native.partition or offset > native.offset:
            return StandIn(coverage)
    return StandIn(native=native)


def drawn_for(model: ModelSelection | None) -> str | None:
    """The name that says how pictures are sent to a model: by its protocol, else by its provider."""
    if model is None:
        return None
    if model.api_kind == "openai_responses":
        return "openai_responses"
    return "anthropic" if model.api_kind == "anthropic_messages" else model.provider_id


def stand_in_fragments(found: StandIn, turn: TurnContext, covered: int) -> list[Fragment]:
    """The fragments, in the order in which a model gets them.

    Args:
        covered: tokens of the messages that a provider's state stands for.
    """
    if found.native is not None:
        # The budget counts what the state stands for too: a provider may read it all again.
        items = [item.decode() for item in found.native.opaque_items()]
        return [
            Fragment("compaction", item, _PRIORITY, place="history", unit=_NATIVE_UNIT, flat=0 if place else covered)
            for place, item in enumerate(items)
        ]
    fragments: list[Fragment] = []
    words: list[str] = []
    for one in found.coverage.inputs:
        value = orjson.loads(one.payload)
        # What is quoted beside a summary belongs to it.
        if words and one.kind != "recap":
            fragments.append(_said(words, turn))
            words = []
        if isinstance(value["content"], str):
            words.append(value["content"])
        else:
            fragments.append(_picture(one, value, turn))
    if words:
        fragments.append(_said(words, turn))
    return fragments


def _said(words: Sequence[str], turn: TurnContext) -> Fragment:
    text = fence("conversation_summary", "\n\n".join(words), on=turn.profile.fencing)
    message = orjson.dumps({"role": "user", "content": text}).decode()
    return Fragment("compaction", message, _PRIORITY, place="history")


def _picture(one: PreparedInput, value: dict[str, Any], turn: TurnContext) -> Fragment:
    # What it costs is known by its size, which other images of a prompt do not tell.
    measured, _ = lighten(value, one.payload)
    counted = turn.tokens.count(f"{measured}\n")
    flat = max(0, one.tokens - counted)
    return Fragment(
        "compaction",
        one.payload.decode(),
        _PRIORITY,
        place="history",
        tokens=counted + flat,
        flat=flat,
        measured=measured,
    )
