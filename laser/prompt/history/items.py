"""Messages of a history as a prompt handles them."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

from laser.context.tokens import Tokenizer
from laser.model.chat import NO_CHAT, ChatFacts, message_facts
from laser.model.messages import ContextMessage
from laser.prompt.fencing import whole_text
from laser.prompt.history.results import lighten
from laser.prompt.history.values import Value, message_values

__all__ = ["INSTRUCTIONS", "Item", "item_of_message", "item_of_payload"]

INSTRUCTIONS: Final = frozenset({"system", "developer"})

# Items of OpenAI Responses that have no role.
_NATIVE: Final = frozenset({"reasoning", "compaction", "item_reference", "mcp_list_tools", "mcp_approval_request"})

# Fields of stored messages that are for people and operators, never for the model.
_OURS: Final = frozenset({"context_content", "metadata"})


class Item:
    """One message. It is replaced in place when its results are cleared.

    Attributes:
        value: the message. text: its JSON as it is sent. tokens: what it costs, the line break after it included.
        flat, measured: see ``Fragment``. facts: role, calls, results. unit: number of the group that it stands or goes
            with. cleared: its results are a digest. repeats: its result is a back-reference. repaired: its text is
            the operator's.
    """

    __slots__ = (
        "_values",
        "cleared",
        "facts",
        "flat",
        "measured",
        "original",
        "repaired",
        "repeats",
        "text",
        "tokens",
        "unit",
        "value",
    )

    def __init__(self, value: dict[str, Any], text: str, facts: ChatFacts, tokens: Tokenizer) -> None:
        self.value = value
        self.facts = facts
        self.unit = -1
        self.cleared = False
        self.repaired = False
        self.repeats: Item | None = None
        self.original: dict[str, Any] | None = None
        self._values: list[Value] | None = None
        self.measured: str | None = None
        self.flat = 0
        self.text = text
        self.tokens = 0
        self.show(value, tokens, text)

    @property
    def role(self) -> str | None:
        """The role, lower case."""
        return self.facts.role

    @property
    def values(self) -> list[Value]:
        """The exact values that the message holds as it is shown."""
        if self._values is None:
            self._values = message_values(self.value, self.role)
        return self._values

    def show(self, value: dict[str, Any], tokens: Tokenizer, text: str | None = None) -> int:
        """Shows the message in another form. Returns by how many tokens it became cheaper."""
        before = self.tokens
        self.value = value
        self.text = orjson.dumps(value).decode() if text is None else text
        self.measured, self.flat = lighten(value, self.text.encode())
        self.tokens = tokens.count((self.text if self.measured is None else self.measured) + "\n") + self.flat
        self._values = None
        return before - self.tokens


def item_of_payload(payload: bytes, tokens: Tokenizer, *, context_content: str | None = None) -> Item:
    """The item of a message's JSON; whatever is no JSON object is text of the user."""
    return _item(payload, "user", tokens, context_content)


def item_of_message(
    message: ContextMessage, assistant: str | None, tokens: Tokenizer, context_content: str | None = None
) -> Item:
    """The item of a stored message.

    Args:
        assistant: the agent whose plain texts are the assistant's; those of all others are a user's.
        context_content: what an operator put in the place of its text, for an assistant's message.
    """
    if message.content is not None and message.payload[:1] != b"{":
        preview = getattr(message.content, "preview", None) or "content"
        return _item(str(preview).encode(), "user", tokens, None)
    role = "assistant" if assistant is not None and message.provenance.agent == assistant else "user"
    return _item(message.payload, role, tokens, context_content)


def _item(payload: bytes, plain_role: str, tokens: Tokenizer, context_content: str | None) -> Item:
    value: Any = None
    if payload[:64].lstrip()[:1] == b"{":
        value, payload = _read(payload)
    if not isinstance(value, dict):
        value = {"role": plain_role, "content": payload.decode("utf-8", "replace")}
        return Item(value, orjson.dumps(value).decode(), ChatFacts(plain_role), tokens)
    facts = message_facts(value)
    if facts == NO_CHAT and value.get("type") in _NATIVE:
        facts = ChatFacts("assistant")
    if facts == NO_CHAT:
        # JSON of another kind: the model reads it as what somebody said.
        value = {"role": plain_role, "content": payload.decode()}
        return Item(value, orjson.dumps(value).decode(), ChatFacts(plain_role), tokens)
    stored = value.get("context_content")
    repair = context_content if context_content is not None else stored if isinstance(stored, str) else None
    repaired = repair is not None and _is_plain_assistant(value, facts)
    if not repaired and _OURS.isdisjoint(value):
        return Item(value, payload.decode(), facts, tokens)
    value = {key: held for key, held in value.items() if key not in _OURS}
    if repaired:
        value["content"] = repair
    item = Item(value, orjson.dumps(value).decode(), facts, tokens)
    item.repaired = repaired
    return item


def _read(payload: bytes) -> tuple[Any, bytes]:
    """The JSON of a payload, ``None`` where it is none, and its bytes without halves of surrogate pairs.

    Some writers escape such halves; no provider takes them back, and they must not cost a message its role.
    """
    try:
        return orjson.loads(payload), payload
    except orjson.JSONDecodeError:
        pass
    try:
        text = json.dumps(json.loads(payload), ensure_ascii=False)
        mended = whole_text(text).encode()
        return orjson.loads(mended), mended
    except (ValueError, RecursionError):
        return None, payload


def _is_plain_assistant(value: dict[str, Any], facts: ChatFacts) -> bool:
    return facts.role == "assistant" and not facts.calls and not facts.results and "content" in value
