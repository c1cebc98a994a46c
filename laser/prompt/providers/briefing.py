"""The briefing's providers: what is known goes into the system text, what is missing to the tail, and only there."""

from __future__ import annotations

from laser.errors import InvalidError
from laser.prompt.briefing import Briefing, BriefingState
from laser.prompt.provider import BaseProvider, Provided, TurnContext

__all__ = ["BriefingKnown", "Recitation"]


class _OfBriefing(BaseProvider):
    def __init__(self, briefing: Briefing) -> None:
        if not isinstance(briefing, Briefing):
            raise InvalidError(
                f"briefing: expected a Briefing, got {type(briefing).__name__}; Briefing('size') makes one",
                argument="briefing",
            )
        self._briefing = briefing

    def applies(self, turn: TurnContext) -> bool:
        """Where fields are declared and there is a session."""
        return bool(self._briefing.fields) and turn.scope is not None

    def _state(self, turn: TurnContext) -> BriefingState:
        return self._briefing.of(turn.notes.briefing, turn.notes.next_step)


class BriefingKnown(_OfBriefing):
    """The fields that are known.

    Args:
        briefing: its fields.
    """

    name = "briefing"
    priority = 65

    async def provide(self, turn: TurnContext) -> Provided:
        """A line each, in the order of their declaration."""
        known = self._state(turn)
        if not known:
            return None
        lines = "\n".join(["known:", *(f"  {name}: {value}" for name, value in known.items())])
        return [self.fragment(turn.fence("briefing", lines))]


class Recitation(_OfBriefing):
    """The fields still missing and the next step: the last that the model reads before the current message.

    Args:
        briefing: its fields.
    """

    name = "recitation"
    priority = 95

    async def provide(self, turn: TurnContext) -> Provided:
        """Two lines at most."""
        state = self._state(turn)
        lines = [f"still missing: {', '.join(state.missing)}"] if state.missing else []
        if state.next_step:
            lines.append(f"next step: {state.next_step}")
        if not lines:
            return None
        return [self.fragment(turn.fence("recitation", "\n".join(lines)), place="tail")]
