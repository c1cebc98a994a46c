"""Tools for models: a name, a JSON schema of the arguments, and a call that answers with text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from laser.errors import InvalidError, NotFoundError

__all__ = ["RecoveryTool", "recovery_tool"]


class RecoveryTool(msgspec.Struct, frozen=True):
    """A read-only tool.

    Attributes:
        name, description: for the model. parameters: the JSON schema of its arguments.
        call: takes the arguments, and gives JSON text. What is wrong with arguments is said in the text.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[[Mapping[str, Any]], Awaitable[str]]


def recovery_tool(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    required: Sequence[str],
    run: Callable[..., Awaitable[msgspec.Struct]],
) -> RecoveryTool:
    """A tool that runs a method, and gives its answer, or what was wrong with the arguments, as JSON text."""

    async def call(arguments: Mapping[str, Any]) -> str:
        # A model's arguments are data: what does not fit is told to it, and nothing else is passed on.
        unknown = [key for key in arguments if key not in properties]
        missing = [key for key in required if key not in arguments]
        if unknown or missing:
            return _answer({"error": f"unknown arguments: {unknown}, missing: {missing}"})
        given = {key: value for key, value in arguments.items() if value is not None}
        try:
            return _answer(await run(**given))
        except (InvalidError, NotFoundError) as error:
            return _answer({"error": str(error)})

    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return RecoveryTool(name, description, schema, call)


def _answer(value: object) -> str:
    return msgspec.json.encode(value).decode()
