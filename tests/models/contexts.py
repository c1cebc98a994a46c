"""Contexts to lower: entries of every kind, for each API."""

from __future__ import annotations

from typing import Any

from laser.models import (
    ApiKind,
    FilePart,
    ImagePart,
    LoweringEntry,
    ModelSelection,
    RequestOptions,
    TextPart,
    ToolDefinition,
    parse_reply,
)
from tests.models.answers import ANSWERS, Json

SELECTIONS: dict[ApiKind, ModelSelection] = {
    "openai_responses": ModelSelection("openai", "openai_responses", "gpt-5.4-mini"),
    "anthropic_messages": ModelSelection("anthropic", "anthropic_messages", "claude-sonnet-4-6"),
    "chat_completions": ModelSelection("openai", "chat_completions", "gpt-5.4-mini"),
}
NEEDED: dict[ApiKind, dict[str, Any]] = {
    "openai_responses": {},
    "anthropic_messages": {"max_tokens": 1_024},
    "chat_completions": {},
}
FIND = ToolDefinition(
    "find_order",
    "Finds an order.",
    {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]},
)
NOW = ToolDefinition("now", "The time.", {"type": "object", "properties": {}}, strict=True)
PNG = b"\x89PNG\r\n\x1a\n pixels"


def options(api_kind: ApiKind, **more: Any) -> RequestOptions:
    """Options that the API cannot do without, and more."""
    parameters = NEEDED[api_kind] | more.pop("parameters", {})
    return RequestOptions(parameters=parameters, **more)


def native(api_kind: ApiKind, answer: Json | None = None) -> list[LoweringEntry]:
    """The entries that an answer becomes."""
    reply = parse_reply(api_kind, answer if answer is not None else ANSWERS[api_kind])
    return [LoweringEntry.native(item, api_kind, id=f"n{place}") for place, item in enumerate(reply.items)]


def results(api_kind: ApiKind) -> list[LoweringEntry]:
    """What the tools gave for the calls of the sample answer."""
    calls = parse_reply(api_kind, ANSWERS[api_kind]).calls
    return [LoweringEntry.tool_result(call.id, f"{call.name}: done") for call in calls]


def everything(api_kind: ApiKind) -> list[LoweringEntry]:
    """A context with entries of every kind."""
    file = FilePart(data=b"%PDF-1.7", media_type="application/pdf", name="plugs.pdf")
    return [
        LoweringEntry.instruction("Help with “orders”.\nBe brief.", key="a"),
        LoweringEntry.instruction("No promises.", key="b"),
        LoweringEntry.catalog("- returns: how to return", key="skills", id="c1"),
        LoweringEntry.user([TextPart("Which plug?"), ImagePart(data=PNG, media_type="image/png"), file]),
        *native(api_kind),
        *results(api_kind),
        LoweringEntry.skill("Ask for the order first.", key="returns"),
        LoweringEntry.catalog("- returns\n- plugs", key="skills", id="c2", supersedes="c1"),
        LoweringEntry.summary("They bought a lamp."),
        LoweringEntry.user("Go on."),
    ]
