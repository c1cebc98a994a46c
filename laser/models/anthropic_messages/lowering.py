"""Requests of Anthropic Messages."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

from laser.errors import InvalidError, UnsupportedError
from laser.models.anthropic_messages.reading import kind_of
from laser.models.content import ContentPart, FilePart, ImagePart, TextPart
from laser.models.entries import NATIVE_TYPE, LoweringEntry
from laser.models.exact import settle, write_text
from laser.models.fragments import Fragment, Joiner
from laser.models.texts import framed, native_value, parts_of, text_of

__all__ = ["ADJACENT", "assemble", "mark", "prepare"]

ADJACENT: Final = True
"""Results stand at the begin of the message behind the one that called."""

_ROLES: Final = {"user": b'{"role":"user","content":[', "model": b'{"role":"assistant","content":['}
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})


def prepare(entry: LoweringEntry, name: str) -> Fragment:
    """The entry as content blocks.

    Raises:
        InvalidError: its payload is not what its kind takes. UnsupportedError: the API does not take it.
    """
    if entry.kind == "instruction":
        text = text_of(entry, name)
        return Fragment("system", (b'{"type":"text","text":' + write_text(text) + b"}",) if text.strip() else ())
    if entry.kind == "native" or (entry.kind == "tool_result" and entry.media_type == NATIVE_TYPE):
        return _native(entry, name)
    if entry.kind == "tool_result":
        return _result(entry, name)
    if entry.kind == "user":
        # Text that is only blanks is refused as a block; beside an image it says nothing.
        parts = [part for part in parts_of(entry, name) if not isinstance(part, TextPart) or part.text.strip()]
        if not parts:
            raise InvalidError(f"{name}: Anthropic takes no empty message of a user", argument="entries")
        blocks = tuple(settle(_part(part, name))[1] for part in parts)
    else:
        blocks = (settle({"type": "text", "text": framed(entry, name)})[1],)
    return Fragment("user", blocks, marked=(True,) * len(blocks))


def assemble(
    joiner: Joiner,
    entries: Sequence[LoweringEntry],
    fragments: Sequence[Fragment],
    order: Sequence[int],
    marker: bytes | None,
) -> None:
    """Writes system prompt and messages; the marker goes on the last system block and the last block that may have it.

    Args:
        marker: the JSON of ``cache_control``; ``None`` for no marker.
    """
    system = [place for place in order if fragments[place].side == "system" and fragments[place].pieces]
    if system:
        joiner.add(b'"system":[')
        for number, place in enumerate(system):
            (piece,) = fragments[place].pieces
            if number:
                joiner.add(b",")
            _write(joiner, piece, place, marker if place == system[-1] else None)
        joiner.add(b"],")
    joiner.add(b'"messages":[')
    at = _last_marked(fragments, order) if marker is not None else None
    speaker = ""
    for place in order:
        fragment = fragments[place]
        if fragment.side == "system":
            continue
        role = "model" if fragment.side == "model" else "user"
        for number, piece in enumerate(fragment.pieces):
            if role != speaker:
                joiner.add((b"]}," if speaker else b"") + _ROLES[role])
                speaker = role
            else:
                joiner.add(b",")
            _write(joiner, piece, place, marker if at == (place, number) else None)
    joiner.add(b"]}]" if speaker else b"]")


def mark(piece: bytes, marker: bytes) -> bytes:
    """The object with the marker as its last field, so that its bytes before that stay as they were."""
    return piece[:-1] + b',"cache_control":' + marker + b"}"


def _write(joiner: Joiner, piece: bytes, place: int, marker: bytes | None) -> None:
    if marker is None:
        joiner.add_entry(piece, place)
    else:
        joiner.add_entry(piece[:-1], place)
        joiner.add(b',"cache_control":' + marker + b"}")


def _last_marked(fragments: Sequence[Fragment], order: Sequence[int]) -> tuple[int, int] | None:
    for place in reversed(order):
        marked = fragments[place].marked
        for number in range(len(marked) - 1, -1, -1):
            if marked[number]:
                return place, number
    return None


def _native(entry: LoweringEntry, name: str) -> Fragment:
    value = native_value(entry, "anthropic_messages", name)
    blocks: list[dict[str, Any]] = value if isinstance(value, list) else [value]
    if not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in blocks):
        raise InvalidError(f"{name}: a native item of Anthropic is a block or a list of blocks", argument="entries")
    if len(blocks) == 1 and kind_of(blocks[0]) == "tool_result":
        call_id = blocks[0].get("tool_use_id")
        if not isinstance(call_id, str) or (entry.kind == "tool_result" and call_id != entry.call_id):
            raise InvalidError(f"{name}: is no result of call {entry.call_id!r}", argument="entries")
        return Fragment("result", (entry.payload,), closes=(call_id,), marked=(True,))
    if entry.kind == "tool_result":
        raise InvalidError(f"{name}: is no result of call {entry.call_id!r}", argument="entries")
    # Models do write empty text blocks, and are refused them when they come back.
    said = [block for block in blocks if block["type"] != "text" or str(block.get("text", "")).strip()]
    opens = tuple(str(block.get("id")) for block in said if kind_of(block) == "tool_call")
    pieces = (entry.payload,) if said == [value] else tuple(settle(block)[1] for block in said)
    marked = tuple(kind_of(block) != "reasoning" and "cache_control" not in block for block in said)
    return Fragment("model", pieces, opens=opens, call_type="tool_use", marked=marked)


def _result(entry: LoweringEntry, name: str) -> Fragment:
    if not entry.call_id:
        raise InvalidError(f"{name}: a tool result names its call_id", argument="entries")
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": entry.call_id}
    parts = parts_of(entry, name)
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        if parts[0].text:
            block["content"] = parts[0].text
    else:
        said = [part for part in parts if not isinstance(part, TextPart) or part.text.strip()]
        block["content"] = [_part(part, name) for part in said]
    if entry.is_error:
        block["is_error"] = True
    return Fragment("result", (settle(block)[1],), closes=(entry.call_id,), marked=(True,))


def _part(part: ContentPart, name: str) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, ImagePart):
        if part.url is not None:
            return {"type": "image", "source": {"type": "url", "url": part.url}}
        if part.media_type not in _IMAGES:
            raise UnsupportedError(
                f"{name}: Anthropic takes no {part.media_type} image; it takes {', '.join(sorted(_IMAGES))}"
            )
        return {"type": "image", "source": _bytes(part)}
    title = {} if part.name is None else {"title": part.name}
    return {"type": "document", "source": _document(part, name)} | title


def _document(part: FilePart, name: str) -> dict[str, Any]:
    if part.file_id is not None:
        return {"type": "file", "file_id": part.file_id}
    if part.url is not None:
        return {"type": "url", "url": part.url}
    if part.media_type == "application/pdf":
        return _bytes(part)
    if part.media_type == "text/plain":
        try:
            return {"type": "text", "media_type": "text/plain", "data": (part.data or b"").decode()}
        except UnicodeDecodeError as error:
            raise InvalidError(f"{name}: a text file is not UTF-8: {error.reason}", argument="entries") from error
    raise UnsupportedError(
        f"{name}: Anthropic takes no {part.media_type} file; it takes application/pdf and text/plain"
    )


def _bytes(part: ImagePart | FilePart) -> dict[str, Any]:
    return {"type": "base64", "media_type": part.media_type, "data": base64.b64encode(part.data or b"").decode()}
