"""Providers of the configuration: identity, the fence notice, skills, deferred tools, request variables."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from laser.errors import InvalidError
from laser.prompt.fencing import FENCE_NOTICE
from laser.prompt.fragments import Layer
from laser.prompt.provider import BaseProvider, Provided, TurnContext

__all__ = ["ActiveSkills", "FenceNotice", "Identity", "Request", "Skill", "Skills", "ToolSearch"]


class Identity(BaseProvider):
    """Who the agent is: the texts of its configuration, in the order given. Never cut.

    Args:
        texts: what the agent always reads, global texts first.
    """

    name = "identity"
    layer: Layer = "identity"
    priority = 100
    pinned = True
    required = True

    def __init__(self, *texts: str) -> None:
        for text in texts:
            if not isinstance(text, str):
                raise InvalidError(f"texts: expected text, got {type(text).__name__}", argument="texts")
        self._texts = tuple(text.strip() for text in texts if text.strip())

    def applies(self, turn: TurnContext) -> bool:
        """Where there is any text."""
        return bool(self._texts)

    async def provide(self, turn: TurnContext) -> Provided:
        """The texts."""
        return [self.fragment(text) for text in self._texts]


class FenceNotice(BaseProvider):
    """The instruction to take contextual material as data; where the profile has fencing on."""

    name = "fence"
    layer: Layer = "identity"
    priority = 99
    pinned = True
    required = True

    def applies(self, turn: TurnContext) -> bool:
        """With fencing on."""
        return turn.profile.fencing

    async def provide(self, turn: TurnContext) -> Provided:
        """The notice."""
        return FENCE_NOTICE


class Skill(msgspec.Struct, frozen=True):
    """A skill: what a model may read more about.

    Attributes:
        name, description: its entry in the list. body: its whole text; ``""`` where it is read by a tool.
        triggers: words or phrases of a message that bring the body into the prompt.
        eager: the body is always in the prompt, and the list leaves it out.
    """

    name: str
    description: str
    body: str = ""
    triggers: Sequence[str] = ()
    eager: bool = False


SkillSource = Sequence[Skill] | Callable[[TurnContext], Awaitable[Sequence[Skill]]]
"""Skills, or an async function of the turn that gives them."""


async def _read_skills(source: SkillSource, turn: TurnContext) -> list[Skill]:
    listed = await source(turn) if callable(source) else source
    return sorted(listed, key=lambda skill: skill.name)


class Skills(BaseProvider):
    """The list of skills, without those whose text is in the prompt anyway.

    Args:
        skills: see ``SkillSource``. They are listed by name, so that the prefix does not depend on their order.
    """

    name = "skills"
    layer: Layer = "identity"
    priority = 80

    def __init__(self, skills: SkillSource) -> None:
        self._skills = skills

    async def provide(self, turn: TurnContext) -> Provided:
        """A line each."""
        listed = [skill for skill in await _read_skills(self._skills, turn) if not skill.eager]
        if not listed:
            return None
        lines = "\n".join(f"{_line(skill.name)}: {_line(skill.description)}" for skill in listed)
        return [self.fragment(turn.fence("available_skills", lines))]


class ActiveSkills(BaseProvider):
    """The whole text of skills that are always read, and of those that the message triggers.

    Args:
        skills: see ``SkillSource``.
    """

    name = "active_skills"
    priority = 85

    def __init__(self, skills: SkillSource) -> None:
        self._skills = skills

    async def provide(self, turn: TurnContext) -> Provided:
        """A block each."""
        message = turn.message.casefold()
        active = [
            skill
            for skill in await _read_skills(self._skills, turn)
            if skill.body and (skill.eager or any(_mentions(message, trigger) for trigger in skill.triggers))
        ]
        # A skill is an instruction of the configuration, but its text may imitate a delimiter all the same.
        return [
            self.fragment(turn.fence("active_skill", f"{skill.name}\n{skill.body.strip()}"), category="active_skills")
            for skill in active
        ]


class ToolSearch(BaseProvider):
    """The list of tools whose schemas are read only when they are asked for.

    Args:
        tools: descriptions by name. They are listed by name.
    """

    name = "tool_search"
    layer: Layer = "identity"
    priority = 70

    def __init__(self, tools: Mapping[str, str]) -> None:
        self._tools = dict(tools)

    def applies(self, turn: TurnContext) -> bool:
        """Where there is one."""
        return bool(self._tools)

    async def provide(self, turn: TurnContext) -> Provided:
        """A line each."""
        lines = "\n".join(f"{_line(name)}: {_line(text)}" for name, text in sorted(self._tools.items()))
        return [self.fragment(turn.fence("available_tools", lines))]


class Request(BaseProvider):
    """The turn's own variables, with the tenant and the customer. The first to leave."""

    name = "request"
    priority = 40

    def applies(self, turn: TurnContext) -> bool:
        """Where there is anything to tell."""
        return bool(turn.variables or turn.tenant or turn.customer)

    async def provide(self, turn: TurnContext) -> Provided:
        """A line each, by name."""
        told: dict[str, Any] = {"tenant": turn.tenant, "customer": turn.customer}
        told = {name: value for name, value in told.items() if value} | dict(sorted(turn.variables.items()))
        lines = "\n".join(f"{_line(name)}: {_line(str(value))}" for name, value in told.items())
        return [self.fragment(turn.fence("request_context", lines))]


def _line(text: str) -> str:
    return " ".join(text.split())


def _mentions(message: str, trigger: str) -> bool:
    """Whether a message has a trigger as words of its own; in scripts without spaces anywhere."""
    wanted = trigger.casefold().strip()
    if not wanted:
        return False
    if wanted.isascii():
        return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", message) is not None
    return wanted in message
