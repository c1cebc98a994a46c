"""Bugs planted in strategies: the shipped suite finds each of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest

from laser.compaction import planning
from laser.compaction.inputs import PreparedInput
from laser.compaction.lcm import nodes
from laser.compaction.lcm import strategy as lcm_strategy
from laser.compaction.rolling import Rolling
from laser.compaction.strategy import CompactionStrategy, CompactionWork
from laser.compaction.units import Unit
from laser.compaction.view import CompactionView
from laser.errors import SummaryError
from laser.ports.summarizer import Summary, SummaryRequest
from laser.testing import CompactionConformance


def run(make: Callable[..., CompactionStrategy], *names: str) -> dict[str, BaseException]:
    """Runs cases of the suite over a strategy, and gives what they raised."""

    class Suite(CompactionConformance):
        def make_strategy(self, **limits: int) -> CompactionStrategy:
            return make(**limits)

    failed: dict[str, BaseException] = {}
    for name in names:
        method = getattr(Suite(), name)
        arguments = {"fault": "empty", "odd": b"", "interim": None, "shape": "completions", "newest": False}
        wanted = {key: arguments[key] for key in inspect.signature(method).parameters}
        try:
            anyio.run(lambda method=method, wanted=wanted: method(**wanted))
        except BaseException as error:
            failed[name] = error
    return failed


LONG = "test_a_long_session_stays_within_its_window"
REACH = "test_every_folded_message_was_summarised_and_is_reachable"
FAULT = "test_a_failed_summary_costs_nothing"


def test_without_a_bug_they_pass() -> None:
    for make in (Rolling, lcm_strategy.Lcm):
        assert run(make, LONG, REACH, FAULT, "test_two_processes_compact_one_session") == {}


class ShowsBoth(Rolling):
    """Shows a row that it has summarised too."""

    async def project(self, view: CompactionView) -> tuple[list[PreparedInput], int]:
        inputs, covered = await super().project(view)
        row = view.history.rows[0]
        both = [PreparedInput(row.payload, row.tokens, "held", row.ref)] if covered else []
        return both + inputs, covered


class LosesTheFirst(Rolling):
    """Leaves out one row that no summary stands for."""

    async def project(self, view: CompactionView) -> tuple[list[PreparedInput], int]:
        inputs, covered = await super().project(view)
        place = next((place for place, one in enumerate(inputs) if one.source is not None), None)
        if covered and place is not None:
            del inputs[place]
        return inputs, covered


class Restless(Rolling):
    """Says something else at each look."""

    looks = 0

    async def project(self, view: CompactionView) -> tuple[list[PreparedInput], int]:
        inputs, covered = await super().project(view)
        self.looks += 1
        for place, one in enumerate(inputs):
            if one.kind == "summary":
                inputs[place] = msgspec.structs.replace(one, payload=one.payload.replace(b"laser", b"L%d" % self.looks))
        return inputs, covered


class BelievesAnything(Rolling):
    """Takes an error for a summary."""

    async def compact(self, view: CompactionView, work: CompactionWork, *, force: bool) -> bool:
        class Credulous:
            save, report = staticmethod(work.save), staticmethod(work.report)

            async def ask(self, request: SummaryRequest, *, redacted: bool = False) -> Summary:
                try:
                    return await work.ask(request, redacted=redacted)
                except SummaryError as error:
                    return Summary(str(error))

        return await super().compact(view, Credulous(), force=force)


class NeverEnough(Rolling):
    """Keeps a tail that fills the window."""

    async def compact(self, view: CompactionView, work: CompactionWork, *, force: bool) -> bool:
        view.__dict__["fixed_tokens"] = -10_000_000
        view.limits = msgspec.structs.replace(view.limits, tail_percent=89)
        return await super().compact(view, work, force=force)


@pytest.mark.parametrize(
    ("planted", "case", "said"),
    [
        (ShowsBoth, LONG, "a row is"),
        (LosesTheFirst, LONG, "a row is"),
        (Restless, LONG, ""),
        (BelievesAnything, FAULT, "DID NOT RAISE"),
        (NeverEnough, LONG, "low-water"),
    ],
)
def test_planted_in_a_strategy(planted: Callable[..., CompactionStrategy], case: str, said: str) -> None:
    failed = run(planted, case)
    assert isinstance(failed[case], AssertionError | pytest.fail.Exception), failed
    assert said in str(failed[case])


def test_planted_pairs_are_not_kept_together(monkeypatch: pytest.MonkeyPatch) -> None:
    real = planning.plan_eviction

    def split(history: Any, *rest: Any) -> Any:
        units = tuple(Unit(one.start, one.stop, one.tokens, number) for number, one in enumerate(history.units))
        return real(msgspec.structs.replace(history, units=units), *rest)

    for module in ("laser.compaction.rolling", "laser.compaction.lcm.strategy"):
        monkeypatch.setattr(f"{module}.plan_eviction", split)
    for make in (Rolling, lcm_strategy.Lcm):
        assert "test_open_calls_are_not_folded" in run(make, "test_open_calls_are_not_folded")


def test_planted_stale_records_count(monkeypatch: pytest.MonkeyPatch) -> None:
    from laser.compaction.events import Saved
    from laser.compaction.saved import SavedState

    real = SavedState._apply

    def apply(self: SavedState, event: Any, at_micros: int) -> bool:
        if isinstance(event, Saved):
            event = msgspec.structs.replace(event, base=self.head(event.strategy))
        return real(self, event, at_micros)

    monkeypatch.setattr(SavedState, "_apply", apply)
    name = "test_two_processes_compact_one_session"
    for make in (Rolling, lcm_strategy.Lcm):
        assert name in run(make, name)


def test_planted_chunks_overwrite_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lcm_strategy._chunks

    def wrong(*arguments: Any) -> Any:
        chunks = real(*arguments)
        return [*chunks[:-1], chunks[0]] if len(chunks) > 1 else chunks

    monkeypatch.setattr(lcm_strategy, "_chunks", wrong)
    assert REACH in run(lcm_strategy.Lcm, REACH)


def test_planted_the_source_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "_fits", lambda *_: True)
    name = "test_a_cleared_transcript_is_not_revived"
    assert name in run(lcm_strategy.Lcm, name)


def test_planted_redaction_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("summarizing", "rolling", "work"):
        monkeypatch.setattr(f"laser.compaction.{module}.redact", lambda text: text)
    name = "test_secrets_are_not_sent"
    assert name in run(Rolling, name)
