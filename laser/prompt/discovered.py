"""What was discovered in directories and workspaces, as a prompt takes it."""

from __future__ import annotations

from collections.abc import Sequence

from laser.prompt.providers.configured import Skill
from laser.session.discovery.reports import Discovery

__all__ = ["discovered_skills", "discovered_texts"]


def discovered_texts(discovery: Discovery) -> list[str]:
    """The instructions, in the order in which a model reads them: ``Identity(text, *discovered_texts(found))``.

    Args:
        discovery: as ``laser.discover`` gives it.
    """
    return [(entry.payload or b"").decode("utf-8", "replace") for entry in discovery.instructions]


def discovered_skills(discovery: Discovery, eager: Sequence[str] = ()) -> list[Skill]:
    """The skills, by name: what they are for; their texts are read when they are activated.

    Args:
        discovery: as ``laser.discover`` gives it. eager: names of those that the list leaves out, because their text
            is in the prompt anyway.
    """
    return [Skill(skill.name, skill.description, eager=skill.name in eager) for skill in discovery.skills]
