"""Exact values in messages: ids, codes, dates, amounts, addresses.

Prose can be said again in other words; such a value cannot, and the next tool call may need it to the letter. They
are what stays of messages that a prompt has no room for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import orjson

from laser.prompt.history.results import call_arguments, result_texts, words

__all__ = ["Value", "digest_of", "message_values"]

_MAX_CHARS: Final = 64
_MAX_WORDS: Final = 48
_MAX_DEPTH: Final = 32
_MAX_VALUES: Final = 512
# Runs of what values are written with, no longer than a value may be, so that no text takes long.
_RUN: Final = re.compile(r"(?<![\w@.#:/+$€£%-])[\w@.#:/+$€£%-]{3,64}(?![\w@.#:/+$€£%-])")
# A digit, an address, a name with an underscore, or a code in capitals.
_EXACT: Final = re.compile(r"[\d_@#]|^[A-Z]{3,}$")
_EDGES: Final = ".:,;/+-#"

_MENTIONED: Final = ""


class Value(msgspec.Struct, frozen=True, gc=False):
    """An exact value.

    Attributes:
        field: the name that it stood under, ``""`` in prose. text: as it stood there.
        weight: how likely it is needed again: 4 an argument of a call, 3 said by the user, 2 by the assistant, 1 an
            exact value of a tool's result, 0.5 another short text of it.
    """

    field: str
    text: str
    weight: float


def message_values(message: dict[str, Any], role: str | None) -> list[Value]:
    """The exact values of a message, in order, at most 512."""
    found: list[Value] = []
    for arguments in call_arguments(message):
        found += [Value(field, text, 4.0) for field, text in _walk(arguments, "arguments", 0)]
    results = result_texts(message)
    for text in results:
        found += _of_result(text)
    if not results:
        weight = 3.0 if role == "user" else 2.0
        found += [Value(_MENTIONED, run, weight) for run in _runs(words(message.get("content")))]
    return found[:_MAX_VALUES]


def digest_of(text: str, limit: int) -> str:
    """What stays of a tool's result: its size, and its values by field up to a number of characters.

    Returns:
        One line.
    """
    head = f"[cleared: {len(text.encode('utf-8', 'replace'))} bytes; call the tool again for all of it]"
    columns: dict[str, list[str]] = {}
    used = 0
    for value in _of_result(text):
        held = columns.get(value.field)
        if held is not None and value.text in held:
            continue
        used += len(value.text) + 1 + (len(value.field) + 3 if held is None else 0)
        if used > limit:
            break
        columns.setdefault(value.field, []).append(value.text)
    if not columns:
        first = " ".join(text[: limit * 2].split())[:limit]
        return f"{head} {first}".rstrip()
    shown = "; ".join(
        f"{field}: {' '.join(values)}" if field else " ".join(values) for field, values in columns.items()
    )
    return f"{head} {shown}"


def _of_result(text: str) -> list[Value]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict | list):
        return [Value(_MENTIONED, run, 1.0) for run in _runs(text)][:_MAX_VALUES]
    return [Value(field, found, 1.0 if _EXACT.search(found) else 0.5) for field, found in _walk(value, _MENTIONED, 0)][
        :_MAX_VALUES
    ]


def _walk(value: Any, field: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key, held in value.items():
            # Keys can be ids themselves: of payment methods, of users.
            if len(key) <= _MAX_CHARS and any(char.isdigit() for char in key):
                yield field, key
            yield from _walk(held, str(key), depth + 1)
    elif isinstance(value, list):
        for held in value:
            yield from _walk(held, field, depth + 1)
    elif isinstance(value, str):
        if 2 < len(value) <= _MAX_WORDS and value.isprintable():
            yield field, value
        elif len(value) > 2:
            for run in _runs(value):
                yield field, run


def _runs(text: str) -> Sequence[str]:
    runs = (run.strip(_EDGES) for run in _RUN.findall(text))
    return [run for run in runs if len(run) > 2 and _EXACT.search(run)]
