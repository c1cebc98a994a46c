"""The head of a ``SKILL.md``: plain values between two lines of ``---``. A small part of YAML; nothing in it runs."""

from __future__ import annotations

from typing import Final

import orjson

from laser.errors import CodecError

__all__ = ["read_front_matter"]

_FENCE: Final = "---"
_MAX_LINES: Final = 200
_ESCAPED_QUOTE: Final = "''"


def read_front_matter(text: str) -> tuple[dict[str, str], str]:
    """The values of the head by name, and the text below it.

    Values are the rest of a line, in quotes or not, or the indented lines below ``|`` or ``>``. Lists and nested values
    are passed over.

    Raises:
        CodecError: there is no head, it does not end, or a value cannot be read.
    """
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        raise CodecError("does not begin with a line ---")
    end = next((at for at, line in enumerate(lines[1 : _MAX_LINES + 1], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise CodecError(f"its head does not end with a line --- within {_MAX_LINES} lines")
    values: dict[str, str] = {}
    at = 1
    while at < end:
        line = lines[at]
        at += 1
        if not line.strip() or line[0] in " \t#-":
            continue
        name, colon, rest = line.partition(":")
        if not colon:
            raise CodecError(f"line {at} of its head is no name: value")
        name, rest = name.strip(), rest.strip()
        if name in values:
            raise CodecError(f"its head has {name!r:.40} twice")
        if rest[:1] in ("|", ">"):
            block: list[str] = []
            while at < end and (not lines[at].strip() or lines[at][0] in " \t"):
                block.append(lines[at].strip())
                at += 1
            values[name] = ("\n" if rest[0] == "|" else " ").join(block).strip()
        else:
            values[name] = _scalar(rest, at)
    return values, "\n".join(lines[end + 1 :])


def _scalar(text: str, line: int) -> str:
    if text.startswith('"'):
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise CodecError(f"line {line} of its head: a quote that is not closed, or a bad escape") from error
        return str(value)
    if text.startswith("'"):
        if len(text) < 2 or not text.endswith("'"):
            raise CodecError(f"line {line} of its head: a quote that is not closed")
        return text[1:-1].replace(_ESCAPED_QUOTE, "'")
    return text.partition(" #")[0].rstrip()
