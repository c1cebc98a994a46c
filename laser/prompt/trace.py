"""Traces: what was built for a turn and why, in counts and digests, without any content."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import orjson

from laser.errors import CodecError
from laser.prompt.fingerprints import Fingerprints
from laser.prompt.reports import HistoryReport, ProviderStatus

__all__ = [
    "BudgetReport",
    "CategoryReport",
    "EvictionReport",
    "PromptTrace",
    "ProviderReport",
    "TraceUsage",
    "decode_trace",
    "encode_trace",
    "encode_usage",
]

_TRACE: Final = "laser.prompt"
_USAGE: Final = "laser.prompt_usage"
_VERSION: Final = 1


class BudgetReport(msgspec.Struct, frozen=True):
    """The verdict on the budget, in tokens.

    Attributes:
        budget: in all. reply, tools, message: taken off first. available: what was left for the fragments.
        wanted: what all of them would cost. used: what the kept ones cost, measured on the joined text.
        verdict: ``fits`` or ``evicted``.
    """

    budget: int
    reply: int
    tools: int
    message: int
    available: int
    wanted: int
    used: int
    verdict: str


class CategoryReport(msgspec.Struct, frozen=True):
    """A category as it stands in the prompt."""

    category: str
    layer: str
    place: str
    fragments: int
    tokens: int


class EvictionReport(msgspec.Struct, frozen=True):
    """What left of one category and provider, and why. priority: the highest that left."""

    category: str
    provider: str
    fragments: int
    tokens: int
    priority: int
    reason: str = "over budget, lowest priority first"


class ProviderReport(msgspec.Struct, frozen=True):
    """How a provider fared. milliseconds: that it took."""

    name: str
    status: ProviderStatus
    milliseconds: float
    fragments: int
    reason: str | None = None


class TraceUsage(msgspec.Struct, frozen=True):
    """Tokens as the provider counted them; ``None`` for what it did not tell. Cached ones are part of the input."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


class PromptTrace(msgspec.Struct, frozen=True):
    """What was built for one turn.

    Attributes:
        turn: the build's name. conversation: its id, ``None`` without a log. agent: who it was for.
        tokenizer: who counted. budget, categories, evicted, providers, history: see their types.
        fingerprints: of the stable prefix. invalidated: its first part that changed since the turn before; ``None``
            where none did, or there was none before.
        warnings: what is missing in the prompt that should be there, for people.
        milliseconds: that the build took. usage: as the provider counted, where it was given later.
    """

    turn: str
    conversation: str | None
    agent: str | None
    tokenizer: str
    budget: BudgetReport
    categories: tuple[CategoryReport, ...]
    evicted: tuple[EvictionReport, ...]
    providers: tuple[ProviderReport, ...]
    history: HistoryReport
    fingerprints: Fingerprints
    invalidated: str | None
    warnings: tuple[str, ...]
    milliseconds: float
    usage: TraceUsage | None = None

    @property
    def stable_tokens(self) -> int:
        """Tokens of the tool schemas and the identity layer."""
        return self.budget.tools + sum(one.tokens for one in self.categories if one.layer == "identity")


def encode_trace(trace: PromptTrace) -> bytes:
    """The JSON bytes of a trace."""
    return orjson.dumps({_TRACE: _VERSION} | msgspec.to_builtins(trace))


def encode_usage(turn: str, usage: TraceUsage) -> bytes:
    """The JSON bytes of what a provider counted for a turn."""
    return orjson.dumps({_USAGE: _VERSION, "turn": turn} | msgspec.to_builtins(usage))


def decode_trace(payload: bytes) -> PromptTrace | tuple[str, TraceUsage] | None:
    """The trace in a payload, or a turn with its usage; ``None`` when the payload is something else.

    Raises:
        CodecError: it says to be one of them, and is damaged or of a newer version.
    """
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict):
        return None
    if _TRACE in value:
        _check_version(value[_TRACE])
        trace: PromptTrace = _convert(value, PromptTrace)
        return trace
    if _USAGE in value:
        _check_version(value[_USAGE])
        usage: TraceUsage = _convert(value, TraceUsage)
        return str(value.get("turn")), usage
    return None


def _check_version(version: object) -> None:
    if version != _VERSION:
        raise CodecError(f"prompt trace: version {version!r:.40} is not {_VERSION}; a newer laser may read it")


def _convert(value: dict[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise CodecError(f"prompt trace: {error}") from error
