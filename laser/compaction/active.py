"""A strategy as the compaction of an active context: what ``Session.compact`` asks for an account."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from laser.compaction.events import Saved
from laser.compaction.inputs import shown
from laser.compaction.requests import Request, check_estimator, check_tokens
from laser.compaction.rolling import Rolling
from laser.compaction.rows import Row
from laser.compaction.sizes import Estimator
from laser.compaction.strategy import CompactionProgress, CompactionStrategy
from laser.compaction.text import payload_text
from laser.compaction.transcript import History
from laser.compaction.units import units_of
from laser.compaction.view import CompactionView
from laser.compaction.work import SessionWork, check_timeout
from laser.context.policies import check_count
from laser.errors import BudgetError, InvalidError
from laser.model.checks import check_progress
from laser.model.transcript import SourceRef
from laser.models.content import CONTENT_TYPE
from laser.ports.summarizer import Summarizer
from laser.session.active.compacting import Account, Compactor
from laser.session.active.entries import ContextEntry, EntryKind, NewEntry
from laser.session.active.state import ActiveState, compactable

__all__ = ["strategy_compactor"]

_ROLES: Final[dict[EntryKind, str]] = {
    "user": "user",
    "assistant": "assistant",
    "reasoning": "assistant",
    "tool_call": "assistant",
    "tool_result": "tool",
    "summary": "summary so far",
}
_STAYS: Final = "system"


def strategy_compactor(
    summarizer: Summarizer,
    strategy: CompactionStrategy | None = None,
    *,
    window: int | None = None,
    reserve: int = 0,
    keep_last: int | None = None,
    summary_tokens: int | None = None,
    timeout: float = 120.0,
    estimator: Estimator | None = None,
    progress: Callable[[CompactionProgress], None] | None = None,
) -> Compactor:
    """A compactor for ``Session.compact`` that has a strategy shorten the conversation in words.

    What is older than the strategy's tail becomes its summary, an earlier one included; a turn of the user goes whole
    or stays whole. What ``compactable`` does not give stays where it is, and so does opaque state of a provider. The
    strategy keeps nothing of its own: the summary is an entry of the context, and the events before it stay on the log.

    Args:
        summarizer: makes the summaries. strategy: ``None`` for ``Rolling()``. One that draws pictures is refused.
        window: tokens of the model's window; ``None`` leaves the strategy's share of the context as it is.
        reserve: tokens for what is not in the context. keep_last: entries that stay at least, in the place of that
            share. summary_tokens: how long a summary may become, at most. timeout: seconds that one summary may take.
        estimator: tokens of entries that have no estimate; ``None`` for laser's own.
        progress: called before and after each request to the summarizer.

    Raises:
        InvalidError, BudgetError: a bad argument. The compactor itself raises ``SummaryError`` where the summarizer
            fails, and ``CompactionError`` where the context would not become smaller.
    """
    chosen = Rolling() if strategy is None else strategy
    if not isinstance(summarizer, Summarizer):
        raise InvalidError(
            f"summarizer: {type(summarizer).__name__} has no method summarize(request)", argument="summarizer"
        )
    if not isinstance(chosen, CompactionStrategy):
        raise InvalidError(f"strategy: {type(chosen).__name__} is no CompactionStrategy", argument="strategy")
    if window is not None:
        check_tokens(window, "window", least=1)
    check_tokens(reserve, "reserve")
    if keep_last is not None:
        check_count(keep_last, "keep_last")
    if summary_tokens is not None:
        check_tokens(summary_tokens, "summary_tokens", least=1)
    check_progress(progress)
    seconds = check_timeout(timeout)
    cost = check_estimator(estimator)

    async def compactor(state: ActiveState) -> Account | None:
        free = {held.id for held in compactable(state.entries) if held.kind != "compaction"}
        talk = [held for held in state.entries if held.kind in _ROLES]
        around = sum(_tokens(held, cost) for held in state.entries if held.kind not in _ROLES)
        if window is not None and reserve + around >= window:
            raise BudgetError(
                f"window: {reserve + around} of its {window} tokens are for what no compaction makes smaller",
                argument="window",
            )
        request = Request(window, reserve + around, keep_last=keep_last, summary_tokens=summary_tokens)
        rows = tuple(_row(place, held, held.id in free, cost) for place, held in enumerate(talk))
        book = _Book(chosen, History(rows, units_of(rows), tuple(shown(row, "tail") for row in rows)), request, cost)
        work = SessionWork(book, chosen.name, None, summarizer, seconds, progress)
        if not await chosen.compact(book.view(), work, force=True):
            return None
        inputs, _ = await chosen.project(book.view())
        left = {one.source.seq for one in inputs if one.source is not None}
        removed = [held.id for place, held in enumerate(talk) if place not in left and held.id in free]
        made = [_entry(one.payload, one.tokens, chosen) for one in inputs if one.source is None]
        return Account(removed, made) if removed and made else None

    return compactor


class _Book:
    """Where the strategy's records go: nowhere but here, until the account is committed."""

    def __init__(self, strategy: CompactionStrategy, history: History, request: Request, estimator: Estimator) -> None:
        self._strategy = strategy
        self._history = history
        self._request = request
        self._estimator = estimator
        self._records: list[Saved] = []
        self._memo: dict[Any, Any] = {}

    async def record(self, saved: Saved) -> CompactionView:
        """Takes a record: the context as it is then."""
        self._records.append(saved)
        return self.view()

    def view(self) -> CompactionView:
        """The context as the strategy sees it."""
        return CompactionView(
            "active", self._strategy, self._history, self._saved, self._request, (), self._estimator, self._memo
        )

    def _saved(self, strategy: str) -> Sequence[Saved]:
        return self._records if strategy == self._strategy.name else ()


def _row(place: int, held: ContextEntry, free: bool, estimator: Estimator) -> Row:
    """An entry as a row. What may not be removed counts as an instruction: no strategy folds one."""
    entry = held.entry
    payload = _payload(held)
    called = () if entry.call_id is None else (entry.call_id,)
    return Row(
        SourceRef("active", place),
        payload,
        _tokens(held, estimator),
        _ROLES[held.kind] if free else _STAYS,
        held.kind == "user",
        called if held.kind == "tool_call" else (),
        called if held.kind == "tool_result" else (),
        entry.interim,
        repair=payload_text(payload),
    )


def _payload(held: ContextEntry) -> bytes:
    """The entry as a message whose words can be read."""
    entry, role = held.entry, _ROLES.get(held.kind, _STAYS)
    if entry.payload is None:
        assert entry.ref is not None
        text = f"[{entry.ref.media_type}, kept as content] {entry.preview or ''}".rstrip()
        return orjson.dumps({"role": role, "content": text})
    if entry.api is None and entry.media_type != CONTENT_TYPE:
        return orjson.dumps({"role": role, "content": held.text})
    try:
        value = orjson.loads(entry.payload)
    except orjson.JSONDecodeError:
        return orjson.dumps({"role": role, "content": held.text})
    if entry.media_type == CONTENT_TYPE:
        return orjson.dumps({"role": role, "content": value.get("parts") if isinstance(value, dict) else None})
    if entry.api == "anthropic_messages":
        return orjson.dumps({"role": role, "content": value if isinstance(value, list) else [value]})
    return entry.payload


def _tokens(held: ContextEntry, estimator: Estimator) -> int:
    entry = held.entry
    if entry.tokens is not None:
        return entry.tokens
    return estimator(_payload(held) if entry.payload is None else entry.payload)


def _entry(payload: bytes, tokens: int, strategy: CompactionStrategy) -> NewEntry:
    text = orjson.loads(payload)["content"]
    if not isinstance(text, str):
        raise InvalidError(
            f"strategy: {strategy.name} makes pictures, and an active context takes words; take rolling or lcm",
            argument="strategy",
        )
    return NewEntry("summary", text.encode(), tokens=tokens, source=f"compaction:{strategy.name}")
