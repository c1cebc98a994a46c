"""Which parameters of a provider a caller may set, and which are laser's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from laser.errors import InvalidError
from laser.models.exact import write_argument
from laser.models.selection import ApiKind

__all__ = ["ALLOWED", "COMPACT_ALLOWED", "OWNED", "REFUSED", "lower_parameters"]

ALLOWED: Final[dict[ApiKind, frozenset[str]]] = {
    "openai_responses": frozenset(
        {
            "access_programs",
            "image",
            "include",
            "max_output_tokens",
            "max_tool_calls",
            "metadata",
            "moderation",
            "parallel_tool_calls",
            "prompt_cache_options",
            "prompt_cache_retention",
            "reasoning",
            "safety_identifier",
            "service_tier",
            "store",
            "stream_options",
            "temperature",
            "text",
            "tool_choice",
            "top_logprobs",
            "top_p",
            "truncation",
            "user",
        }
    ),
    "anthropic_messages": frozenset(
        {
            "container",
            "diagnostics",
            "inference_geo",
            "max_tokens",
            "metadata",
            "output_config",
            "service_tier",
            "speed",
            "stop_sequences",
            # The client's types have lost these three; models of before take them.
            "temperature",
            "thinking",
            "tool_choice",
            "top_k",
            "top_p",
            "user_profile_id",
            "workspace_id",
        }
    ),
    "chat_completions": frozenset(
        {
            "audio",
            "frequency_penalty",
            "logit_bias",
            "logprobs",
            "max_completion_tokens",
            "max_tokens",
            "metadata",
            "modalities",
            "moderation",
            "parallel_tool_calls",
            "prediction",
            "presence_penalty",
            "prompt_cache_options",
            "prompt_cache_retention",
            "reasoning_effort",
            "response_format",
            "safety_identifier",
            "seed",
            "service_tier",
            "stop",
            "store",
            "stream_options",
            "temperature",
            "tool_choice",
            "top_logprobs",
            "top_p",
            "user",
            "verbosity",
            "web_search_options",
        }
    ),
}
"""Parameters that are passed on as they are."""

COMPACT_ALLOWED: Final = frozenset({"image", "prompt_cache_options", "prompt_cache_retention", "service_tier"})
"""Those that the compact endpoint of Responses takes too."""

OWNED: Final[dict[str, str]] = {
    "model": "the model selection",
    "input": "the entries",
    "messages": "the entries",
    "instructions": "instruction entries",
    "system": "instruction entries",
    "tools": "tools=",
    "stream": "stream=",
    "prompt_cache_key": "cache_key=",
    "cache_control": "cache= and cache_ttl=",
    "context_management": "compact_threshold=",
}
"""Parameters that lowering sets itself, and from what."""

REFUSED: Final[dict[str, str]] = {
    "background": "the answer must come with the call",
    "background_options": "the answer must come with the call",
    "conversation": "the provider would keep a history of its own beside the log",
    "previous_response_id": "the provider would keep a history of its own beside the log",
    "prompt": "a template at the provider changes without the log knowing",
    "n": "a conversation goes on with one answer",
    "functions": "calls without ids cannot be paired with results; use tools=",
    "function_call": "calls without ids cannot be paired with results; use tools=",
}
"""Parameters that do not go together with a context kept on a log, and why."""


def lower_parameters(
    api_kind: ApiKind,
    parameters: Mapping[str, Any],
    *,
    also: Collection[str] = (),
    only: frozenset[str] | None = None,
) -> dict[str, bytes]:
    """The parameters as JSON, sorted by name.

    Args:
        also: further names that this provider takes. only: names beyond which allowed ones are left out.

    Raises:
        InvalidError: a parameter that is not allowed, and what to use instead; or a value that JSON does not have.
    """
    if not isinstance(parameters, Mapping):
        raise InvalidError(f"parameters: expected a mapping, got {type(parameters).__name__}", argument="parameters")
    lowered: dict[str, bytes] = {}
    for name in sorted(map(str, parameters)):
        if name in OWNED:
            raise InvalidError(f"parameters: {name} is set from {OWNED[name]}", argument="parameters")
        if name in REFUSED:
            raise InvalidError(f"parameters: {name} is not supported: {REFUSED[name]}", argument="parameters")
        if name not in ALLOWED[api_kind] and name not in also:
            raise InvalidError(
                f"parameters: {name} is not known for {api_kind}; if this provider takes it, name it in allow",
                argument="parameters",
            )
        if only is None or name in only:
            lowered[name] = write_argument(parameters[name], "parameters")
    return lowered
