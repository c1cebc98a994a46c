"""State from a snapshot: start from the latest one, fold what came after it, save now and then."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec

from laser.context.connection import Connection
from laser.context.gathering import gather
from laser.context.replay import Replay
from laser.context.snapshots import check_version, resume_point, snapshot_of_spans
from laser.context.spans import Span, look_up, spans_from_checkpoint, spans_full
from laser.context.state import Fold, FoldProgress, check_fold, fold_replay, fresh
from laser.context.stores import SnapshotBackend, Store, as_store
from laser.errors import CodecError, InvalidError, StaleCheckpointError
from laser.model.checks import check_name, check_topics
from laser.model.snapshot import Snapshot
from laser.model.topics import TopicInfo
from laser.model.window import Match
from laser.ports.clock import Clock, SystemClock
from laser.wire.state_json import decode_state

__all__ = ["AutoSave", "fold_with_store"]

_logger = logging.getLogger("laser.context")

_DEFAULT_VERSION: Final = 1
_LOOK_EVERY: Final = 64
# A larger state is parsed in a worker thread: it would hold up the event loop for a millisecond and more.
_INLINE_BYTES: Final = 128 * 1024


class AutoSave(msgspec.Struct, frozen=True):
    """When ``state_with`` saves by itself.

    Args:
        every: messages folded since the last save, 1 or more; ``None`` does not count them.
        seconds: time since the last save, above 0; ``None`` does not look at it. Looked at every 64 messages.
        fold, version: the fold's name and version for a store of your own that does not say them.

    Raises:
        InvalidError: neither ``every`` nor ``seconds``, or a bad value.
    """

    every: int | None = None
    seconds: float | None = None
    fold: str | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        if self.every is None and self.seconds is None:
            raise InvalidError("every: give every or seconds", argument="every")
        if self.version is not None:
            check_version(self.version)
        if self.every is not None and (type(self.every) is not int or self.every < 1):
            raise InvalidError(f"every: {self.every!r} is not a whole number from 1", argument="every")
        seconds = self.seconds
        real = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if seconds is not None and not (real and seconds > 0):
            raise InvalidError(f"seconds: {seconds!r} is not a number above 0", argument="seconds")


async def fold_with_store(
    laser: Connection,
    conversation: str,
    store: Store | SnapshotBackend,
    topics: Sequence[str],
    init: Any,
    fold: Fold[Any],
    save: AutoSave | None = None,
    progress: Callable[[FoldProgress], None] | None = None,
    clock: Clock | None = None,
) -> Any:
    """Folds from the store's latest snapshot on; see ``ContextScope.state_with``."""
    names = check_topics(topics)
    check_fold(fold)
    keeper = as_store(store)
    if save is not None and not isinstance(save, AutoSave):
        raise InvalidError(
            f"save: expected AutoSave(every=…) or AutoSave(seconds=…), got {type(save).__name__}", argument="save"
        )
    log, stream = laser.open_log(), laser.stream
    # At once: on a remote log the waits add up otherwise.
    looks: list[Callable[[], Awaitable[Any]]] = [
        partial(look_up, log, stream, names),
        partial(keeper.latest, conversation),
    ]
    infos, snapshot = await gather(looks)
    state, start = await _start(snapshot, conversation, keeper, save)
    if start is None:
        state = fresh(init)
        spans = spans_full(names, infos)
    else:
        try:
            spans = _spans_after(start, names, infos, stream)
        except StaleCheckpointError:
            # The snapshot may be newer than the look at the log.
            spans = _spans_after(start, names, await look_up(log, stream, names), stream)
    replay = Replay(log, stream, Match(conversation), spans)
    saver = None if save is None else _Saver(laser, conversation, keeper, save, replay, clock or SystemClock())
    if saver is None:
        state, _ = await fold_replay(replay, state, fold, progress)
    else:
        state, _ = await fold_replay(replay, state, fold, progress, saver.after_batch, saver.batch_limit)
    return state


def _spans_after(snapshot: Snapshot, topics: Sequence[str], infos: Mapping[str, TopicInfo], stream: str) -> list[Span]:
    return spans_from_checkpoint(topics, infos, resume_point(snapshot, topics, infos, stream))


async def _start(
    snapshot: Snapshot | None, conversation: str, store: Store, save: AutoSave | None
) -> tuple[Any, Snapshot | None]:
    """The state to start from and its snapshot; ``None`` for a fold from the start."""
    if snapshot is None:
        return None, None
    if snapshot.conversation != conversation:
        raise InvalidError(
            f"store: its latest snapshot is of conversation {snapshot.conversation}, not {conversation}",
            argument="store",
        )
    wanted = store.version or (save.version if save is not None else None) or _DEFAULT_VERSION
    fold = store.fold or (save.fold if save is not None else None)
    if snapshot.version != wanted or (fold is not None and snapshot.fold != fold):
        _logger.warning(
            "snapshot of %s is of fold %r version %d, wanted is %r version %d: folding from the start",
            conversation,
            snapshot.fold,
            snapshot.version,
            fold or snapshot.fold,
            wanted,
        )
        return None, None
    try:
        if len(snapshot.state) < _INLINE_BYTES:
            return decode_state(snapshot.state), snapshot
        return await anyio.to_thread.run_sync(decode_state, snapshot.state), snapshot
    except CodecError as error:
        _logger.warning("snapshot of %s has an unreadable state, folding from the start: %s", conversation, error)
        return None, None


class _Saver:
    """Saves between the batches of a fold, when it is due."""

    def __init__(
        self, laser: Connection, conversation: str, store: Store, save: AutoSave, replay: Replay, clock: Clock
    ) -> None:
        name = store.fold or save.fold
        if name is None:
            raise InvalidError("save: the store does not name its fold; give AutoSave(fold=…)", argument="save")
        self._laser = laser
        self._conversation = conversation
        self._store = store
        self._save = save
        self._replay = replay
        self._clock = clock
        self._name = check_name(name, "fold")
        self._version = store.version or save.version or _DEFAULT_VERSION
        self._last_ids: dict[tuple[str, int], tuple[int, int | None]] = {}
        self._saved = 0
        self._saved_at = anyio.current_time()

    @property
    def batch_limit(self) -> int:
        """Messages between two looks at whether it is due."""
        every = self._save.every
        if self._save.seconds is None:
            assert every is not None
            return every
        return _LOOK_EVERY if every is None else min(every, _LOOK_EVERY)

    async def after_batch(self, state: Any, folded: int) -> None:
        if self._due(folded):
            await self._keep(state, folded)

    def _due(self, folded: int) -> bool:
        every, seconds = self._save.every, self._save.seconds
        if every is not None and folded - self._saved >= every:
            return True
        return seconds is not None and folded > self._saved and anyio.current_time() - self._saved_at >= seconds

    async def _keep(self, state: Any, folded: int) -> None:
        snapshot = await snapshot_of_spans(
            self._laser.open_log(),
            self._laser.stream,
            self._conversation,
            self._name,
            self._version,
            self._replay.positions(),
            state,
            self._clock.now_micros(),
            self._last_ids,
        )
        if snapshot is not None:
            await self._store.save(snapshot)
        # The mark moves only when the snapshot is kept.
        self._saved = folded
        self._saved_at = anyio.current_time()
