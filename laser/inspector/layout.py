"""What all pages look like: head, navigation, tables, texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from laser.inspector.markup import Markup, document, tag
from laser.inspector.room import Links

__all__ = ["SHORT", "block", "facts", "moment", "page", "table", "tokens"]

SHORT: Final = 4_000
"""Characters of a text that a page shows unless the whole is asked for."""

_TABS: Final = (
    ("session", "session"),
    ("transcript", "transcript"),
    ("context", "context"),
    ("compaction", "compaction"),
    ("frames", "frames"),
    ("prompts", "prompts"),
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def page(links: Links, title: str, *body: object, session: str | None = None, tab: str | None = None) -> bytes:
    """A page.

    Args:
        session: whose page it is; the navigation then leads to its others. tab: the one that this is.
    """
    crumbs: list[Markup] = [tag("a", "sessions", href=links.to())]
    if session is not None:
        for name, label in _TABS:
            address = links.to("s", session) if name == "session" else links.to("s", session, name)
            crumbs.append(tag("a", label, href=address, aria_current="page" if name == tab else None))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · laser"),
        tag("link", rel="stylesheet", href=links.to("style.css")),
    )
    shown = None if session is None else tag("p", tag("code", session), class_="id")
    return document(head, tag("body", tag("nav", *crumbs), tag("main", tag("h1", title), shown, *body)))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[int] = ()) -> Markup:
    """A table. numbers: places of columns that stand to the right."""
    head = tag("tr", [tag("th", name, class_=_side(place, numbers)) for place, name in enumerate(columns)])
    body = [
        tag("tr", [tag("td", cell, class_=_side(place, numbers)) for place, cell in enumerate(row)]) for row in rows
    ]
    if not body:
        body = [tag("tr", tag("td", "none", colspan=len(columns), class_="dim"))]
    return tag("div", tag("table", tag("thead", head), tag("tbody", body)), class_="wide")


def facts(*pairs: tuple[str, object]) -> Markup:
    """Names and values; ``None`` is left out."""
    return tag("dl", [(tag("dt", name), tag("dd", value)) for name, value in pairs if value is not None])


def block(text: str, *, whole: bool = False) -> Markup:
    """A text of somebody else, its beginning unless all of it is asked for."""
    rest = 0 if whole else len(text) - SHORT
    more = tag("p", f"… {rest:,} more characters", class_="dim more") if rest > 0 else None
    return tag("div", tag("pre", text if rest <= 0 else text[:SHORT], dir="auto"), more, class_="text")


def moment(micros: int | None) -> str:
    """A time in UTC, to the second; ``-`` for none."""
    if micros is None:
        return "-"
    try:
        return f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d %H:%M:%S}Z"
    except OverflowError:
        return f"{micros} µs"


def tokens(count: int | None) -> str:
    """A count of tokens; ``?`` where nobody knows."""
    return "?" if count is None else f"{count:,}"


def _side(place: int, numbers: Sequence[int]) -> str | None:
    return "number" if place in numbers else None
