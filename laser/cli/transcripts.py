"""Chat transcripts as files: JSON Lines or JSON, in the OpenAI chat shape."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

import laser as ls
from laser.limits import MAX_PAYLOAD_BYTES

__all__ = ["Transcript", "TranscriptMessage", "read_transcripts"]

_SHAPES: Final = "a message (an object with a 'role') or a conversation (an object with 'messages')"


class TranscriptMessage(msgspec.Struct, frozen=True):
    """A message of a file.

    Attributes:
        role: who speaks, as the file says. payload: the message as compact JSON, members in the file's order.
    """

    role: str
    payload: str


class Transcript(msgspec.Struct, frozen=True):
    """A conversation of a file.

    Attributes:
        key: what the file calls it. conversation_id: derived from the key.
    """

    key: str
    conversation_id: str
    messages: list[TranscriptMessage]


def read_transcripts(path: Path) -> list[Transcript]:
    """The conversations of a file, in its order.

    Args:
        path: JSON Lines, each line one conversation ``{"id": …, "messages": […]}`` or one message; or one JSON
            document: an array of either, or one conversation. Messages that belong to no conversation object form one
            conversation, named after the file.

    Raises:
        InvalidError: the file cannot be read, or something in it is neither; the text names the line or entry.
    """
    conversations: list[Transcript] = []
    loose: list[TranscriptMessage] = []
    places: dict[str, str] = {}
    for place, value in _entries(path):
        if isinstance(value.get("messages"), list):
            if loose:
                _refuse(f"{place}: a conversation after single messages; a file holds one or the other")
            key = _key(value, f"{path.stem}-{len(conversations) + 1}", place)
            if key in places:
                _refuse(f"{place}: conversation {key!r} stands at {places[key]} already")
            places[key] = place
            messages = [_message(entry, f"{place}, message {n}") for n, entry in enumerate(value["messages"], 1)]
            conversations.append(Transcript(key, ls.derive_conversation_id(key), messages))
        elif "role" in value:
            if conversations:
                _refuse(f"{place}: a single message after conversations; a file holds one or the other")
            loose.append(_message(value, place))
        else:
            _refuse(f"{place}: expected {_SHAPES}, found an object with {_members(value)}")
    if loose:
        conversations.append(Transcript(path.stem, ls.derive_conversation_id(path.stem), loose))
    if not any(conversation.messages for conversation in conversations):
        _refuse("no messages in it")
    return conversations


def _entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file, each with the words that say where it stands."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        _refuse(f"{path}: {error.strerror or error}")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        _refuse(f"line {line}: not UTF-8 text")
    named: Iterable[tuple[str, Any]]
    if _is_document(path, text):
        document = _parse(text, "the document")
        values = document if isinstance(document, list) else [document]
        named = ((f"entry {n}", value) for n, value in enumerate(values, 1))
    else:
        lines = enumerate(text.split("\n"), 1)
        named = ((f"line {n}", _parse(line, f"line {n}")) for n, line in lines if line.strip())
    for place, value in named:
        if not isinstance(value, dict):
            _refuse(f"{place}: expected {_SHAPES}, found {type(value).__name__}")
        yield place, value


def _is_document(path: Path, text: str) -> bool:
    """Whether the file is one JSON value rather than one a line."""
    start = text.lstrip()
    if start.startswith("["):
        return True
    if path.suffix != ".json":
        return False
    try:
        _, end = json.JSONDecoder().raw_decode(start)
    except (ValueError, RecursionError):
        return True
    # Lines of JSON are often kept in files named .json.
    return not start[end:].strip()


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text, parse_constant=_constant, object_pairs_hook=_members_once)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}" if place == "the document" else place
        _refuse(f"{where}, column {error.colno}: not JSON: {error.msg}")
    except RecursionError:
        _refuse(f"{place}: nested too deeply")
    except ValueError as error:
        _refuse(f"{place}: {error}")


def _message(value: object, place: str) -> TranscriptMessage:
    if not isinstance(value, dict):
        _refuse(f"{place}: expected a message (an object with a 'role'), found {type(value).__name__}")
    role = value.get("role")
    if not isinstance(role, str) or not 1 <= len(role.encode("utf-8", "replace")) <= 255 or not role.isprintable():
        _refuse(f"{place}: its 'role' must be 1 to 255 bytes of printable text")
    try:
        payload = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(payload.encode())
    except UnicodeEncodeError:
        _refuse(f"{place}: holds half of a surrogate pair, which UTF-8 cannot")
    except RecursionError:
        _refuse(f"{place}: nested too deeply")
    except ValueError as error:
        _refuse(f"{place}: {error}")
    if size > MAX_PAYLOAD_BYTES:
        _refuse(f"{place}: {size} bytes, allowed are {MAX_PAYLOAD_BYTES}")
    return TranscriptMessage(role, payload)


def _key(value: dict[str, Any], fallback: str, place: str) -> str:
    key = value.get("id", fallback)
    if type(key) is int:
        key = str(key)
    if not isinstance(key, str) or not key or not key.isprintable():
        _refuse(f"{place}: its 'id' must be printable text or a whole number")
    return key


def _members(value: dict[str, Any]) -> str:
    names = ", ".join(repr(name[:32]) for name in list(value)[:5])
    return names or "no members"


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the member {twice[:32]!r} stands twice in one object")
    return value


def _refuse(text: str) -> NoReturn:
    raise ls.InvalidError(f"FILE: {text}", argument="FILE")
