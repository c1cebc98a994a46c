"""What a person may see of an item in a provider's own form, read from its bytes: nothing is stored beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from laser.errors import InvalidError
from laser.models.anthropic_messages import reading as messages
from laser.models.chat_completions import reading as completions
from laser.models.exact import read_json, settle
from laser.models.openai_responses import reading as responses
from laser.models.selection import ApiKind, check_api_kind

__all__ = ["visible_text"]

_SHOWN: Final[dict[ApiKind, Callable[[Any], str]]] = {
    "openai_responses": responses.shown,
    "anthropic_messages": messages.shown,
    "chat_completions": completions.shown,
}


def visible_text(api_kind: ApiKind, payload: bytes) -> str:
    """The words in a native item, whole: of a message what was said or why it was refused, of reasoning what the
    provider shows of it. Empty for everything else, such as calls, images and encrypted reasoning.

    Args:
        payload: ``NativeItem.payload``, or a payload that was kept with this API kind.

    Raises:
        CodecError: it is no JSON. InvalidError: no such API kind.
    """
    if not isinstance(payload, bytes):
        raise InvalidError(f"payload: expected bytes, got {type(payload).__name__}", argument="payload")
    value, _, _ = settle(read_json(payload))
    return _SHOWN[check_api_kind(api_kind)](value)
