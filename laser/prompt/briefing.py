"""The briefing: what a session knows already, what it still has to find out, and the agreed next step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from laser.context.connection import Connection
from laser.context.policies import check_names
from laser.context.scope import ConversationScope
from laser.errors import InvalidError, LimitError
from laser.limits import MAX_BRIEFING_FIELDS, MAX_BRIEFING_VALUE_BYTES
from laser.prompt.notes import read_notes, write_note

__all__ = ["BRIEFING_TOOLS", "Briefing", "BriefingState"]

BRIEFING_TOOLS: Final = ("update_briefing", "set_next_step")
"""The names of the tools."""

_FIELD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class BriefingState(dict[str, str]):
    """Known fields by name, with ``next_step`` and ``missing`` as attributes."""

    def __init__(self, known: Mapping[str, str], missing: Sequence[str], next_step: str | None) -> None:
        super().__init__(known)
        self.missing = tuple(missing)
        self.next_step = next_step


class Briefing:
    """The briefing of sessions with the same fields. It lives on the log: a session that is resumed has it.

    Args:
        fields: names of 1 to 64 letters, digits, ``_``, ``-`` and ``.``; at most ``MAX_BRIEFING_FIELDS``. None of
            them turns the briefing off: no block, no tools.

    Raises:
        InvalidError, LimitError: a bad name, one twice, or too many.
    """

    def __init__(self, *fields: str) -> None:
        names = check_names(fields, "fields")
        for name in names:
            if _FIELD.fullmatch(name) is None:
                raise InvalidError(f"fields: {name!r:.70} is not a name such as delivery_day", argument="fields")
        if len(set(names)) != len(names):
            raise InvalidError("fields: a name stands there twice", argument="fields")
        if len(names) > MAX_BRIEFING_FIELDS:
            raise LimitError(
                f"fields: there are {len(names)}, allowed are {MAX_BRIEFING_FIELDS}",
                argument="fields",
                size=len(names),
                limit=MAX_BRIEFING_FIELDS,
            )
        self.fields = tuple(names)

    async def read(self, laser: Connection, scope: ConversationScope) -> BriefingState:
        """A session's briefing. Stored fields that are not declared any more are not in it."""
        notes = await read_notes(laser, scope)
        return self.of(notes.briefing, notes.next_step)

    def of(self, known: Mapping[str, str], next_step: str | None) -> BriefingState:
        """The briefing of stored fields."""
        declared = {name: known[name] for name in self.fields if name in known}
        return BriefingState(declared, [name for name in self.fields if name not in declared], next_step)

    async def update(self, laser: Connection, scope: ConversationScope, field: str, value: str) -> None:
        """Records a field. A blank value clears it.

        Raises:
            InvalidError: the field is not declared; nothing was stored. LimitError: the value is too long.
        """
        if field not in self.fields:
            declared = ", ".join(self.fields) or "none"
            raise InvalidError(f"unknown field {field!r:.70}; declared: {declared}", argument="field")
        text = _check_text(value, "value")
        await write_note(laser, scope, {"kind": "briefing", "field": field, "text": text})

    async def set_next_step(self, laser: Connection, scope: ConversationScope, text: str) -> None:
        """Records the agreed next step. A blank text clears it."""
        await write_note(laser, scope, {"kind": "next_step", "text": _check_text(text, "text")})

    def tools(self) -> list[dict[str, Any]]:
        """The schemas of the two tools, in the shape of Chat Completions; none without fields."""
        if not self.fields:
            return []
        listed = list(self.fields)
        return [
            _tool(
                "update_briefing",
                "Record what is known of a field, so that it is not asked for again. A blank value clears it.",
                {"field": {"type": "string", "enum": listed}, "value": {"type": "string"}},
            ),
            _tool(
                "set_next_step",
                "Record the agreed next step of this conversation. A blank text clears it.",
                {"text": {"type": "string"}},
            ),
        ]

    async def call(self, laser: Connection, scope: ConversationScope, name: str, arguments: str) -> str:
        """Carries a tool call of the model out.

        Args:
            name: of ``BRIEFING_TOOLS``. arguments: the JSON that the model wrote.

        Returns:
            The tool's result as JSON: ``{"ok": true}``, or ``{"error": …}`` for the model; nothing was stored then.
        """
        try:
            value = orjson.loads(arguments or "{}")
            if not isinstance(value, dict):
                raise InvalidError("the arguments are no JSON object")
            if name == "update_briefing":
                await self.update(laser, scope, _text(value, "field"), _text(value, "value"))
            elif name == "set_next_step":
                await self.set_next_step(laser, scope, _text(value, "text"))
            else:
                raise InvalidError(f"unknown tool {name!r:.70}; there are: {', '.join(BRIEFING_TOOLS)}")
        except orjson.JSONDecodeError:
            return orjson.dumps({"error": "the arguments are no JSON"}).decode()
        except InvalidError as error:
            return orjson.dumps({"error": str(error)}).decode()
        return '{"ok":true}'

    def __repr__(self) -> str:
        return f"Briefing({', '.join(map(repr, self.fields))})"


def _text(value: Mapping[str, Any], name: str) -> str:
    held = value.get(name)
    if not isinstance(held, str):
        raise InvalidError(f"{name}: expected text", argument=name)
    return held


def _check_text(value: str, argument: str) -> str | None:
    if not isinstance(value, str):
        raise InvalidError(f"{argument}: expected text, got {type(value).__name__}", argument=argument)
    size = len(value.encode("utf-8", "replace"))
    if size > MAX_BRIEFING_VALUE_BYTES:
        raise LimitError(
            f"{argument}: has {size} bytes, allowed are {MAX_BRIEFING_VALUE_BYTES}",
            argument=argument,
            size=size,
            limit=MAX_BRIEFING_VALUE_BYTES,
        )
    # One line each in the prompt; halves of surrogate pairs cannot be stored.
    return " ".join(value.encode("utf-8", "replace").decode().split()) or None


def _tool(name: str, description: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
