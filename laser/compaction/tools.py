"""Tools for models: a name, a JSON schema of the arguments, and a call that answers with text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

__all__ = ["RecoveryTool"]


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
