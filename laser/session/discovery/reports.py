"""What a discovery found, what it left out, and why."""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

import msgspec
import orjson

from laser.session.active.entries import NewEntry

__all__ = ["Discovery", "DiscoveryReport", "Skill", "SourceReport", "encode_report"]

_KEY: Final = "laser.discovery"
_VERSION: Final = 1


class SourceReport(msgspec.Struct, frozen=True):
    """A file that was looked at.

    Attributes:
        files, path: where. kind: what it is to an agent. bytes, digest: of its content; SHA-256 as hexadecimal.
        left_out: why nothing of it was taken; ``None`` for one that was.
    """

    files: str
    path: str
    kind: Literal["instruction", "skill"]
    bytes: int = 0
    digest: str | None = None
    left_out: str | None = None


class DiscoveryReport(msgspec.Struct, frozen=True):
    """Every file that was looked at, in order, and what is to be known beside it."""

    sources: tuple[SourceReport, ...]
    warnings: tuple[str, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the report, as hexadecimal: what the entries made from it name as their provenance."""
        return hashlib.sha256(encode_report(self)).hexdigest()


class Skill(msgspec.Struct, frozen=True):
    """A skill that can be activated.

    Attributes:
        name, description: as its head says. files, path: where its ``SKILL.md`` is. digest: of that, SHA-256.
    """

    name: str
    description: str
    files: str
    path: str
    digest: str


class Discovery(msgspec.Struct, frozen=True):
    """What was discovered.

    Attributes:
        instructions: entries, in the order in which a model reads them. skills: by name.
        report: how it came about.
    """

    instructions: tuple[NewEntry, ...]
    skills: tuple[Skill, ...]
    report: DiscoveryReport


def encode_report(report: DiscoveryReport) -> bytes:
    """The JSON bytes of a report, the same for the same report."""
    value: dict[str, Any] = {_KEY: _VERSION}
    value.update(msgspec.to_builtins(report))
    return orjson.dumps(value)
