"""The tools ``transcript_grep`` and ``transcript_read``: the whole transcript, whatever a request shows of it."""

from __future__ import annotations

from laser.compaction.lcm.pages import GrepPage, TextPage
from laser.compaction.lcm.tools import LcmTools
from laser.compaction.tools import RecoveryTool, recovery_tool

__all__ = ["TranscriptTools"]


class TranscriptTools:
    """A session's rows, page by page, under any strategy. ``Compaction.transcript`` is it. Image bytes stay out."""

    def __init__(self, lcm: LcmTools) -> None:
        self._lcm = lcm

    async def grep(self, text: str, *, after: str | None = None, limit: int = 20) -> GrepPage:
        """Rows in which a text stands, in order. Upper and lower case are alike; nothing else is.

        Args:
            text: 1 to ``MAX_LCM_QUERY_BYTES`` bytes. after: ``GrepPage.next`` of the page before.
            limit: 1 to ``MAX_LCM_PAGE``.

        Raises:
            InvalidError, LimitError: a bad argument.
        """
        page = await self._lcm.grep(text, after=after, limit=limit)
        rows = tuple(hit for hit in page.hits if hit.seq is not None)
        return GrepPage(rows, page.next if len(rows) == len(page.hits) else None)

    async def read(self, *, after: str | None = None, limit: int = 20) -> TextPage:
        """The rows as text, from the first one on.

        A page ends at ``MAX_LCM_PAGE_BYTES``; a longer row goes on in the next one.

        Args:
            after: ``TextPage.next`` of the page before, or ``row:SEQ``, from which the rows are given that come after
                it. limit: 1 to ``MAX_LCM_PAGE``.

        Raises:
            InvalidError: a bad argument.
        """
        return await self._lcm.expand(after=after, limit=limit)

    def tools(self) -> tuple[RecoveryTool, ...]:
        """The two as tools for a model."""
        whole, text = {"type": "integer", "minimum": 0}, {"type": "string"}
        return (
            recovery_tool(
                "transcript_grep", "Finds a literal text in the whole original conversation.",
                {"text": text, "after": text, "limit": whole}, ("text",), self.grep,
            ),
            recovery_tool(
                "transcript_read",
                "Reads the whole original conversation page by page; after=\"row:17\" begins behind row 17.",
                {"after": text, "limit": whole}, (), self.read,
            ),
        )  # fmt: skip
