"""Compaction by a model provider: Responses' own endpoint, a summary in words elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from laser.models.compaction import CompactionResult, lower_compaction, parse_compaction
from laser.models.lowering import LoweredRequest, RequestOptions
from laser.models.selection import ModelSelection
from laser.ports.estimator import estimate_tokens
from laser.session.active.compacting import Account, Compactor
from laser.session.active.entries import ContextEntry, NewEntry
from laser.session.active.lowering import Resolve, item_entries, lowering_entries
from laser.session.active.state import ActiveState, compactable

__all__ = ["provider_compactor"]

_AROUND: Final = frozenset({"instruction", "skill", "catalog"})

Send = Callable[[LoweredRequest], Awaitable[bytes | Mapping[str, Any]]]


def provider_compactor(
    model: ModelSelection,
    send: Send,
    options: RequestOptions | None = None,
    *,
    target_tokens: int | None = None,
    max_output_tokens: int | None = None,
    resolve: Resolve | None = None,
) -> Compactor:
    """A compactor for ``Session.compact(…, mode="provider_standalone")`` that asks a model provider.

    Args:
        model: of the session's API kind. send: sends a request, and gives the answer's body or JSON.
        options: tools and parameters of the session's requests, so that the provider's cache of them is used.
        target_tokens, max_output_tokens: see ``laser.models.lower_compaction``; a summary needs the first.
        resolve: brings the bytes of entries that refer to content.
    """
    api = model.check().api_kind
    chosen = RequestOptions() if options is None else options

    async def compactor(state: ActiveState) -> Account | None:
        removed = compactable(state.entries)
        if not any(not held.superseded for held in removed):
            return None
        shown = _shown(state, removed, whole=api != "openai_responses")
        request = lower_compaction(
            model,
            await lowering_entries(shown, api, resolve),
            chosen,
            target_tokens=target_tokens,
            max_output_tokens=max_output_tokens,
        )
        result = parse_compaction(api, await send(request))
        return Account([held.id for held in removed], _entries(result))

    return compactor


def _shown(state: ActiveState, removed: list[ContextEntry], *, whole: bool) -> list[ContextEntry]:
    """What the provider is shown: never an open call, nor input that nobody has read.

    A summary is asked for behind the conversation as it was sent before, old catalogs and all, for the provider's
    cache. What Responses gives stands for all that it was shown, so it is shown only what goes.
    """
    if whole:
        gone = {held.id for held in removed}
        return [held for held in state.entries if held.kind in _AROUND or held.id in gone]
    gone = {held.id for held in removed if not held.superseded}
    return [held for held in state.entries if held.kind == "instruction" or held.id in gone]


def _entries(result: CompactionResult) -> list[NewEntry]:
    if result.summary is not None:
        payload = result.summary.encode()
        return [NewEntry("summary", payload, tokens=estimate_tokens(payload), source="compaction")]
    return [
        msgspec.structs.replace(entry, kind="compaction" if entry.kind == "compaction" else "summary", call_id=None)
        for entry in item_entries(result.items, result.api_kind)
    ]
