# pyright: strict
"""Not run: what a user of ``laser.models`` writes, beside the types of the official clients."""

from __future__ import annotations

from typing import assert_type

import anthropic
import httpx2

from laser import models


async def talks(client: anthropic.AsyncAnthropic) -> None:
    selection = models.ModelSelection("anthropic", "anthropic_messages", "claude-sonnet-4-6")
    tool = models.ToolDefinition("now", "The time.", {"type": "object", "properties": {}}, strict=True)
    search = models.ProviderTool("anthropic_messages", {"type": "web_search_20260318", "name": "web_search"})
    options = models.RequestOptions(tools=[tool, search], parameters={"max_tokens": 1_024}, cache_ttl="1h")
    picture = models.ImagePart(data=b"", media_type="image/png")
    context = [
        models.LoweringEntry.instruction("Help.", key="base"),
        models.LoweringEntry.catalog("- returns", key="skills", supersedes="c1"),
        models.LoweringEntry.user([models.TextPart("What is this?"), picture, models.FilePart(file_id="f")]),
    ]
    request = models.lower_request(selection, context, options, fragments=models.FragmentCache())
    assert_type(request, models.LoweredRequest)
    assert_type(request.body, bytes)
    assert_type(request.spans, tuple[tuple[int, int], ...])
    answer = await client.post(request.path, content=request.body, cast_to=httpx2.Response)
    reply = models.parse_reply(selection.api_kind, answer.content)
    assert_type(reply, models.ModelReply)
    assert_type(reply.calls, tuple[models.ToolCall, ...])
    assert_type(reply.items[0].call, models.ToolCall | None)
    assert_type(reply.stop, models.StopReason)
    assert_type(reply.usage.cache_read_tokens, int | None)
    assert_type(reply.continuation, tuple[models.NativeItem, ...])
    context += [models.LoweringEntry.native(item, reply.api_kind) for item in reply.continuation]
    context += [models.LoweringEntry.tool_result(call.id, "12:00", is_error=False) for call in reply.calls]


async def streams(answer: httpx2.Response, request: models.LoweredRequest) -> None:
    stream = models.ReplyStream(request.api_kind)
    async for chunk in answer.aiter_bytes():
        stream.feed(chunk)
        assert_type(stream.so_far().text, str)
    assert_type(stream.close(), models.ModelReply)


async def compacts(context: list[models.LoweringEntry], answer: bytes) -> None:
    selection = models.ModelSelection("openai", "openai_responses", "gpt-5.4-mini")
    assert_type(models.check_compaction_mode(selection.api_kind, "provider_triggered"), models.CompactionMode)
    models.lower_request(selection, context, stream=True, compact_threshold=50_000)
    assert_type(models.lower_compaction(selection, context, target_tokens=800), models.LoweredRequest)
    result = models.parse_compaction(selection.api_kind, answer)
    assert_type(result, models.CompactionResult)
    assert_type(result.summary, str | None)


def misuses(context: list[models.LoweringEntry]) -> None:
    models.ModelSelection("openai", "responses", "gpt-5.4-mini")  # type: ignore[arg-type]
    models.lower_request("gpt-5.4-mini", context)  # type: ignore[arg-type]
    models.RequestOptions(cache_ttl="2h")  # type: ignore[arg-type]
    models.LoweringEntry.tool_result("c1", b"bytes")  # type: ignore[arg-type]
    models.parse_reply("openai_responses", "text")  # type: ignore[arg-type]
