"""Requests of OpenAI Responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from laser.errors import InvalidError, UnsupportedError
from laser.models.content import ContentPart, FilePart, ImagePart, TextPart, data_url
from laser.models.entries import NATIVE_TYPE, LoweringEntry
from laser.models.exact import settle, write_text
from laser.models.fragments import Fragment, Joiner
from laser.models.openai_responses.reading import call_id_of
from laser.models.texts import framed, native_value, parts_of, text_of

__all__ = ["ADJACENT", "assemble", "prepare"]

ADJACENT: Final = False
"""Results are found by their call's id, wherever they stand."""

_OUTPUT: Final = b'{"type":"function_call_output"'
_CUSTOM_OUTPUT: Final = b'{"type":"custom_tool_call_output"'
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})


def prepare(entry: LoweringEntry, name: str) -> Fragment:
    """The entry as an input item.

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
        plain = isinstance(parts[0], TextPart) and len(parts) == 1
        output: object = parts[0].text if plain else [_part(part, name) for part in parts]  # type: ignore[union-attr]
        written = settle({"type": "function_call_output", "call_id": entry.call_id, "output": output})[1]
        return Fragment("result", (written,), closes=(entry.call_id,))
    if entry.kind == "user":
        return _message("user", [_part(part, name) for part in parts_of(entry, name)])
    role = "user" if entry.kind == "summary" else "developer"
    return _message(role, [{"type": "input_text", "text": framed(entry, name)}])


def assemble(
    joiner: Joiner, entries: Sequence[LoweringEntry], fragments: Sequence[Fragment], order: Sequence[int]
) -> None:
    """Writes instructions and input.

    Raises:
        UnsupportedError: a plain result for a call whose results have a form of their own.
    """
    system = [place for place in order if fragments[place].side == "system"]
    if system:
        joiner.add(b'"instructions":"')
        for number, place in enumerate(system):
            joiner.add_entry((b"\\n\\n" if number else b"") + fragments[place].pieces[0], place)
        joiner.add(b'",')
    joiner.add(b'"input":[')
    types: dict[str, str] = {}
    first = True
    for place in order:
        fragment = fragments[place]
        if fragment.side == "system":
            continue
        for call_id in fragment.opens:
            types[call_id] = fragment.call_type
        for piece in fragment.pieces:
            if fragment.side == "result" and entries[place].media_type != NATIVE_TYPE:
                piece = _answer(piece, types.get(fragment.closes[0], ""), fragment.closes[0])
            joiner.add_entry(piece if first else b"," + piece, place)
            first = False
    joiner.add(b"]")


def _answer(piece: bytes, call_type: str, call_id: str) -> bytes:
    if call_type == "function_call":
        return piece
    if call_type == "custom_tool_call":
        return _CUSTOM_OUTPUT + piece[len(_OUTPUT) :]
    raise UnsupportedError(
        f"entries: call {call_id!r} is a {call_type}, whose result is an item of its own form; "
        f"give its result as {NATIVE_TYPE}"
    )


def _native(entry: LoweringEntry, name: str) -> Fragment:
    value = native_value(entry, "openai_responses", name)
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise InvalidError(f"{name}: a native item of Responses is an object with a type", argument="entries")
    call_id, kind = call_id_of(value), value["type"]
    if entry.kind == "tool_result" and (call_id is None or call_id != entry.call_id):
        raise InvalidError(f"{name}: is no result of call {entry.call_id!r}", argument="entries")
    if call_id is not None and kind.endswith("_output"):
        return Fragment("result", (entry.payload,), closes=(call_id,))
    if kind == "message" and value.get("role", "assistant") != "assistant":
        return Fragment("user", (entry.payload,))
    return Fragment("model", (entry.payload,), opens=() if call_id is None else (call_id,), call_type=kind)


def _message(role: str, content: list[dict[str, Any]]) -> Fragment:
    return Fragment("user", (settle({"type": "message", "role": role, "content": content})[1],))


def _part(part: ContentPart, name: str) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, ImagePart):
        return {"type": "input_image", "image_url": _address(part, name), "detail": part.detail or "auto"}
    named = {} if part.name is None else {"filename": part.name}
    if part.file_id is not None:
        return {"type": "input_file", "file_id": part.file_id}
    if part.url is not None:
        return {"type": "input_file", "file_url": part.url} | named
    return {"type": "input_file", "file_data": _address(part, name)} | named


def _address(part: ImagePart | FilePart, name: str) -> str:
    if part.url is not None:
        return part.url
    media_type = part.media_type or ""
    if isinstance(part, ImagePart) and media_type not in _IMAGES:
        raise UnsupportedError(f"{name}: OpenAI takes no {media_type} image; it takes {', '.join(sorted(_IMAGES))}")
    return data_url(media_type, part.data or b"")
