"""Results that a provider has no place for: it takes one of each call, and this is not the first, or there is none."""

from __future__ import annotations

import html
import re

from laser.errors import CodecError, InvalidError
from laser.models.content import CONTENT_TYPE, TextPart, decode_content, encode_content
from laser.models.entries import LoweringEntry

__all__ = ["late_result", "missing_result"]

_TAG = re.compile(r"<(?=/?tool_result\b)", re.IGNORECASE)
_MISSING = "There is no result: the call was interrupted. It may have been carried out, or not."


def late_result(result: LoweringEntry, *, interim: bool = False) -> LoweringEntry:
    """A result of a call that has an interim one already, as news for the model between tags.

    Args:
        result: its text or parts. interim: yet another one is to come.

    Raises:
        InvalidError: it has the provider's own form, in which nothing but a result can stand.
    """
    name = result.id or "tool_result"
    if result.api_kind is not None:
        raise InvalidError(
            f"entry {name}: a result behind an interim one has no native form; give it as text or parts",
            argument="entries",
        )
    marks = "".join((' state="interim"' if interim else "", ' error="true"' if result.is_error else ""))
    head = f'<tool_result call="{html.escape(result.call_id or "")}"{marks}>\n'
    if result.media_type != CONTENT_TYPE:
        text = head + _TAG.sub("&lt;", result.payload.decode("utf-8", "replace")) + "\n</tool_result>"
        return LoweringEntry.user(text, id=result.id)
    try:
        parts = decode_content(result.payload)
    except CodecError as error:
        raise InvalidError(f"entry {name}: {error}", argument="entries") from error
    inside = [TextPart(_TAG.sub("&lt;", part.text)) if isinstance(part, TextPart) else part for part in parts]
    payload = encode_content([TextPart(head), *inside, TextPart("\n</tool_result>")])
    return LoweringEntry("user", payload, CONTENT_TYPE, id=result.id)


def missing_result(call_id: str) -> LoweringEntry:
    """What stands for the result of a call that never got one."""
    return LoweringEntry.tool_result(call_id, _MISSING, is_error=True)
