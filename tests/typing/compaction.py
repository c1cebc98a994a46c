# pyright: strict
"""Not run: compaction as a user writes it, and the types that every checker must see in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_type

import laser as ls
from laser import models


class Shorter:
    """A summarizer of a user's own, by shape alone."""

    async def summarize(self, request: ls.SummaryRequest) -> ls.Summary:
        return ls.Summary(request.text[: request.max_tokens])


class Newest:
    """A strategy of a user's own, by shape alone."""

    name = "newest"
    limits = ls.CompactionLimits(tail_percent=10)

    async def project(self, view: ls.CompactionView) -> tuple[list[ls.PreparedInput], int]:
        assert_type(view.prior(view.history.rows), ls.Prior)
        return list(view.history.inputs), 0

    async def compact(self, view: ls.CompactionView, work: ls.CompactionWork, *, force: bool) -> bool:
        assert_type(await work.save({"kept": 1}), ls.CompactionView | None)
        return False


class NoFolds:
    """A provider of stored folds."""

    owner = "newest"

    def folds(self, view: object, history: Sequence[object]) -> Iterable[ls.StoredFold]:
        return ()


def says(progress: ls.CompactionProgress) -> None:
    assert_type(progress.done, int)


async def compacts(laser: ls.Laser, session: ls.Session) -> None:
    strategy: ls.CompactionStrategy = Newest()
    provider: ls.FoldProvider = NoFolds()
    registry = ls.StrategyRegistry([strategy, ls.Rolling(), ls.Lcm(window=1_000)], default=None, providers=[provider])
    compaction = laser.compaction(session, summarizer=Shorter(), registry=registry, estimator=len)
    assert_type(compaction, ls.Compaction)
    prepared = await compaction.prepare(window=8_000, reserve=100, context=[b"{}"])
    assert_type(prepared, ls.PreparedRequest)
    assert_type(prepared.inputs[0].source, ls.SourceRef | None)
    assert_type(prepared.observation.sections, tuple[ls.ContextSection, ...])
    assert_type(await compaction.compact("rolling", progress=says), ls.ContextObservation)
    assert_type(await compaction.observe(), ls.ContextObservation)
    assert_type(await compaction.compact(keep_last=20, summary_tokens=500), ls.ContextObservation)
    assert_type(await compaction.coverage(), ls.Coverage)
    assert_type(await compaction.sources(), tuple[ls.PreparedInput, ...])
    assert_type(await compaction.source(ls.SourceRef(session.id, 0)), ls.PreparedInput)
    assert_type(await compaction.strategy(), str | None)
    await compaction.switch(None)
    assert_type(await compaction.steps(), list[ls.CompactionStep])
    assert_type(await compaction.lcm.list(), ls.FoldPage)
    assert_type(await compaction.lcm.describe(1), ls.FoldInfo)
    assert_type(await compaction.lcm.grep("x"), ls.GrepPage)
    assert_type(await compaction.lcm.expand(1), ls.TextPage)
    assert_type(compaction.lcm.tools(), tuple[ls.RecoveryTool, ...])
    assert_type(await compaction.transcript.grep("x"), ls.GrepPage)
    assert_type(await compaction.transcript.read(limit=1), ls.TextPage)
    assert_type(compaction.transcript.tools(), tuple[ls.RecoveryTool, ...])
    drawing: ls.CompactionStrategy = ls.Snapcompact(archive_percent=15, max_frames=20)
    stored: ls.FoldProvider = ls.ArchiveFolds()
    ls.StrategyRegistry([drawing], default="snapcompact", providers=[stored])
    await compaction.prepare(window=8_000, images=True, provider="anthropic")
    compactor: ls.Compactor = ls.strategy_compactor(Shorter(), ls.Lcm(), keep_last=8, progress=says)
    assert_type(await session.compact(compactor), ls.ActiveState)
    assert_type(await ls.copy_nodes(laser, session.id, session.id), int)


async def send(request: models.LoweredRequest) -> Mapping[str, Any]:
    return request.arguments()


def asks() -> ls.Summarizer:
    return ls.ModelSummarizer(send, models.ModelSelection("p", "chat_completions", "m"))
