"""What the official clients say a request may look like."""

from __future__ import annotations

from typing import Any

from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from openai.types.responses.response_compact_params import ResponseCompactParams
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)

from tests.models.shapes import complaints

SHAPES: dict[str, tuple[Any, Any]] = {
    "/responses": (ResponseCreateParamsNonStreaming, ResponseCreateParamsStreaming),
    "/responses/compact": (ResponseCompactParams, ResponseCompactParams),
    "/v1/messages": (MessageCreateParamsNonStreaming, MessageCreateParamsStreaming),
    "/chat/completions": (CompletionCreateParamsNonStreaming, CompletionCreateParamsStreaming),
}
# Fields of the model's own message that the client's types for requests leave out, and that providers take back.
GIVEN_BACK = {"annotations", "reasoning_content", "reasoning", "reasoning_details", "audio"}


def request_complaints(path: str, body: dict[str, Any]) -> list[str]:
    """What is wrong with a request's body."""
    if path == "/chat/completions":
        told = [
            {key: value for key, value in said.items() if key not in GIVEN_BACK}
            if said["role"] == "assistant"
            else said
            for said in body["messages"]
        ]
        body = body | {"messages": told}
    return complaints(body, SHAPES[path][bool(body.get("stream"))])
