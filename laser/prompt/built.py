"""A built prompt."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import orjson

from laser.prompt.trace import PromptTrace

__all__ = ["BuiltPrompt", "PromptSection", "join_system"]

_JOIN: Final = "\n\n"


class PromptSection(msgspec.Struct, frozen=True):
    """A piece of a prompt, in its order. tokens: that it costs. provider: who gave it."""

    category: str
    layer: str
    place: str
    text: str
    tokens: int
    priority: int
    provider: str


def join_system(identity: str, volatile: str) -> str:
    """The system text of its two layers."""
    return _JOIN.join(part for part in (identity, volatile) if part)


class BuiltPrompt(msgspec.Struct, frozen=True):
    """What goes to the model.

    Attributes:
        system_identity: the stable layer of the system text: what a provider's cache can hold.
        system_volatile: the layer after it, which may change with each turn.
        messages: as JSON bytes each, in the shape that they were stored in: the history, the recitation, and the next
            message of the user. tools: the schemas.
        trace: how it came about. sections: its pieces.
        prompt_caching: whether explicit cache breakpoints are wanted.
    """

    system_identity: str
    system_volatile: str
    messages: tuple[bytes, ...]
    tools: tuple[bytes, ...]
    trace: PromptTrace
    sections: tuple[PromptSection, ...]
    prompt_caching: bool = False

    @property
    def system(self) -> str:
        """The system text: both layers, joined by an empty line."""
        return join_system(self.system_identity, self.system_volatile)

    @property
    def text(self) -> str:
        """Everything as one text, a line for each message; a provider's cache compares ``tools`` and then this."""
        return "\n".join([self.system, *(message.decode() for message in self.messages)])

    def with_system(self, system: str) -> BuiltPrompt:
        """The prompt with another system text. Where the layers begin in it is not known then: all counts as identity,
        and a text that changes with each turn will not be cached."""
        return msgspec.structs.replace(self, system_identity=system, system_volatile="")

    def with_layers(self, identity: str, volatile: str) -> BuiltPrompt:
        """The prompt with other layers of its system text."""
        return msgspec.structs.replace(self, system_identity=identity, system_volatile=volatile)

    def chat_messages(self) -> list[dict[str, Any]]:
        """Messages for OpenAI Chat Completions: the system text first."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, *map(orjson.loads, self.messages)]

    def system_blocks(self) -> list[dict[str, Any]]:
        """System blocks for Anthropic Messages: with a cache breakpoint after the identity where it is wanted."""
        blocks: list[dict[str, Any]] = []
        if self.system_identity:
            block: dict[str, Any] = {"type": "text", "text": self.system_identity}
            if self.prompt_caching:
                block["cache_control"] = {"type": "ephemeral"}
            blocks.append(block)
        if self.system_volatile:
            blocks.append({"type": "text", "text": self.system_volatile})
        return blocks

    def tool_schemas(self) -> list[dict[str, Any]]:
        """The tool schemas as values."""
        return [orjson.loads(tool) for tool in self.tools]
