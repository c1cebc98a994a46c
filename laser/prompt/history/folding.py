"""The fold of a history under its budget: trimmed to a low-water mark, then held.

It is a pure fold: the same messages under the same settings give the same prompt, in every process. Between two trims
messages are only added at the end, so that all before them stays equal to the byte and a provider's cache holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from laser.context.tokens import Tokenizer
from laser.prompt.history.items import INSTRUCTIONS, Item
from laser.prompt.history.ledger import Ledger
from laser.prompt.history.results import map_results, result_texts
from laser.prompt.history.values import digest_of

__all__ = ["HistoryFold", "HistorySettings"]

# A result below this many bytes is no cheaper as a digest or as a back-reference.
_BULKY_BYTES: Final = 240
_DIGEST_CHARS: Final = 200
# Results that the model has most likely not worked off yet.
_FRESH_RESULTS: Final = 2


class HistorySettings(msgspec.Struct, frozen=True):
    """How a history is kept within its budget.

    Attributes:
        tokens: that it may have. low: tokens to trim down to. ledger: of those, for exact values of what left.
        clear: bulky old results of tools become a digest before messages are dropped.
        compress: results equal to the byte become a back-reference to the first.
        fencing: whether what is added is escaped.
    """

    tokens: int
    low: int
    ledger: int
    clear: bool = True
    compress: bool = False
    fencing: bool = True


class HistoryFold:
    """The messages of one history, in order, within their budget.

    Attributes:
        items: what is shown. messages: pushed so far. dropped, trims: see ``HistoryReport``.
        unpaired: results that nobody called.
    """

    def __init__(self, settings: HistorySettings, tokens: Tokenizer) -> None:
        self._settings = settings
        self._tokens = tokens
        self._ledger = Ledger(settings.ledger, tokens)
        self._total = 0
        self._units = 0
        self._waiting: dict[str, list[Item]] = {}
        self._unanswered: dict[int, int] = {}
        self._firsts: dict[str, Item] = {}
        self.items: list[Item] = []
        self.messages = self.dropped = self.trims = self.unpaired = 0

    @property
    def ledger(self) -> Ledger:
        """The exact values of what left."""
        return self._ledger

    def push(self, item: Item) -> None:
        """Adds the next message, and trims where it does not fit."""
        self.messages += 1
        if not self._join(item):
            self.unpaired += 1
            return
        if self._settings.compress and item.facts.results:
            self._refer(item)
        self.items.append(item)
        self._total += item.tokens
        if self._total > self._settings.tokens:
            self._trim()

    def shown(self) -> list[Item]:
        """What stands in the prompt: without calls of which a result is missing, unless they are still running."""
        if not self._unanswered or not self.items:
            return self.items
        broken = self._unanswered.keys() - self._running()
        return [item for item in self.items if item.unit not in broken]

    # ------------------------------------------------------------------------------------------------ pairs

    def _join(self, item: Item) -> bool:
        """Gives a message its unit. Returns whether it can stand: a result without its call cannot."""
        facts = item.facts
        unit: int | None = None
        for call_id in facts.results:
            callers = self._waiting.get(call_id)
            if not callers:
                return False
            unit = callers[-1].unit
        for call_id in facts.results:
            caller = self._waiting[call_id].pop()
            if not self._waiting[call_id]:
                del self._waiting[call_id]
            self._unanswered[caller.unit] -= 1
            if not self._unanswered[caller.unit]:
                del self._unanswered[caller.unit]
        if unit is None:
            last = self.items[-1] if self.items else None
            if last is not None and _belongs(item, last):
                unit = last.unit
            else:
                unit, self._units = self._units, self._units + 1
        item.unit = unit
        if facts.calls:
            self._unanswered[unit] = self._unanswered.get(unit, 0) + len(facts.calls)
            for call_id in facts.calls:
                self._waiting.setdefault(call_id, []).append(item)
        return True

    def _running(self) -> set[int]:
        """The unit of the last calls, when nothing but their results follows: the tools are still at work."""
        last = self.items[-1].unit
        place = len(self.items) - 1
        while place >= 0 and self.items[place].unit == last and not self.items[place].facts.calls:
            place -= 1
        return {last} if place >= 0 and self.items[place].unit == last else set()

    # ------------------------------------------------------------------------------------------------ repeats

    def _refer(self, item: Item) -> None:
        texts = result_texts(item.value)
        if len(texts) != 1 or len(texts[0]) < _BULKY_BYTES:
            return
        first = self._firsts.get(texts[0])
        if first is None:
            self._firsts[texts[0]] = item
            return
        call = first.facts.results[0]
        summary = digest_of(texts[0], _DIGEST_CHARS // 2).partition("] ")[2]
        line = f"[the same result as that of {call}, which stands above in full] {summary}".rstrip()
        changed = map_results(item.value, lambda _: line)
        if changed is not None:
            item.original, item.repeats = item.value, first
            item.show(changed, self._tokens)

    def _release(self, gone: Item) -> None:
        """Lets the next message with the result of one that is cleared or dropped have it in full."""
        texts = result_texts(gone.value if gone.original is None else gone.original)
        if not texts or self._firsts.get(texts[0]) is not gone:
            return
        del self._firsts[texts[0]]
        heir: Item | None = None
        for item in self.items:
            if item.repeats is not gone or item is gone:
                continue
            if heir is None and item.original is not None:
                heir = self._firsts[texts[0]] = item
                self._total -= item.show(item.original, self._tokens)
                item.repeats = item.original = None
            else:
                item.repeats = heir
                self._point(item, heir)

    def _point(self, item: Item, first: Item | None) -> None:
        if first is None or item.original is None:
            return
        source = item.original
        summary = digest_of(result_texts(source)[0], _DIGEST_CHARS // 2).partition("] ")[2]
        line = f"[the same result as that of {first.facts.results[0]}, which stands above in full] {summary}".rstrip()
        changed = map_results(source, lambda _: line)
        if changed is not None:
            self._total -= item.show(changed, self._tokens)

    # ------------------------------------------------------------------------------------------------ trimming

    def _trim(self) -> None:
        settings = self._settings
        self.trims += 1
        self._total -= self._ledger.cost
        low = max(0, settings.low - settings.ledger)
        if settings.clear:
            self._clear(low, _FRESH_RESULTS)
        # What clearing alone brought well under the budget loses no message.
        if self._total > (low + settings.tokens - settings.ledger) // 2:
            self._drop(low)
        if settings.clear:
            # A single turn that is too large: its own results are cleared too, the newest last.
            self._clear(settings.tokens - settings.ledger, 0)
        self._ledger.render({value.text for item in self.items for value in item.values}, settings.fencing)
        self._total += self._ledger.cost

    def _clear(self, target: int, fresh: int) -> None:
        bringing = [item for item in self.items if item.facts.results]
        for item in bringing[: len(bringing) - fresh]:
            if self._total <= target:
                return
            if item.cleared or item.repeats is not None:
                continue
            changed = map_results(item.value, _digest)
            if changed is None:
                continue
            self._ledger.add(item.values)
            self._release(item)
            item.cleared = True
            self._total -= item.show(changed, self._tokens)

    def _drop(self, target: int) -> None:
        if self._total <= target:
            return
        kept = self._kept_units()
        sizes: dict[int, int] = {}
        for item in self.items:
            sizes[item.unit] = sizes.get(item.unit, 0) + item.tokens
        spoken = {item.unit for item in self.items if item.role == "user" and not item.facts.results}
        gone: set[int] = set()
        total = self._total
        for unit, size in sizes.items():
            # What is left begins with something the user said: no answer without its question.
            if total <= target and (unit in spoken or not spoken):
                break
            if unit not in kept:
                gone.add(unit)
                total -= size
        leaving = [item for item in self.items if item.unit in gone]
        self.items = [item for item in self.items if item.unit not in gone]
        for item in leaving:
            self._total -= item.tokens
            self._ledger.add(item.values)
        for item in leaving:
            self._release(item)
        self.dropped += len(leaving)
        for unit in gone:
            self._unanswered.pop(unit, None)
        for call_id in [call for call, callers in self._waiting.items() if callers[-1].unit in gone]:
            del self._waiting[call_id]

    def _kept_units(self) -> set[int]:
        """Units that are never dropped: instructions, the newest one, and the newest thing the user said."""
        kept = {item.unit for item in self.items if item.role in INSTRUCTIONS}
        kept.add(self.items[-1].unit)
        for item in reversed(self.items):
            if item.role == "user" and not item.facts.results:
                kept.add(item.unit)
                break
        return kept


def _digest(text: str) -> str | None:
    if len(text) < _BULKY_BYTES:
        return None
    digest = digest_of(text, _DIGEST_CHARS)
    return digest if len(digest) < len(text) else None


def _belongs(item: Item, last: Item) -> bool:
    """Whether an item of OpenAI Responses goes with the one before it: reasoning with its calls, calls side by side."""
    if last.value.get("type") == "reasoning":
        return item.role == "assistant" or item.value.get("type") == "reasoning"
    return item.facts.item and last.facts.item


def units_of(items: Sequence[Item]) -> list[int]:
    """The units of items, each once, in order."""
    return list(dict.fromkeys(item.unit for item in items))
