"""Answers as the three providers give them, whole and as the events in which they stream the same."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from laser.models import ApiKind

Json = dict[str, Any]

# ------------------------------------------------------------------------------------------------ OpenAI Responses

REASONING = {
    "id": "rs_01",
    "type": "reasoning",
    "summary": [
        {"type": "summary_text", "text": "The label is missing."},
        {"type": "summary_text", "text": "Look the order up."},
    ],
    "content": [],
    "encrypted_content": "gAAAAABo-opaque/+==",
    "status": "completed",
}
SEARCH = {
    "id": "ws_01",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "plug"},
}
CITED = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [
        {
            "type": "output_text",
            "text": "Type C fits — “Typ F” too. 🔌",
            "annotations": [
                {
                    "type": "url_citation",
                    "url": "https://example.org/p",
                    "title": "Plugs",
                    "start_index": 0,
                    "end_index": 6,
                }
            ],
            "logprobs": [],
        }
    ],
}
CALL = {
    "id": "fc_01",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_a1",
    "name": "find_order",
    "arguments": '{"order": 17, "total": 1.10}',
}
CUSTOM_CALL = {"id": "ct_01", "type": "custom_tool_call", "call_id": "call_b2", "name": "run", "input": "print(\n'é')"}
COMPACTION = {"id": "cmp_01", "type": "compaction", "encrypted_content": "gAAAA-compacted"}


def response(output: Sequence[Json], *, status: str = "completed", **more: Any) -> Json:
    """A response object of OpenAI Responses."""
    return {
        "id": "resp_01",
        "object": "response",
        "created_at": 1763000000.25,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "gpt-5.4-mini",
        "output": list(output),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 0.98,
        "usage": {
            "input_tokens": 900,
            "input_tokens_details": {"cached_tokens": 640, "cache_write_tokens": 128},
            "output_tokens": 70,
            "output_tokens_details": {"reasoning_tokens": 40},
            "total_tokens": 970,
        },
        "metadata": {},
    } | more


RESPONSE = response([REASONING, SEARCH, CITED, CALL, CUSTOM_CALL])


def response_events(answer: Json, step: int = 5) -> Iterator[Json]:
    """The events that stream a response."""
    begun = answer | {"status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for place, item in enumerate(answer["output"]):
        at = {"output_index": place, "item_id": item.get("id", "")}
        yield {"type": "response.output_item.added", "output_index": place, "item": _begun(item)}
        yield from _item_events(item, at, step)
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": f"response.{answer['status']}", "response": answer}


def _begun(item: Json) -> Json:
    begun = copy.deepcopy(item)
    if "status" in begun:
        begun["status"] = "in_progress"
    for name, empty in (("content", []), ("summary", []), ("arguments", ""), ("input", ""), ("encrypted_content", "")):
        if name in begun:
            begun[name] = empty
    return begun


def _item_events(item: Json, at: Json, step: int) -> Iterator[Json]:
    for index, part in enumerate(item.get("summary", ())):
        here = at | {"summary_index": index}
        yield {"type": "response.reasoning_summary_part.added", **here, "part": part | {"text": ""}}
        for piece in cut(part["text"], step):
            yield {"type": "response.reasoning_summary_text.delta", **here, "delta": piece}
        yield {"type": "response.reasoning_summary_text.done", **here, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **here, "part": part}
    for index, part in enumerate(item.get("content", ())):
        here = at | {"content_index": index}
        field = "refusal" if part["type"] == "refusal" else "text"
        name = {"output_text": "output_text", "refusal": "refusal", "reasoning_text": "reasoning_text"}[part["type"]]
        empty = part | {field: ""} | ({"annotations": []} if "annotations" in part else {})
        yield {"type": "response.content_part.added", **here, "part": empty}
        for piece in cut(part[field], step):
            yield {"type": f"response.{name}.delta", **here, "delta": piece}
        for number, found in enumerate(part.get("annotations", ())):
            added = {"annotation_index": number, "annotation": found}
            yield {"type": "response.output_text.annotation.added", **here, **added}
        yield {"type": f"response.{name}.done", **here, field: part[field]}
        yield {"type": "response.content_part.done", **here, "part": part}
    calls = {
        "function_call": ("function_call_arguments", "arguments"),
        "custom_tool_call": ("custom_tool_call_input", "input"),
    }
    if item["type"] in calls:
        name, field = calls[item["type"]]
        for piece in cut(item[field], step):
            yield {"type": f"response.{name}.delta", **at, "delta": piece}
        yield {"type": f"response.{name}.done", **at, field: item[field]}
    if item["type"] == "web_search_call":
        yield {"type": "response.web_search_call.searching", **at}
        yield {"type": "response.web_search_call.completed", **at}


# ---------------------------------------------------------------------------------------------- Anthropic Messages

THINKING = {"type": "thinking", "thinking": "The label is missing.", "signature": "EqQBCkgIBR/+sig=="}
REDACTED = {"type": "redacted_thinking", "data": "EmwKAhgBEgy/+opaque=="}
CITED_BLOCK = {
    "type": "text",
    "text": "Type C fits. 🔌",
    "citations": [
        {
            "type": "char_location",
            "cited_text": "Plug type C",
            "document_index": 0,
            "document_title": "Plugs",
            "start_char_index": 3,
            "end_char_index": 14,
        }
    ],
}
TEXT_BLOCK = {"type": "text", "text": "I will look “it” up."}
SERVER_USE = {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {"query": "plug"}}
SERVER_RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_01",
    "content": [
        {
            "type": "web_search_result",
            "title": "Plugs",
            "url": "https://example.org/p",
            "encrypted_content": "Ev0D-opaque",
            "page_age": "2 days ago",
        }
    ],
}
TOOL_USE = {
    "type": "tool_use",
    "id": "toolu_a1",
    "name": "find_order",
    "input": {"order": 17, "total": 1.5, "tags": []},
}
EMPTY_USE = {"type": "tool_use", "id": "toolu_b2", "name": "now", "input": {}}


def message(content: Sequence[Json], *, stop: str | None = "tool_use", **more: Any) -> Json:
    """A message object of Anthropic Messages."""
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-6",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 260,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 640,
            "output_tokens": 70,
            "service_tier": "standard",
        },
    } | more


MESSAGE = message([THINKING, REDACTED, TEXT_BLOCK, CITED_BLOCK, SERVER_USE, SERVER_RESULT, TOOL_USE, EMPTY_USE])


def message_events(answer: Json, step: int = 5) -> Iterator[Json]:
    """The events that stream a message."""
    usage = answer["usage"] | {"output_tokens": 1}
    begun = answer | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": begun}
    yield {"type": "ping"}
    for index, block in enumerate(answer["content"]):
        at = {"index": index}
        kind = block["type"]
        empty = dict(block)
        deltas: list[Json] = []
        if kind == "text":
            empty |= {"text": ""} | ({"citations": []} if "citations" in block else {})
            deltas += [{"type": "text_delta", "text": piece} for piece in cut(block["text"], step)]
            deltas += [{"type": "citations_delta", "citation": one} for one in block.get("citations") or ()]
        elif kind == "thinking":
            empty |= {"thinking": "", "signature": ""}
            deltas += [{"type": "thinking_delta", "thinking": piece} for piece in cut(block["thinking"], step)]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif kind in ("tool_use", "server_tool_use"):
            empty |= {"input": {}}
            written = json.dumps(block["input"]) if block["input"] else ""
            deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *cut(written, step)]]
        yield {"type": "content_block_start", **at, "content_block": empty}
        yield from ({"type": "content_block_delta", **at, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", **at}
    ended = {name: answer[name] for name in ("stop_reason", "stop_sequence", "stop_details") if name in answer}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": answer["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


# ------------------------------------------------------------------------------------------------ Chat Completions

CHAT_CALLS = [
    {
        "id": "call_a1",
        "type": "function",
        "function": {"name": "find_order", "arguments": '{"order": 17, "total": 1.10}'},
    },
    {"id": "call_b2", "type": "function", "function": {"name": "now", "arguments": ""}},
]
CHAT_MESSAGE = {
    "role": "assistant",
    "content": "Type C fits — “Typ F” too. 🔌",
    "refusal": None,
    "annotations": [
        {
            "type": "url_citation",
            "url_citation": {"url": "https://example.org/p", "title": "Plugs", "start_index": 0, "end_index": 6},
        }
    ],
    "reasoning_content": "The label is missing.",
    "tool_calls": CHAT_CALLS,
}


def completion(said: Json, *, stop: str | None = "tool_calls", **more: Any) -> Json:
    """A completion object of Chat Completions."""
    return {
        "id": "chatcmpl-01",
        "object": "chat.completion",
        "created": 1763000000,
        "model": "gpt-5.4-mini",
        "choices": [{"index": 0, "message": said, "logprobs": None, "finish_reason": stop}],
        "usage": {
            "prompt_tokens": 900,
            "completion_tokens": 70,
            "total_tokens": 970,
            "prompt_tokens_details": {"cached_tokens": 640, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 40, "audio_tokens": 0},
        },
        "service_tier": "default",
        "system_fingerprint": "fp_01",
    } | more


COMPLETION = completion(CHAT_MESSAGE)


def completion_events(answer: Json, step: int = 5) -> Iterator[Json]:
    """The chunks that stream a completion."""
    (choice,) = answer["choices"]
    said = choice["message"]
    head = {name: value for name, value in answer.items() if name not in ("choices", "usage")}
    head["object"] = "chat.completion.chunk"

    def chunk(delta: Json, stop: str | None = None) -> Json:
        one = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}
        return head | {"choices": [one], "usage": None, "obfuscation": "x" * 7}

    texts = ("content", "refusal", "reasoning_content")
    first = {name: None if said[name] is None else "" for name in texts if name in said and name != "reasoning_content"}
    yield chunk({"role": "assistant"} | first)
    for name in ("reasoning_content", "content", "refusal"):
        for piece in cut(said.get(name) or "", step):
            yield chunk({name: piece})
    for index, call in enumerate(said.get("tool_calls") or ()):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]})
        for piece in cut(call["function"]["arguments"], step):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    if "annotations" in said:
        yield chunk({"annotations": said["annotations"]})
    yield chunk({}, choice["finish_reason"])
    if answer.get("usage") is not None:
        yield head | {"choices": [], "usage": answer["usage"]}


# ------------------------------------------------------------------------------------------------------ all of them


def cut(text: str, step: int) -> list[str]:
    """The text in pieces of so many characters."""
    return [text[at : at + step] for at in range(0, len(text), step)]


ANSWERS: dict[ApiKind, Json] = {
    "openai_responses": RESPONSE,
    "anthropic_messages": MESSAGE,
    "chat_completions": COMPLETION,
}
EVENTS: dict[ApiKind, Callable[[Json, int], Iterator[Json]]] = {
    "openai_responses": response_events,
    "anthropic_messages": message_events,
    "chat_completions": completion_events,
}


def body(api_kind: ApiKind, answer: Json, *, step: int = 5, end: bytes = b"\n", numbered: bool = True) -> bytes:
    """The body in which a provider streams an answer."""
    written = b""
    for number, event in enumerate(EVENTS[api_kind](answer, step)):
        if api_kind == "openai_responses" and numbered:
            event = event | {"sequence_number": number}
        if api_kind != "chat_completions":
            written += b"event: " + event["type"].encode() + end
        written += b"data: " + json.dumps(event, ensure_ascii=number % 2 == 0).encode() + end + end
    return written + (b"data: [DONE]" + end + end if api_kind == "chat_completions" else b"")
