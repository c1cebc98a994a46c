"""Consolidation: the newest items stay, the rest goes, perhaps into a summary."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from laser.errors import InvalidError
from laser.limits import MAX_MEMORY_RESULTS
from laser.memory.arguments import read_body
from laser.memory.source import MemorySource
from laser.memory.writing import MemoryWriter
from laser.model.memory import MemoryOwner, Remembered
from laser.ports.memory_view import Found, MemoryView

__all__ = ["ConsolidationReport", "Summarize", "consolidate"]

_NOTHING_IS_OVER: Final = -1

Summarize = Callable[[list[bytes]], bytes | str | Awaitable[bytes | str]]
"""From the bodies of messages, newest first, to the body of their summary."""


class ConsolidationReport(msgspec.Struct, frozen=True):
    """What a consolidation did.

    Attributes:
        summarized: messages that went into the summary. pruned: items that were forgotten.
        summary_id: the summary's id; ``None`` when none was made.
    """

    summarized: int
    pruned: int
    summary_id: str | None


async def consolidate(
    source: MemorySource,
    writer: MemoryWriter,
    owner: MemoryOwner,
    max_items: int,
    summarizer: Summarize | None,
    prune_summarized: bool,
    now_micros: int,
) -> ConsolidationReport:
    """See ``Memory.consolidate``.

    The summary is written before anything is forgotten, so that a crash in between loses nothing.
    """
    found = await source.ask(partial(_everything, owner, now_micros))
    items = [item for item in found if not item.durable and item.fact is None]
    messages = [item for item in items if item.kind == "message"]
    summary_id = None
    if summarizer is not None and messages:
        body = await _summarize(summarizer, messages)
        sources = tuple(item.id for item in messages)
        summary_id = await writer.remember(owner, body, "summary", dedup=False, durable=True, sources=sources)
        if await source.ask(partial(_get, owner, summary_id, now_micros)) is None:
            # One of the messages was forgotten meanwhile, and the summary with it: nothing stands for the others.
            return ConsolidationReport(0, 0, None)
    gone: list[Remembered] = []
    if summary_id is not None and prune_summarized:
        gone += messages
        items = [item for item in items if item.kind != "message"]
    gone += reversed(items[max_items:])
    await _prune(source, writer, owner, gone)
    return ConsolidationReport(len(messages) if summary_id is not None else 0, len(gone), summary_id)


async def _everything(owner: MemoryOwner, now_micros: int, view: MemoryView) -> list[Remembered]:
    """Every item of an owner, newest first."""
    limit = MAX_MEMORY_RESULTS
    while len(found := await view.recent(owner, limit, now_micros)) == limit:
        limit *= 4
    return [entry.item for entry in found]


async def _get(owner: MemoryOwner, item_id: str, now_micros: int, view: MemoryView) -> Found | None:
    return await view.get(owner, item_id, now_micros)


async def _prune(source: MemorySource, writer: MemoryWriter, owner: MemoryOwner, items: Sequence[Remembered]) -> None:
    """Forgets items, and what other conversations have of them where the owner is of no conversation."""
    ids = {item.id for item in items}
    while items:
        await writer.forget_many(items, pruned=True)
        if owner.conversation is not None:
            return
        left = await source.ask(partial(_everything, owner, _NOTHING_IS_OVER))
        items = [item for item in left if item.id in ids]


async def _summarize(summarizer: Summarize, messages: Sequence[Remembered]) -> bytes:
    result: Any = summarizer([item.body for item in messages])
    if inspect.isawaitable(result):
        result = await result
    body = read_body(result, "summarizer")
    if not body.strip():
        raise InvalidError("summarizer: gave an empty summary; nothing was changed", argument="summarizer")
    return body
