"""The tools ``lcm_list``, ``lcm_grep``, ``lcm_describe`` and ``lcm_expand``: from summaries back to the rows.

They read only, and work whatever strategy a session has. Image bytes are in no answer.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import anyio
import anyio.to_thread

from laser.compaction.events import Saved
from laser.compaction.lcm.nodes import Node, Tree, read_tree
from laser.compaction.lcm.pages import FoldInfo, FoldPage, GrepHit, GrepPage, RowText, TextPage, fold_info
from laser.compaction.lcm.searching import TextIndex, excerpt
from laser.compaction.rows import Row
from laser.compaction.tools import RecoveryTool, recovery_tool
from laser.compaction.transcript import History
from laser.errors import InvalidError, LimitError, NotFoundError
from laser.limits import MAX_LCM_PAGE, MAX_LCM_PAGE_BYTES, MAX_LCM_QUERY_BYTES

__all__ = ["LcmTools"]

Look = Callable[[], Awaitable[tuple[History, Sequence[Saved], dict[Any, Any]]]]

_CURSOR: Final = re.compile(r"(row|node):([0-9]{1,15})(?:\+([0-9]{1,10}))?")


# Inside the class the name is its method.
Hits = list[GrepHit]
Rows = list[RowText]


class LcmTools:
    """A session's summaries and rows, page by page. ``Compaction.lcm`` is it."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._index = TextIndex()
        self._searching = anyio.Lock()

    async def list(self, *, after: int = 0, limit: int = 50) -> FoldPage:
        """Every stored node, also those that no request shows any more.

        Args:
            after: only nodes with a higher number. limit: 1 to ``MAX_LCM_PAGE``.
        """
        _, tree = await self._read()
        count = _check_limit(limit)
        if type(after) is not int or after < 0:
            raise InvalidError(f"after: {after!r:.40} is not the number of a node", argument="after")
        nodes = [tree.nodes[number] for number in sorted(tree.nodes) if number > after]
        more = nodes[count - 1].number if len(nodes) > count else None
        return FoldPage(tuple(fold_info(tree, node) for node in nodes[:count]), more)

    async def describe(self, node: int) -> FoldInfo:
        """A node: its source, its children, its summary.

        Raises:
            NotFoundError: there is none of this number.
        """
        _, tree = await self._read()
        return fold_info(tree, _node(tree, node))

    async def grep(self, text: str, *, node: int | None = None, after: str | None = None, limit: int = 20) -> GrepPage:
        """Where a text stands, in rows and in summaries. Upper and lower case are alike; nothing else is.

        Args:
            text: 1 to ``MAX_LCM_QUERY_BYTES`` bytes. node: only in its rows, its summary and those below it.
            after: ``GrepPage.next`` of the page before. limit: 1 to ``MAX_LCM_PAGE``.

        Raises:
            InvalidError, LimitError: a bad argument. NotFoundError: no such node.
        """
        count = _check_limit(limit)
        _check_query(text)
        kind, number, _ = _cursor(after)
        history, tree = await self._read()
        spans: Sequence[tuple[int, int]] | None = None
        nodes = [tree.nodes[name] for name in sorted(tree.nodes)]
        if node is not None:
            top = _node(tree, node)
            spans, nodes = top.spans, sorted(tree.below(top), key=lambda one: one.number)
        hits: Hits = []
        if kind == "row":
            async with self._searching:
                hits += await anyio.to_thread.run_sync(self._rows, history, spans, text, number, count + 1)
            number = 0
        wanted = text.casefold()
        for one in nodes:
            if len(hits) > count:
                break
            if one.number > number and wanted in one.text.casefold():
                hits.append(GrepHit(excerpt(one.text, text), node=one.number))
        return GrepPage(tuple(hits[:count]), _next(hits, count))

    async def expand(self, node: int | None = None, *, after: str | None = None, limit: int = 20) -> TextPage:
        """The original rows of a node as text; of the whole transcript without one.

        A page ends at ``MAX_LCM_PAGE_BYTES``; a longer row goes on in the next one.

        Args:
            node: its number. after: ``TextPage.next`` of the page before, or ``row:SEQ``, from which the rows are
                given that come after it. limit: 1 to ``MAX_LCM_PAGE``.

        Raises:
            InvalidError: a bad argument. NotFoundError: no such node.
        """
        count = _check_limit(limit)
        kind, number, skip = _cursor(after)
        if kind != "row":
            raise InvalidError(f"after: {after!r:.40} is not a row, such as row:17", argument="after")
        history, tree = await self._read()
        spans = ((0, 1 << 62),) if node is None else _node(tree, node).spans
        rows: Rows = []
        room = MAX_LCM_PAGE_BYTES
        begin = number if skip is not None else number + 1
        if after is None:
            begin = 0
        for first, last in spans:
            if last < begin:
                continue
            place = history.place(max(first, begin))
            for row in history.rows[place:]:
                if row.seq > last:
                    break
                start = skip or 0 if row.seq == number else 0
                if len(rows) == count or room <= 0:
                    return TextPage(tuple(rows), _before(row, start))
                shown, end, whole = _part(row, start, room)
                rows.append(shown)
                room -= len(shown.text.encode())
                if not whole:
                    return TextPage(tuple(rows), f"row:{row.seq}+{end}")
        return TextPage(tuple(rows), None)

    def tools(self) -> tuple[RecoveryTool, ...]:
        """The four as tools for a model."""
        whole, text = {"type": "integer", "minimum": 0}, {"type": "string"}
        return (
            recovery_tool(
                "lcm_list", "Lists the stored summaries of this conversation.", {"after": whole, "limit": whole},
                (), self.list,
            ),
            recovery_tool(
                "lcm_grep",
                "Finds a literal text in the whole original conversation and in its summaries.",
                {"text": text, "node": whole, "after": text, "limit": whole}, ("text",), self.grep,
            ),
            recovery_tool(
                "lcm_describe", "Shows a summary, where its source is, and the summaries that it was made of.",
                {"node": whole}, ("node",), self.describe,
            ),
            recovery_tool(
                "lcm_expand", "Reads the original messages that a summary stands for; without a node, all of them.",
                {"node": whole, "after": text, "limit": whole}, (), self.expand,
            ),
        )  # fmt: skip

    async def _read(self) -> tuple[History, Tree]:
        history, saved, memo = await self._look()
        return history, read_tree([record.state for record in saved], history, history.floor, memo)

    def _rows(
        self, history: History, spans: Sequence[tuple[int, int]] | None, text: str, after: int, count: int
    ) -> Sequence[GrepHit]:
        found: Hits = []
        begin = history.place(after + 1) if after >= 0 else 0
        for first, last in spans or ((0, 1 << 62),):
            start, stop = max(begin, history.place(first)), history.place(last + 1)
            for place in self._index.find(history.rows, text, start, stop) if start < stop else ():
                row = history.rows[place]
                found.append(GrepHit(excerpt(row.text, text), row.seq, row.role))
                if len(found) == count:
                    return found
        return found


def _node(tree: Tree, number: int) -> Node:
    if type(number) is not int:
        raise InvalidError(f"node: {number!r:.40} is not the number of a node", argument="node")
    if number not in tree.nodes:
        raise NotFoundError(f"node: there is no summary {number} in this session; lcm_list gives those that are")
    return tree.nodes[number]


def _part(row: Row, start: int, room: int) -> tuple[RowText, int, bool]:
    text = row.text
    rest = text[start:]
    if len(rest.encode("utf-8", "replace")) > room:
        # At least a few characters: a page that shows nothing would never end.
        rest = rest.encode("utf-8", "replace")[: max(room, 64)].decode("utf-8", "ignore")
    end = start + len(rest)
    whole = end >= len(text)
    return RowText(row.seq, row.role, rest, start, start == 0 and whole), end, whole


def _before(row: Row, start: int) -> str:
    return f"row:{row.seq}+{start}"


def _next(hits: Sequence[GrepHit], count: int) -> str | None:
    if len(hits) <= count:
        return None
    last = hits[count - 1]
    return f"row:{last.seq}" if last.seq is not None else f"node:{last.node}"


def _cursor(after: str | None) -> tuple[str, int, int | None]:
    if after is None:
        return "row", -1, None
    match = _CURSOR.fullmatch(after) if isinstance(after, str) else None
    if match is None:
        raise InvalidError(f"after: {after!r:.40} is not what a page gave as next", argument="after")
    return match[1], int(match[2]), None if match[3] is None else int(match[3])


def _check_limit(limit: int) -> int:
    if type(limit) is not int or not 1 <= limit <= MAX_LCM_PAGE:
        raise InvalidError(f"limit: {limit!r:.40} is not a whole number from 1 to {MAX_LCM_PAGE}", argument="limit")
    return limit


def _check_query(text: str) -> None:
    if not isinstance(text, str) or not text:
        raise InvalidError("text: expected text with something in it", argument="text")
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_LCM_QUERY_BYTES:
        raise LimitError(
            f"text: has {size} bytes, allowed are {MAX_LCM_QUERY_BYTES}",
            argument="text",
            size=size,
            limit=MAX_LCM_QUERY_BYTES,
        )
