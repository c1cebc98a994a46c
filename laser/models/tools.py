"""Tools in one neutral form, written in each API's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from laser.errors import InvalidError, UnsupportedError
from laser.limits import MAX_TOOL_NAME_CHARS
from laser.models.exact import write_argument
from laser.models.selection import ApiKind

__all__ = ["ProviderTool", "Tool", "ToolDefinition", "lower_tools"]

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


class ToolDefinition(msgspec.Struct, frozen=True, gc=False):
    """A tool of the caller's.

    Attributes:
        name: letters, digits, ``_`` and ``-``; at most 64, for Anthropic 128. description: for the model.
        parameters: JSON schema of its arguments, whose ``type`` is ``object``. strict: whether the provider has to
            hold the model to the schema. deferred: it is loaded only when a tool search finds it; Chat Completions
            cannot.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool = False
    deferred: bool = False


class ProviderTool(msgspec.Struct, frozen=True, gc=False):
    """A tool that the provider defines, such as its web search, in its own form.

    Attributes:
        api_kind: whose form it has. definition: as the provider documents it.
    """

    api_kind: ApiKind
    definition: Mapping[str, Any]


Tool = ToolDefinition | ProviderTool


def lower_tools(api_kind: ApiKind, tools: Sequence[Tool]) -> tuple[tuple[bytes, bool], ...]:
    """Each tool's definition, in the order given, and whether it may carry a cache marker.

    Raises:
        InvalidError: a name that is taken or not allowed, or a schema that is none. UnsupportedError: the API cannot.
    """
    if isinstance(tools, str | bytes) or not isinstance(tools, Sequence):
        raise InvalidError(f"tools: expected a list of tools, got {type(tools).__name__}", argument="tools")
    names: set[str] = set()
    lowered: list[tuple[bytes, bool]] = []
    for place, tool in enumerate(tools):
        where = f"tools[{place}]"
        if isinstance(tool, ToolDefinition):
            name = _checked_name(tool.name, api_kind, where)
            written = write_argument(_define(api_kind, tool, where), "tools")
            deferred = tool.deferred
        elif isinstance(tool, ProviderTool):
            if tool.api_kind != api_kind:
                raise UnsupportedError(f"{where}: has the form of {tool.api_kind}, the request is {api_kind}")
            if not isinstance(tool.definition, Mapping) or "type" not in tool.definition:
                raise InvalidError(f"{where}: a provider's tool is an object with a type", argument="tools")
            named = tool.definition.get("name")
            name = named if isinstance(named, str) else ""
            written = write_argument(tool.definition, "tools")
            deferred = bool(tool.definition.get("defer_loading")) or "cache_control" in tool.definition
        else:
            raise InvalidError(f"{where}: {type(tool).__name__} is no tool definition", argument="tools")
        if name and name in names:
            raise InvalidError(f"{where}: the name {name!r} is taken", argument="tools")
        names.add(name)
        lowered.append((written, not deferred))
    return tuple(lowered)


def _define(api_kind: ApiKind, tool: ToolDefinition, where: str) -> dict[str, Any]:
    if not isinstance(tool.parameters, Mapping) or tool.parameters.get("type") != "object":
        raise InvalidError(
            f"{where}: the parameters of {tool.name!r} are no JSON schema of an object; without any, give "
            '{"type": "object", "properties": {}}',
            argument="tools",
        )
    if api_kind == "openai_responses":
        defined = {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": tool.strict,
        }
        return defined | ({"defer_loading": True} if tool.deferred else {})
    if api_kind == "anthropic_messages":
        defined = {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        strict = {"strict": True} if tool.strict else {}
        return defined | strict | ({"defer_loading": True} if tool.deferred else {})
    if tool.deferred:
        raise UnsupportedError(f"{where}: Chat Completions has no deferred tools; leave out deferred of {tool.name!r}")
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function | ({"strict": True} if tool.strict else {})}


def _checked_name(name: str, api_kind: ApiKind, where: str) -> str:
    limit = MAX_TOOL_NAME_CHARS * (2 if api_kind == "anthropic_messages" else 1)
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > limit:
        raise InvalidError(
            f"{where}: {name!r} is no name of a tool: 1 to {limit} letters, digits, _ and -", argument="tools"
        )
    return name
