"""What a model answered: the provider's own items, and the few facts that are read from them."""

from __future__ import annotations

from typing import Literal

import msgspec

from laser.models.selection import ApiKind

__all__ = ["ItemKind", "ModelReply", "NativeItem", "ReplyError", "StopReason", "TokenUsage", "ToolCall"]

ItemKind = Literal["message", "reasoning", "tool_call", "tool_result", "server_tool", "compaction", "other"]
"""What an item means: ``server_tool`` ran at the provider, ``tool_call`` waits for a result of the caller's."""

StopReason = Literal[
    "end",
    "tool_calls",
    "stop_sequence",
    "paused",
    "refusal",
    "length",
    "filtered",
    "failed",
    "cancelled",
    "interrupted",
    "unknown",
]
"""Why it stopped. ``paused``: the provider wants the same request again with the answer added. ``length``: the output
limit or the model's window. ``interrupted``: the answer ends before the provider said that it does."""


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A tool call that the caller may carry out.

    Attributes:
        id: to be named by its result. name: the tool's; for calls without one, their type, such as ``computer_call``.
        arguments: the text as the model wrote it, which may be no JSON; for Anthropic the JSON of its input.
        namespace: of the tool, where it has one.
    """

    id: str
    name: str
    arguments: str
    namespace: str | None = None


class NativeItem(msgspec.Struct, frozen=True, gc=False):
    """One piece of an answer in the provider's own form, as it has to go back.

    Attributes:
        kind: what it means. payload: its JSON, compact UTF-8, keys and numbers as they came: of Responses an output
            item; of Anthropic a content block, or the list of consecutive text blocks; of Chat Completions the
            message without its calls and reasoning, the fields of the reasoning, or one tool call.
        call: the call, when it may be carried out. text: what a person may see of a message or reasoning.
    """

    kind: ItemKind
    payload: bytes
    call: ToolCall | None = None
    text: str = ""


class TokenUsage(msgspec.Struct, frozen=True, gc=False):
    """Tokens as the provider counted them. What it did not tell is ``None``, never 0.

    Attributes:
        input_tokens: all that the model read; those from and to a cache are part of it, on every API.
        output_tokens: all that it wrote; ``reasoning_tokens`` are part of it.
        cache_read_tokens: read from the provider's cache. cache_write_tokens: written to it.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class ReplyError(msgspec.Struct, frozen=True, gc=False):
    """What the provider said went wrong: its code or type, and its words."""

    code: str | None
    message: str


class ModelReply(msgspec.Struct, frozen=True):
    """An answer.

    Attributes:
        completed: the model came to an end of its own and all of it arrived. Only then are calls admitted, and only
            then may a summary be used. stop: why it stopped. stop_native: the provider's word for it.
        items: every finished item, in order. A ``tool_call`` whose ``call`` is ``None`` was not admitted.
        text: the visible text. reasoning: the visible reasoning. refusal: why it refused, maybe empty; ``None`` when
            it did not. Of an interrupted stream, text and reasoning go up to the cut.
        citations: the provider's annotations and citations, JSON each.
        usage: tokens. error: of a failed answer. id, model: as the provider names them.
        native: the whole answer, JSON; of a stream, folded into the form of an answer that is not streamed.
        mended: half characters that became U+FFFD. unread: types of stream events that nobody here knows, once each.
    """

    api_kind: ApiKind
    completed: bool
    stop: StopReason
    stop_native: str | None
    items: tuple[NativeItem, ...]
    text: str
    reasoning: str
    refusal: str | None
    citations: tuple[bytes, ...]
    usage: TokenUsage
    native: bytes
    id: str | None = None
    model: str | None = None
    error: ReplyError | None = None
    mended: int = 0
    unread: tuple[str, ...] = ()

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The admitted calls, in order."""
        return tuple(item.call for item in self.items if item.call is not None)

    @property
    def compacted(self) -> bool:
        """Whether the provider compacted: what came before the compaction item need not be sent again."""
        return any(item.kind == "compaction" for item in self.items)

    @property
    def continuation(self) -> tuple[NativeItem, ...]:
        """The items that can stand in the next request: of a completed answer all of them.

        Of another one, without the calls that were not admitted, which nobody will answer, and without reasoning that
        nothing follows any more, which providers refuse.
        """
        if self.completed:
            return self.items
        kept: list[NativeItem] = []
        for item in self.items:
            if item.kind == "tool_call" and item.call is None:
                while kept and kept[-1].kind == "reasoning":
                    kept.pop()
            else:
                kept.append(item)
        while kept and kept[-1].kind == "reasoning":
            kept.pop()
        # The rest of a chat turn whose calls are gone may be an empty message, which is refused too.
        return tuple(item for item in kept if item.kind != "message" or item.text or self.refusal)
