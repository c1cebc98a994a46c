"""The history's provider: the stored conversation under its own budget, behind what stands for older messages."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

import anyio
import anyio.lowlevel

from laser.compaction.registry import StrategyRegistry
from laser.compaction.transcript import place_of
from laser.context.assembly import assemble
from laser.context.checkpoints import take_checkpoint
from laser.context.policies import LastN, check_budget
from laser.errors import BudgetError, InvalidError, RetentionGapError, StaleCheckpointError
from laser.limits import CONTEXT_READ_WINDOW
from laser.model.checkpoint import Checkpoint
from laser.model.checks import check_topics
from laser.model.messages import Messages
from laser.model.topics import AgentTopic
from laser.prompt.fragments import Fragment
from laser.prompt.history.folding import HistoryFold, HistorySettings, units_of
from laser.prompt.history.items import INSTRUCTIONS, Item, item_of_message, item_of_payload
from laser.prompt.provider import BaseProvider, Provided, TurnContext
from laser.prompt.reports import HistoryFragments, HistoryReport
from laser.prompt.summaries import NO_STAND_IN, StandIn, read_stand_in, stand_in_fragments

__all__ = ["History"]

_LOWEST: Final = 60
_HIGHEST: Final = 79
_LEDGER: Final = 79
_MAX_FOLDS: Final = 256
# Messages that are counted before others get their turn: a vocabulary takes a tenth of a millisecond for each.
_CHUNK: Final = 32
_EVERYTHING: Final = LastN(CONTEXT_READ_WINDOW)
_NUMBERS: Final = itertools.count()


class History(BaseProvider):
    """The conversation's messages, as JSON in the shape that they were stored in.

    Within its budget it is shown whole. When it grows beyond, it is trimmed down to ``low_water`` of it and then held,
    so that the prefix stays equal to the byte until the next trim: first bulky old results of tools become a digest,
    then the oldest messages leave, a call always with its results. Instructions, the newest thing that the user said
    and the newest message stay. Exact values of what left (ids, codes, dates, amounts) stay in one message before the
    rest.

    Older messages that the session's compaction stands for, whoever compacted it, are shown as its summaries.

    Args:
        tokens: the history's own budget; ``None`` takes three fifths of the prompt's.
        low_water: share of it to trim down to, above 0 and below 1.
        ledger: share of it for exact values of what left, 0 to 0.5; 0 keeps none.
        clear_results: whether bulky old results become a digest.
        tool_output_compression: results equal to the byte become a back-reference to the first, which stays whole.
        topics: names; ``None`` reads ``agent.sessions``.
        assistant: the agent whose plain texts (no JSON messages) are the assistant's; ``None`` takes the turn's agent.
        registry: the strategies, where a session may have one of your own.

    Raises:
        InvalidError, BudgetError: a bad argument.
    """

    name = "history"
    priority = _HIGHEST
    required = True
    timeout = 10.0

    def __init__(
        self,
        tokens: int | None = None,
        *,
        low_water: float = 0.75,
        ledger: float = 0.15,
        clear_results: bool = True,
        tool_output_compression: bool = False,
        topics: Sequence[str] | None = None,
        assistant: str | None = None,
        registry: StrategyRegistry | None = None,
    ) -> None:
        if tokens is not None and check_budget(tokens, "tokens") == 0:
            raise BudgetError("tokens: a history of 0 tokens holds nothing; leave the provider out", argument="tokens")
        self._tokens = tokens
        self._low = _share(low_water, "low_water", 0.05, 0.99)
        self._ledger = _share(ledger, "ledger", 0.0, 0.5)
        if self._ledger >= self._low:
            raise InvalidError("ledger: must be below low_water", argument="ledger")
        self._clear = clear_results
        self._compress = tool_output_compression
        self._topics = [AgentTopic.Sessions] if topics is None else check_topics(topics)
        self._assistant = assistant
        self._registry = registry or StrategyRegistry()
        self._key = f"prompt.history.{next(_NUMBERS)}"

    def applies(self, turn: TurnContext) -> bool:
        """Where there is a history at all."""
        return turn.history is not None or turn.scope is not None

    async def provide(self, turn: TurnContext) -> Provided:
        """The summary, the ledger, and the messages, oldest first."""
        settings = self._settings(turn)
        if turn.history is not None:
            # The caller's own contract: neither repaired nor summarised.
            fold = HistoryFold(settings, turn.tokens)
            for count, payload in enumerate(turn.history):
                fold.push(item_of_payload(payload, turn.tokens))
                if count % _CHUNK == _CHUNK - 1:
                    await anyio.lowlevel.checkpoint()
            return _fragments(fold, NO_STAND_IN, 0, 0, turn)
        assert turn.laser is not None
        assert turn.scope is not None
        folds: OrderedDict[str, _Following] = turn.laser.share(self._key, OrderedDict)
        following = folds.get(turn.scope.conversation)
        if following is None or following.turn_settings != (settings, turn.tokens.name):
            following = _Following(settings, turn.tokens.name)
        folds[turn.scope.conversation] = following
        folds.move_to_end(turn.scope.conversation)
        while len(folds) > _MAX_FOLDS:
            folds.popitem(last=False)
        stand_in = await read_stand_in(turn, self._registry) if AgentTopic.Sessions in self._topics else NO_STAND_IN
        return await following.read(turn, self._topics, self._assistant or turn.agent, stand_in)

    def _settings(self, turn: TurnContext) -> HistorySettings:
        tokens = self._tokens
        if tokens is None:
            # Of the whole budget, not of what a turn leaves: a cap that moved would move the prefix with it.
            tokens = max(1, (turn.profile.budget.tokens - turn.profile.budget.reply) * 3 // 5)
        low, ledger = int(tokens * self._low), int(tokens * self._ledger)
        return HistorySettings(tokens, low, ledger, self._clear, self._compress, turn.profile.fencing)


class _Following:
    """The fold of one conversation, kept between turns and brought up to date at each."""

    def __init__(self, settings: HistorySettings, tokenizer: str) -> None:
        self.turn_settings = (settings, tokenizer)
        self._lock = anyio.Lock()
        self._fold: HistoryFold | None = None
        self._repairs: Mapping[str, str] = {}
        self._stand_in = NO_STAND_IN
        self._covered = 0
        self._at: Checkpoint | None = None
        self._last: dict[tuple[str, int], int] = {}
        self._summarised = 0
        self._skipped = 0

    async def read(
        self, turn: TurnContext, topics: list[str], assistant: str | None, stand_in: StandIn
    ) -> HistoryFragments:
        assert turn.laser is not None
        assert turn.scope is not None
        log, stream = turn.laser.open_log(), turn.laser.stream
        async with self._lock:
            if turn.notes.repairs != self._repairs or stand_in != self._stand_in:
                self._fold = None
            end = await take_checkpoint(log, stream, topics)
            fold, start = self._fold, self._at
            # Taken out while it is added to: a fold that was cancelled half-way must not be gone on from.
            self._fold = None
            messages: Messages | None = None
            if fold is not None and end == start:
                messages = Messages()
            elif fold is not None:
                try:
                    messages = await assemble(
                        log, stream, turn.scope.conversation, _EVERYTHING, topics=topics, from_checkpoint=start
                    )
                except (StaleCheckpointError, RetentionGapError):
                    # Another log than was read before: what it holds now is the history.
                    messages = None
            if fold is None or messages is None:
                fold = HistoryFold(self.turn_settings[0], turn.tokens)
                self._last, self._summarised, self._skipped, self._covered = {}, 0, 0, 0
                messages = await assemble(log, stream, turn.scope.conversation, _EVERYTHING, topics=topics)
            await self._push(fold, messages, turn, assistant, stand_in)
            self._fold, self._at, self._repairs, self._stand_in = fold, end, turn.notes.repairs, stand_in
            return _fragments(fold, stand_in, self._summarised, self._skipped, turn, self._covered)

    async def _push(
        self,
        fold: HistoryFold,
        messages: Messages,
        turn: TurnContext,
        assistant: str | None,
        stand_in: StandIn,
    ) -> None:
        repairs = turn.notes.repairs
        self._skipped += len(messages.skipped)
        for count, message in enumerate(messages):
            place = (message.topic, message.partition)
            if message.offset <= self._last.get(place, -1):
                continue
            self._last[place] = message.offset
            if stand_in.covers(message):
                self._summarised += 1
                if stand_in.native is not None:
                    self._covered += turn.tokens.count(message.text)
                continue
            stub = stand_in.stub(message)
            if stub is not None:
                fold.push(item_of_payload(stub, turn.tokens))
            else:
                repair = repairs.get(place_of(message)) if repairs else None
                fold.push(item_of_message(message, assistant, turn.tokens, repair))
            if count % _CHUNK == _CHUNK - 1:
                await anyio.lowlevel.checkpoint()


def _fragments(
    fold: HistoryFold,
    stand_in: StandIn,
    summarised: int,
    skipped: int,
    turn: TurnContext,
    covered: int = 0,
) -> HistoryFragments:
    shown = fold.shown()
    fragments = stand_in_fragments(stand_in, turn, covered)
    if fold.ledger.text:
        fragments.append(Fragment("earlier", fold.ledger.text, _LEDGER, place="history", tokens=fold.ledger.cost))
    units = units_of(shown)
    # What the user wants, and what came of it last: without them there is nothing to answer.
    spoken = [item.unit for item in shown if item.role == "user" and not item.facts.results]
    stay = {*units[-1:], *spoken[-1:]}
    steps = max(1, len(units) - 1)
    ranks = {unit: _LOWEST + (_HIGHEST - _LOWEST) * place // steps for place, unit in enumerate(units)}
    for item in shown:
        pinned = item.unit in stay or item.role in INSTRUCTIONS
        fragments.append(
            Fragment(
                "history",
                item.text,
                ranks[item.unit],
                place="history",
                pinned=pinned,
                unit=item.unit,
                tokens=item.tokens,
                flat=item.flat,
                measured=item.measured,
            )
        )
    return HistoryFragments(fragments, _report(fold, shown, summarised, skipped))


def _report(fold: HistoryFold, shown: Sequence[Item], summarised: int, skipped: int) -> HistoryReport:
    return HistoryReport(
        messages=fold.messages + summarised,
        shown=len(shown),
        summarised=summarised,
        dropped=fold.dropped,
        cleared=sum(item.cleared for item in shown),
        repeated=sum(item.repeats is not None for item in shown),
        repaired=sum(item.repaired for item in shown),
        unpaired=fold.unpaired + len(fold.items) - len(shown),
        trims=fold.trims,
        skipped=skipped,
    )


def _share(value: float, argument: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidError(f"{argument}: {value!r:.40} is not a share from {least} to {most}", argument=argument)
    return float(value)
