"""HTML and SVG that cannot be broken out of: whatever is no ``Markup`` is escaped."""

from __future__ import annotations

import html
import re
from typing import Final

__all__ = ["Markup", "document", "tag", "visible"]

# Control characters, those that turn text around, those that nobody sees, and tag characters.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_VOID: Final = frozenset({"br", "img", "input", "link", "meta"})
_ADDRESSES: Final = frozenset({"href", "src", "action"})


class Markup(str):
    """Text that is markup already. What is made of one by adding or formatting is a plain ``str`` again."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element.

    Args:
        children: ``Markup`` as it is; a list or tuple stands for its members, ``None`` for nothing; everything else
            is escaped.
        attributes: a trailing underscore is left off, others become hyphens. ``None`` and ``False`` leave it out.

    Raises:
        ValueError: a name that is none, or an address that leaves this server.
    """
    parts = [f"<{_checked(name)}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = _checked(key.rstrip("_").replace("_", "-"))
        text = "" if value is True else str(value)
        if attribute in _ADDRESSES and not re.match(r"[#?]|/(?![/\\])", text):
            raise ValueError(f"{attribute}: an address of this server begins with one /, # or ?")
        parts.append(f' {attribute}="{html.escape(visible(text))}"')
    parts.append(">")
    if name in _VOID:
        return Markup("".join(parts))
    _add(children, parts)
    parts.append(f"</{name}>")
    return Markup("".join(parts))


def document(*children: object) -> bytes:
    """A whole HTML document."""
    return f"<!doctype html>{tag('html', *children, lang='en')}".encode()


def visible(text: str) -> str:
    """Text whose invisible characters, and those that turn text around, are shown by their numbers."""
    return _HIDDEN.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _add(children: object, parts: list[str]) -> None:
    if isinstance(children, Markup):
        parts.append(children)
    elif isinstance(children, tuple | list):
        for child in children:
            _add(child, parts)
    elif children is not None:
        parts.append(html.escape(visible(str(children))))


def _checked(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r:.40} is no name of an element or attribute")
    return name
