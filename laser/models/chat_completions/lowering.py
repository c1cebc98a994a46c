"""Requests of Chat Completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from laser.errors import InvalidError, UnsupportedError
from laser.models.chat_completions.reading import REASONING_FIELDS, call_of
from laser.models.content import ContentPart, ImagePart, TextPart, data_url
from laser.models.entries import NATIVE_TYPE, LoweringEntry
from laser.models.exact import settle, write_text
from laser.models.facts import mapping
from laser.models.fragments import Fragment, Joiner, turns_of
from laser.models.texts import framed, native_value, parts_of, text_of

__all__ = ["ADJACENT", "assemble", "prepare"]

ADJACENT: Final = True
"""Results stand right behind the message that called."""

_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
_ROLE: Final = b'"role":"assistant"'
_NO_MESSAGE: Final = b'"role":"assistant","content":null'


def prepare(entry: LoweringEntry, name: str) -> Fragment:
    """The entry as a message, or as its share of the model's message.

    Raises:
        InvalidError: its payload is not what its kind takes. UnsupportedError: the API does not take it.
    """
    if entry.kind == "instruction":
        return Fragment("system", (write_text(text_of(entry, name))[1:-1],))
    if entry.kind == "native" or (entry.kind == "tool_result" and entry.media_type == NATIVE_TYPE):
        return _native(entry, name)
    if entry.kind == "tool_result":
        if not entry.call_id:
            raise InvalidError(f"{name}: a tool result names its call_id", argument="entries")
        parts = parts_of(entry, name)
        if not all(isinstance(part, TextPart) for part in parts):
            raise UnsupportedError(
                f"{name}: results of Chat Completions are text; hand the image or file to the user's turn"
            )
        answer = {"role": "tool", "tool_call_id": entry.call_id, "content": _content(parts, name)}
        return Fragment("result", (settle(answer)[1],), closes=(entry.call_id,))
    said = _content(parts_of(entry, name), name) if entry.kind == "user" else framed(entry, name)
    return Fragment("user", (settle({"role": "user", "content": said})[1],))


def assemble(
    joiner: Joiner,
    fragments: Sequence[Fragment],
    order: Sequence[int],
    instruction_role: str,
) -> None:
    """Writes the messages. What a turn of the model is made of goes into one message: its own, reasoning, calls."""
    joiner.add(b'"messages":[')
    first = True
    system = [place for place in order if fragments[place].side == "system"]
    if system:
        joiner.add(b'{"role":' + write_text(instruction_role) + b',"content":"')
        for number, place in enumerate(system):
            joiner.add_entry((b"\\n\\n" if number else b"") + fragments[place].pieces[0], place)
        joiner.add(b'"}')
        first = False
    turn: list[int] = []
    turns = turns_of([fragments[place] for place in order])
    for number, place in enumerate(order):
        fragment = fragments[place]
        if fragment.side == "system":
            continue
        if turn and turns[number] != turns[number - 1]:
            _write_turn(joiner, fragments, turn, first)
            first, turn = False, []
        if fragment.side == "model":
            turn.append(place)
        else:
            joiner.add_entry(fragment.pieces[0] if first else b"," + fragment.pieces[0], place)
            first = False
    if turn:
        _write_turn(joiner, fragments, turn, first)
    joiner.add(b"]")


def _write_turn(joiner: Joiner, fragments: Sequence[Fragment], turn: Sequence[int], first: bool) -> None:
    joiner.add(b"{" if first else b",{")
    message = [place for place in turn if fragments[place].part == "message"]
    for place in message:
        joiner.add_entry(fragments[place].pieces[0], place)
    if not message:
        joiner.add(_NO_MESSAGE)
    for place in turn:
        if fragments[place].part == "reasoning":
            joiner.add_entry(b"," + fragments[place].pieces[0], place)
    calls = [place for place in turn if fragments[place].part == "call"]
    for number, place in enumerate(calls):
        joiner.add_entry((b"," if number else b',"tool_calls":[') + fragments[place].pieces[0], place)
    joiner.add(b"]}" if calls else b"}")


def _native(entry: LoweringEntry, name: str) -> Fragment:
    value = native_value(entry, "chat_completions", name)
    if not isinstance(value, dict) or not value:
        raise InvalidError(f"{name}: a native item of Chat Completions is an object", argument="entries")
    if value.get("role") == "tool":
        call_id = value.get("tool_call_id")
        if not isinstance(call_id, str) or (entry.kind == "tool_result" and call_id != entry.call_id):
            raise InvalidError(f"{name}: is no result of call {entry.call_id!r}", argument="entries")
        return Fragment("result", (entry.payload,), closes=(call_id,))
    if entry.kind == "tool_result":
        raise InvalidError(f"{name}: is no result of call {entry.call_id!r}", argument="entries")
    if "role" not in value and ("function" in value or "custom" in value):
        call = call_of(value)
        if call is None:
            raise InvalidError(f"{name}: a tool call has an id", argument="entries")
        return Fragment("model", (entry.payload,), opens=(call.id,), call_type="function", part="call")
    inner = entry.payload.strip()[1:-1]
    if "role" not in value and set(value) <= set(REASONING_FIELDS):
        return Fragment("model", (inner,), part="reasoning")
    if value.get("role", "assistant") != "assistant":
        return Fragment("user", (entry.payload,))
    if mapping(value).get("tool_calls"):
        raise InvalidError(f"{name}: each tool call is an entry of its own, beside its message", argument="entries")
    return Fragment("model", (inner if "role" in value else _ROLE + b"," + inner,), part="message")


def _content(parts: Sequence[ContentPart], name: str) -> str | list[dict[str, Any]]:
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return [_part(part, name) for part in parts]


def _part(part: ContentPart, name: str) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, ImagePart):
        if part.url is None and part.media_type not in _IMAGES:
            raise UnsupportedError(
                f"{name}: OpenAI takes no {part.media_type} image; it takes {', '.join(sorted(_IMAGES))}"
            )
        url = part.url if part.url is not None else data_url(part.media_type or "", part.data or b"")
        detail = {} if part.detail is None else {"detail": part.detail}
        return {"type": "image_url", "image_url": {"url": url} | detail}
    if part.file_id is not None:
        return {"type": "file", "file": {"file_id": part.file_id}}
    if part.url is not None:
        raise UnsupportedError(f"{name}: Chat Completions takes no file by address; give its bytes or its file_id")
    named = {} if part.name is None else {"filename": part.name}
    return {"type": "file", "file": {"file_data": data_url(part.media_type or "", part.data or b"")} | named}
