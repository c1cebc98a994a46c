"""Runs in detail: what went in, what each turn gave, and the answer in full, whatever the context holds by now."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laser.errors import InvalidError, NotFoundError
from laser.model.messages import ContextMessage
from laser.session.active.entries import NewEntry
from laser.session.active.events import Event, Inherited, RunFinished, RunStarted, Steered, TurnFinished, TurnStarted
from laser.session.active.reading import ActiveLog

__all__ = ["RunDetail", "TurnDetail", "read_run", "read_runs"]


class TurnDetail(msgspec.Struct, frozen=True):
    """A turn.

    Attributes:
        id: its name. state: ``running``, ``ended``, or ``failed``: then its outputs entered no context.
        steered: input that entered with it. outputs: what the model gave, whole. usage: tokens as the provider counted
            them. started_at_micros, finished_at_micros: by the log's clock, microseconds since 1970 UTC.
    """

    id: str
    started_at_micros: int
    steered: tuple[NewEntry, ...] = ()
    state: str = "running"
    outputs: tuple[NewEntry, ...] = ()
    usage: Mapping[str, int] = {}
    finished_at_micros: int | None = None


class RunDetail(msgspec.Struct, frozen=True):
    """A run.

    Attributes:
        id: its name. state: ``running``, or how it finished. inputs: that it began with.
        turns: in order. output: what it answered in the end, whole; its ``visible()`` are the words in it.
        started_at_micros, finished_at_micros: by the log's clock, microseconds since 1970 UTC.
    """

    id: str
    started_at_micros: int
    inputs: tuple[NewEntry, ...] = ()
    turns: tuple[TurnDetail, ...] = ()
    state: str = "running"
    output: NewEntry | None = None
    finished_at_micros: int | None = None

    @property
    def usage(self) -> dict[str, int]:
        """Tokens as the provider counted them over all turns, by name."""
        total: dict[str, int] = {}
        for turn in self.turns:
            for name, count in turn.usage.items():
                total[name] = total.get(name, 0) + count
        return total


class _Runs:
    """Collects runs from events that changed something."""

    def __init__(self, wanted: str | None) -> None:
        self._wanted = wanted
        self._steered: list[NewEntry] = []
        self._last: str | None = None
        self.found: dict[str, RunDetail] = {}

    def take(self, event: Event, message: ContextMessage, verdict: str | None) -> None:
        if verdict is not None:
            return
        at = message.timestamp_micros
        if isinstance(event, Steered):
            self._steered.append(event.entry)
        elif isinstance(event, RunStarted):
            self._last = event.run
            self._keep(RunDetail(event.run, at, event.inputs))
        elif isinstance(event, TurnStarted):
            steered, self._steered = tuple(self._steered), []
            run = self.found.get(event.run)
            if run is not None:
                self._keep(msgspec.structs.replace(run, turns=(*run.turns, TurnDetail(event.turn, at, steered))))
        elif isinstance(event, TurnFinished):
            self._finish_turn(event, at)
        elif isinstance(event, RunFinished):
            self._finish(event.run, event.state, event.output, at)
        elif isinstance(event, Inherited) and self._last is not None:
            # A fork does not go on with the run that was under way.
            self._finish(self._last, "cancelled", None, at)

    def _keep(self, run: RunDetail) -> None:
        if self._wanted in (None, run.id):
            self.found[run.id] = run

    def _finish_turn(self, event: TurnFinished, at: int) -> None:
        run = self.found.get(event.run)
        if run is None or not run.turns:
            return
        turn = msgspec.structs.replace(
            run.turns[-1],
            state="ended" if event.complete else "failed",
            outputs=event.outputs,
            usage=event.usage,
            finished_at_micros=at,
        )
        self._keep(msgspec.structs.replace(run, turns=(*run.turns[:-1], turn)))

    def _finish(self, name: str, state: str, output: NewEntry | None, at: int) -> None:
        run = self.found.get(name)
        if run is not None and run.state == "running":
            turns = tuple(
                msgspec.structs.replace(turn, state="failed") if turn.state == "running" else turn for turn in run.turns
            )
            self._keep(msgspec.structs.replace(run, state=state, output=output, finished_at_micros=at, turns=turns))


async def read_run(log: ActiveLog, run: str) -> RunDetail:
    """A run in detail; see ``Session.read_run``."""
    if not isinstance(run, str):
        raise InvalidError(
            f"run: expected a run's id, as RunDetail.id gives it, got {type(run).__name__}", argument="run"
        )
    runs = _Runs(run)
    await log.replay(runs.take)
    found = runs.found.get(run)
    if found is None:
        raise NotFoundError(f"run: the session had no run {run!r:.60}")
    return found


async def read_runs(log: ActiveLog, limit: int) -> list[RunDetail]:
    """The newest runs in detail, newest first; see ``Session.runs``."""
    runs = _Runs(None)
    await log.replay(runs.take)
    return list(reversed(runs.found.values()))[:limit]
