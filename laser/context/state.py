"""State: a value folded from a conversation's messages."""

from __future__ import annotations

import copy
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import anyio.lowlevel
import msgspec

from laser.context.assembly import assemble
from laser.context.policies import LastN
from laser.context.replay import Replay
from laser.context.spans import Span, look_up, spans_at, spans_from_checkpoint, spans_from_offsets, spans_full
from laser.errors import InvalidError
from laser.model.checkpoint import Checkpoint
from laser.model.checks import check_name, check_offsets, check_topics
from laser.model.messages import ContextMessage, SkippedRecord
from laser.model.window import Match
from laser.ports.log import Log

__all__ = ["Fold", "FoldProgress", "ReplayBound", "fold_replay", "fold_state"]

_logger = logging.getLogger("laser.context")

State = TypeVar("State")
Fold = Callable[[State, ContextMessage], State | Awaitable[State]]
"""From the state so far and the next message to the new state; a plain or an async function."""

# Messages folded between two chances for other tasks to run.
_FOLD_CHUNK: Final = 256


class FoldProgress(msgspec.Struct, frozen=True):
    """How far a fold is.

    Attributes:
        folded: messages folded. read, total: raw records passed, and of the whole range.
        skipped: records that could not be decoded.
    """

    folded: int
    read: int
    total: int
    skipped: int


class ReplayBound(msgspec.Struct, frozen=True):
    """Which part of the log a fold replays: exactly one of the fields is set.

    Attributes:
        last_n: the newest messages of the read window, as in a fetch.
        from_offsets: by topic name, by partition: the first offset; a missing partition is read from its beginning.
        from_checkpoint: what came after it. at: what came before it. full: everything.
    """

    last_n: int | None = None
    from_offsets: Mapping[str, Mapping[int, int]] | None = None
    from_checkpoint: Checkpoint | None = None
    at: Checkpoint | None = None
    full: bool = False

    def check(self) -> None:
        """Refuses no bound, several, or one of a wrong type.

        Raises:
            InvalidError: so it is.
        """
        bounds = ("last_n", "from_offsets", "from_checkpoint", "at")
        given = [name for name in bounds if getattr(self, name) is not None]
        if self.full:
            given.append("full")
        if len(given) != 1:
            raise InvalidError(
                f"bound: give exactly one of last_n, from_offsets, from_checkpoint, at and full=True; got "
                f"{' and '.join(given) or 'none'}",
                argument=given[1] if given else "full",
            )
        if self.last_n is not None:
            LastN(self.last_n)
        if self.from_offsets is not None:
            if not isinstance(self.from_offsets, Mapping):
                raise InvalidError(
                    "from_offsets: expected offsets by topic name and partition, as in {'agent.sessions': {0: 10}}",
                    argument="from_offsets",
                )
            for topic, offsets in self.from_offsets.items():
                check_name(topic, "from_offsets")
                check_offsets(offsets, "from_offsets")
        for name in ("from_checkpoint", "at"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Checkpoint):
                raise InvalidError(f"{name}: expected a Checkpoint, got {type(value).__name__}", argument=name)


async def fold_state(
    log: Log,
    stream: str,
    conversation_id: str,
    topics: Sequence[str],
    init: State,
    fold: Fold[State],
    bound: ReplayBound,
    progress: Callable[[FoldProgress], None] | None = None,
) -> State:
    """Folds the messages of a bound into a state; see ``ContextScope.state``."""
    names = check_topics(topics)
    check_fold(fold)
    bound.check()
    state = fresh(init)
    if bound.last_n is not None:
        messages = await assemble(log, stream, conversation_id, LastN(bound.last_n), topics=names)
        state = await fold_messages(messages, state, fold)
        count, skipped = len(messages), len(messages.skipped)
        _warn(skipped, messages.skipped[:1])
        if progress is not None:
            progress(FoldProgress(count, count + skipped, count + skipped, skipped))
        return state
    spans = await _spans(log, stream, names, bound)
    state, _ = await fold_replay(Replay(log, stream, Match(conversation_id), spans), state, fold, progress)
    return state


async def fold_replay(
    replay: Replay,
    state: State,
    fold: Fold[State],
    progress: Callable[[FoldProgress], None] | None = None,
    after_batch: Callable[[State, int], Awaitable[None]] | None = None,
    batch_limit: int | None = None,
) -> tuple[State, int]:
    """Folds a replay to its end, in constant memory.

    Args:
        after_batch: called between batches with the state and the messages folded so far; everything up to
            ``replay.positions()`` is in that state then. batch_limit: messages of a batch, see ``Replay.next_batch``.

    Returns:
        The state, and how many messages were folded.
    """
    folded = 0
    while (batch := await replay.next_batch(batch_limit)) is not None:
        state = await fold_messages(batch, state, fold)
        folded += len(batch)
        if progress is not None:
            progress(FoldProgress(folded, replay.read, replay.total, replay.skipped_count))
        if after_batch is not None:
            await after_batch(state, folded)
        if batch_limit is not None:
            # Small batches out of one page come without a wait between them.
            await anyio.lowlevel.checkpoint()
    _warn(replay.skipped_count, replay.skipped)
    if progress is not None:
        progress(FoldProgress(folded, replay.total, replay.total, replay.skipped_count))
    return state, folded


async def fold_messages(messages: Sequence[ContextMessage], state: State, fold: Fold[State]) -> State:
    """Folds messages in their order."""
    for count, message in enumerate(messages, 1):
        result: Any = fold(state, message)
        if inspect.isawaitable(result):
            result = await result
        state = result
        if count % _FOLD_CHUNK == 0:
            await anyio.lowlevel.checkpoint()
    return state


def check_fold(fold: object) -> None:
    """Refuses what cannot be called.

    Raises:
        InvalidError: it is no function.
    """
    if not callable(fold):
        raise InvalidError("fold: expected a function from (state, message) to the new state", argument="fold")


def fresh(init: State) -> State:
    """The initial state of one fold: a copy of a container, so that a fold that changes it in place cannot leak into
    the next one; any other value as it is.

    Raises:
        InvalidError: the container cannot be copied.
    """
    if not isinstance(init, dict | list | set | bytearray | deque):
        return init
    try:
        return copy.deepcopy(init)
    except Exception as error:
        # Nested too deep, or something in it that has no copy, such as a lock.
        raise InvalidError(
            f"init: this {type(init).__name__} cannot be copied for the fold, {type(error).__name__}: "
            f"{str(error)[:100]}; begin with a value that copy.deepcopy copies",
            argument="init",
        ) from error


def _warn(count: int, skipped: Sequence[SkippedRecord]) -> None:
    if count:
        first = skipped[0]
        _logger.warning(
            "fold: %d records could not be decoded and were left out, the first at %s %d:%d: %s",
            count,
            first.topic,
            first.partition,
            first.offset,
            first.reason,
        )


async def _spans(log: Log, stream: str, topics: Sequence[str], bound: ReplayBound) -> list[Span]:
    if bound.from_offsets is not None:
        return await spans_from_offsets(log, stream, topics, bound.from_offsets)
    if bound.from_checkpoint is not None:
        return spans_from_checkpoint(topics, await look_up(log, stream, topics), bound.from_checkpoint)
    if bound.at is not None:
        return await spans_at(log, stream, topics, bound.at)
    return spans_full(topics, await look_up(log, stream, topics))
