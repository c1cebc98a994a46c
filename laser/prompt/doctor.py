"""The doctor: settings that would give empty, uncached or incomplete prompts, each with what to do."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final, Literal

import msgspec

from laser.context.connection import Connection
from laser.errors import LaserError
from laser.model.topics import AgentTopic
from laser.prompt.builder import PromptBuilder
from laser.prompt.compacting import CompactionSettings
from laser.prompt.provider import ContextProvider
from laser.prompt.providers.briefing import BriefingKnown, Recitation
from laser.prompt.providers.configured import ActiveSkills, Identity, Request, Skills, ToolSearch
from laser.prompt.providers.history import History
from laser.prompt.providers.knowledge import Knowledge
from laser.prompt.providers.memory import MemoryFacts
from laser.prompt.trace import PromptTrace

__all__ = ["EXTRAS", "Finding", "check_builder", "check_compaction", "check_engine", "check_extras", "check_traces"]

_VOLATILE: Final = (ActiveSkills, BriefingKnown, History, Knowledge, MemoryFacts, Recitation, Request)
_STABLE: Final = (Identity, Skills, ToolSearch)

EXTRAS: Final = {
    "anthropic": ("anthropic", "sending to Anthropic with its own client"),
    "cli": ("typer", "the command line"),
    "embeddings": ("onnxruntime", "recall by meaning with a model on this machine"),
    "inspect": ("uvicorn", "laser inspect"),
    "openai": ("openai", "sending to OpenAI with its own client"),
    "otel": ("opentelemetry", "spans and metrics"),
    "postgres": ("psycopg", "key-value state on PostgreSQL"),
    "redis": ("redis", "key-value state on Redis or Valkey"),
    "s3": ("obstore", "large content on S3-compatible stores"),
    "snapcompact": ("PIL", "long sessions as pictures"),
    "tokens": ("toktok", "exact token counts"),
    "vectors": ("numpy", "recall by meaning with an embedder of your own"),
}
"""Extras by name: the module that each brings, and what it is for."""


class Finding(msgspec.Struct, frozen=True):
    """Something that the doctor found.

    Attributes:
        level: ``error``: it does not work. ``warning``: it works less well than it could. ``info``: worth knowing.
        subject: what it is about. text: what is wrong. advice: what to do.
    """

    level: Literal["error", "warning", "info"]
    subject: str
    text: str
    advice: str


def check_builder(builder: PromptBuilder) -> list[Finding]:
    """What is wrong with the settings of a builder. No I/O."""
    found: list[Finding] = []
    for provider in builder.providers:
        found += _check_provider(provider)
    names = {provider.name for provider in builder.providers}
    allowed = builder.profile.providers
    if allowed is not None:
        unknown = sorted(set(allowed) - names)
        if unknown:
            found.append(
                Finding(
                    "warning",
                    "profile",
                    f"allows providers that are not there: {', '.join(unknown)}",
                    f"there are: {', '.join(sorted(names))}; correct the names, or add the providers",
                )
            )
        names &= {*allowed, "fence"}
    if "identity" not in names:
        found.append(
            Finding("warning", "identity", "no identity: nothing tells the model who it is", "add Identity(text)")
        )
    if "history" not in names:
        found.append(Finding("warning", "history", "no history: every turn begins from nothing", "add History()"))
    budget = builder.profile.budget
    if budget.tokens - budget.reply < 1_000:
        found.append(
            Finding(
                "warning",
                "budget",
                f"{budget.tokens} tokens less {budget.reply} for the reply leave little for a prompt",
                "raise PromptBudget.tokens: a rich system text alone can have tens of thousands",
            )
        )
    if builder.tokens.name == "bytes/4":
        found.append(
            Finding(
                "info",
                "tokens",
                "token counts are estimates: JSON, code and emoji cost more than they say",
                "pass tokens=laser.tokens('o200k_base') where the budget is close to the model's window",
            )
        )
    return found


def check_compaction(settings: CompactionSettings | None, *, summarizer: object | None) -> list[Finding]:
    """What is wrong with the settings of a session's compaction."""
    if settings is not None and settings.mode == "summary" and summarizer is None:
        return [
            Finding(
                "warning",
                "compaction",
                "compaction is on, and nobody makes the summaries: it does nothing",
                "give SessionCompactor a summarizer",
            )
        ]
    return []


async def check_engine(laser: Connection) -> list[Finding]:
    """Whether a log answers and has the topics that prompts need."""
    log = laser.open_log()
    try:
        await log.describe()
        present = {info.name for info in await log.topics(laser.stream)}
    except LaserError as error:
        return [Finding("error", "log", f"cannot be used: {error}", "check the URL, and that the server runs")]
    try:
        await laser.open_views()
    except LaserError as error:
        return [
            Finding("error", "views", f"memory and graphs cannot be read: {error}", "free the disk or mend its rights")
        ]
    missing = [name for name in (AgentTopic.Sessions, AgentTopic.Control, AgentTopic.Audit) if name not in present]
    if missing:
        return [
            Finding(
                "warning",
                "topics",
                f"stream {laser.stream!r} lacks {', '.join(missing)}",
                "run: laser bootstrap",
            )
        ]
    return []


def check_extras() -> list[Finding]:
    """Extras that are not installed."""
    return [
        Finding("info", f"extra {name}", f"not installed; it is for {what}", f"pip install 'laser-context[{name}]'")
        for name, (module, what) in EXTRAS.items()
        if find_spec(module) is None
    ]


def check_traces(traces: Sequence[PromptTrace]) -> list[Finding]:
    """What the prompts of a session tell about its settings.

    Args:
        traces: as ``read_traces`` gives them, oldest first.
    """
    found: list[Finding] = []
    if not traces:
        return found
    last = traces[-1]
    shown = {one.category for one in last.categories}
    if not shown & {"history", "compaction"} and last.history.messages:
        found.append(
            Finding(
                "error",
                "history",
                f"none of {last.history.messages} messages is in the prompt",
                f"raise PromptBudget.tokens above {last.budget.budget}: {last.budget.wanted} were wanted, "
                f"{last.budget.available} available",
            )
        )
    evicted = [one for one in last.evicted if one.category == "history"]
    if evicted:
        found.append(
            Finding(
                "warning",
                "history",
                f"the budget evicted {evicted[0].fragments} messages of the last prompt beyond its own trimming: "
                "the prefix moves with each turn",
                "raise PromptBudget.tokens, or give History fewer tokens of its own: it is trimmed then, and held",
            )
        )
    broken = [trace.invalidated for trace in traces if trace.invalidated is not None]
    if len(broken) * 2 > len(traces) > 3:
        found.append(
            Finding(
                "warning",
                "cache",
                f"the stable prefix changed in {len(broken)} of {len(traces)} turns, first in {broken[-1]}",
                "keep what changes out of the identity layer and of the tool schemas, and their order fixed",
            )
        )
    lost = {report.name for report in last.providers if report.status in ("late", "failed", "flooded")}
    found += [
        Finding("warning", name, "did not contribute to the last prompt", "see its status in laser prompt show")
        for name in sorted(lost)
    ]
    reads = [trace.usage.cache_read_tokens for trace in traces if trace.usage is not None]
    known = [count for count in reads if count is not None]
    if len(known) > 3 and not any(known) and last.stable_tokens >= 1_024:
        found.append(
            Finding(
                "warning",
                "cache",
                "the provider read nothing from its cache, although the prefix is long enough",
                "with Anthropic set prompt_caching=True; else see whether requests reach the same deployment in time",
            )
        )
    return found


def _check_provider(provider: ContextProvider) -> list[Finding]:
    if provider.layer != "identity":
        return []
    if isinstance(provider, _VOLATILE):
        return [
            Finding(
                "error",
                provider.name,
                "changes with each turn and is declared identity: no prefix is ever cached",
                "set its layer to 'volatile'",
            )
        ]
    if isinstance(provider, _STABLE) or provider.name == "fence":
        return []
    return [
        Finding(
            "warning",
            provider.name,
            "is declared identity, and whether its text is the same in every turn cannot be seen from outside",
            "make sure that it is, to the byte; else set its layer to 'volatile'",
        )
    ]
