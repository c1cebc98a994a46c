"""The models room: answers of model providers read without loss, and contexts lowered to requests.

``from laser import models``. Nothing here does I/O or knows a credential: bytes come in and bytes go out, so any client
can carry them. Three APIs: OpenAI Responses, Anthropic Messages, Chat Completions.
"""

from laser.models.compaction import (
    CompactionMode,
    CompactionResult,
    check_compaction_mode,
    lower_compaction,
    parse_compaction,
)
from laser.models.content import (
    CONTENT_TYPE,
    TEXT_TYPE,
    ContentPart,
    FilePart,
    ImagePart,
    TextPart,
    decode_content,
    encode_content,
)
from laser.models.entries import ENTRY_KINDS, NATIVE_TYPE, EntryKind, LoweringEntry
from laser.models.fragments import FragmentCache
from laser.models.lowering import LoweredRequest, RequestOptions, lower_request
from laser.models.parsing import ReplyStream, parse_reply
from laser.models.replies import ItemKind, ModelReply, NativeItem, ReplyError, StopReason, TokenUsage, ToolCall
from laser.models.selection import API_KINDS, ApiKind, ModelSelection, check_api_kind
from laser.models.showing import visible_text
from laser.models.tools import ProviderTool, Tool, ToolDefinition

__all__ = [
    "API_KINDS",
    "CONTENT_TYPE",
    "ENTRY_KINDS",
    "NATIVE_TYPE",
    "TEXT_TYPE",
    "ApiKind",
    "CompactionMode",
    "CompactionResult",
    "ContentPart",
    "EntryKind",
    "FilePart",
    "FragmentCache",
    "ImagePart",
    "ItemKind",
    "LoweredRequest",
    "LoweringEntry",
    "ModelReply",
    "ModelSelection",
    "NativeItem",
    "ProviderTool",
    "ReplyError",
    "ReplyStream",
    "RequestOptions",
    "StopReason",
    "TextPart",
    "TokenUsage",
    "Tool",
    "ToolCall",
    "ToolDefinition",
    "check_api_kind",
    "check_compaction_mode",
    "decode_content",
    "encode_content",
    "lower_compaction",
    "lower_request",
    "parse_compaction",
    "parse_reply",
    "visible_text",
]
