"""What a strategy prepares: inputs of a model call, and an observation of how they came about."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Literal

import msgspec
import orjson

from laser.compaction.rows import Row
from laser.compaction.sizes import message_cost
from laser.model.content import ContentEntry
from laser.model.transcript import SourceRef

__all__ = [
    "PreparedInput",
    "InputKind",
    "ContextObservation",
    "PreparedRequest",
    "ContextSection",
    "Status",
    "said",
    "sections_of",
    "shown",
]

InputKind = Literal["context", "instruction", "fold", "summary", "recap", "frame", "held", "stub", "tail"]
"""``context``: the caller's own, such as the system prompt. ``instruction``: a system or developer message of the
transcript. ``fold``: a summary that another strategy stored. ``frame``: a picture of text. ``held``: older than the
tail, and shown because a call in it is open. ``stub``: a row whose result is left out. ``tail``: a row as it is."""

Status = Literal[
    "none", "idle", "compacted", "no_window", "no_summarizer", "nothing_to_fold", "deferred", "cooling_down", "failed"
]
"""``none``: the session has no strategy. ``idle``: below the trigger. ``no_window``: no window is known, so that
nothing is compacted by itself. ``nothing_to_fold``: above the trigger, but everything that is left has to stay.
``deferred``: a call waits for its result. ``cooling_down``: it failed, and is tried again when the request has grown.
"""


class PreparedInput(msgspec.Struct, frozen=True, gc=False):
    """One input of a model call.

    Attributes:
        payload: a message as JSON bytes: a row's own, or ``{"role": "user", "content": …}``.
        tokens: what it is estimated to cost. kind: what it is.
        source: the row that it shows; ``None`` for what is no row.
        content: of a row that is kept as content; its payload is the reference, to be resolved before it is sent.
    """

    payload: bytes
    tokens: int
    kind: InputKind
    source: SourceRef | None = None
    content: ContentEntry | None = None


class ContextSection(msgspec.Struct, frozen=True):
    """Neighbouring inputs of one kind.

    Attributes:
        kind: theirs. inputs: how many. tokens: of all. first, last: of the rows among them.
    """

    kind: InputKind
    inputs: int
    tokens: int
    first: int | None = None
    last: int | None = None


class ContextObservation(msgspec.Struct, frozen=True):
    """How a request was prepared. For inspectors; it describes this preparation, not what a strategy keeps.

    Attributes:
        session, strategy: names; ``None`` where the session has no strategy.
        status: what came of it. note: more of it, in words.
        window: tokens of the model's window, ``None`` unknown. trigger: tokens at which it is compacted.
        tokens: of the request by laser's estimate, ``reserved`` included. full_tokens: of the request with every row.
        reserved: tokens that the caller keeps for what is no input. over_window: it does not fit.
        rows: of the transcript. covered: rows that a summary stands for.
        sections: of the inputs, in their order.
    """

    session: str
    strategy: str | None
    status: Status
    note: str
    window: int | None
    trigger: int | None
    tokens: int
    full_tokens: int
    reserved: int
    over_window: bool
    rows: int
    covered: int
    sections: tuple[ContextSection, ...]


class PreparedRequest(msgspec.Struct, frozen=True):
    """A prepared request.

    Attributes:
        inputs: in the order in which a model gets them. observation: how they came about.
    """

    inputs: tuple[PreparedInput, ...]
    observation: ContextObservation


def said(text: str, kind: InputKind, cost: int | None = None) -> PreparedInput:
    """An input that says something in a user's place.

    Args:
        cost: tokens; ``None`` for the default estimate.
    """
    payload = orjson.dumps({"role": "user", "content": text})
    return PreparedInput(payload, message_cost(payload) if cost is None else cost, kind)


def shown(row: Row, kind: InputKind) -> PreparedInput:
    """An input that is a row."""
    return PreparedInput(row.payload, row.tokens, kind, row.ref, row.content)


def sections_of(inputs: Iterable[PreparedInput]) -> tuple[ContextSection, ...]:
    """The sections of a request."""
    return tuple(_section(list(group)) for _, group in groupby(inputs, attrgetter("kind")))


def _section(inputs: list[PreparedInput]) -> ContextSection:
    seqs = [one.source.seq for one in inputs if one.source is not None]
    tokens = sum([one.tokens for one in inputs])
    return ContextSection(inputs[0].kind, len(inputs), tokens, min(seqs, default=None), max(seqs, default=None))
