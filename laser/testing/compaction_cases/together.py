"""Several at once on one session: writers, processes, and one who clears."""

from __future__ import annotations

from functools import partial

import anyio

from laser.model.ids import new_conversation_id
from laser.model.topics import AgentTopic
from laser.testing.compaction_cases.base import WINDOW, CompactionCases, user
from laser.testing.compaction_checks import check_request, shown_places
from laser.testing.summarizers import NotingSummarizer

__all__ = ["TogetherCases"]


class TogetherCases(CompactionCases):
    """What is expected of every strategy."""

    async def test_what_is_appended_during_a_summary_is_shown(self) -> None:
        self.needs_summaries()
        async with self.desk() as desk:
            await desk.talk(60)
            late = 0

            async def append() -> None:
                nonlocal late
                late += 1
                await desk.say(user(f"meanwhile {late}"))

            desk.summarizer.during = append
            prepared = await desk.prepare()
            assert late > 0
            transcript = await desk.transcript()
            assert len(transcript) == 240 + late
            assert shown_places(prepared, transcript)[-late:] == list(range(240, 240 + late))

    async def test_two_processes_compact_one_session(self) -> None:
        self.needs_summaries()
        async with self.desk() as desk:
            await desk.talk(60)
            other_summarizer = NotingSummarizer()
            other = desk.open(other_summarizer)
            overtaken = False

            async def overtake() -> None:
                nonlocal overtaken
                if not overtaken:
                    overtaken = True
                    await other.compact(window=WINDOW)

            desk.summarizer.during = overtake
            await desk.compaction.compact(window=WINDOW)
            assert "stale" in {step.kind for step in await desk.compaction.steps()}
            found = [await one.prepare(window=WINDOW) for one in (desk.compaction, other, desk.open())]
            assert found[0].inputs == found[1].inputs == found[2].inputs
            check_request(found[0], await desk.transcript())
            assert found[0].observation.covered > 0
            # And on they go, each on top of what counts.
            desk.summarizer.during = None
            for turn in range(60, 140, 8):
                await desk.talk(8, first=turn)
                for one in (desk.compaction, other):
                    check_request(await one.prepare(window=WINDOW), await desk.transcript())

    async def test_many_handles_at_once(self) -> None:
        async with self.desk() as desk:
            await desk.talk(60)
            handles = [desk.open() for _ in range(4)]
            async with anyio.create_task_group() as tasks:
                for handle in handles:
                    tasks.start_soon(partial(handle.prepare, window=WINDOW))
            found = [await handle.prepare(window=WINDOW) for handle in handles]
            assert len({one.inputs for one in found}) == 1
            check_request(found[0], await desk.transcript())

    async def test_one_handle_from_many_tasks(self) -> None:
        async with self.desk() as desk:
            await desk.talk(60)
            async with anyio.create_task_group() as tasks:
                for _ in range(6):
                    tasks.start_soon(partial(desk.compaction.prepare, window=WINDOW))
            kinds = [step.kind for step in await desk.compaction.steps()]
            assert "stale" not in kinds
            check_request(await desk.compaction.prepare(window=WINDOW), await desk.transcript())

    async def test_a_cleared_transcript_is_not_revived(self) -> None:
        self.needs_summaries()
        async with self.desk() as desk:
            await desk.talk(60)

            async def clear() -> None:
                desk.summarizer.during = None
                await desk.laser.open_log().purge(desk.laser.stream, AgentTopic.Sessions)
                await desk.talk(3, first=1_000)

            desk.summarizer.during = clear
            await desk.compaction.compact(window=WINDOW)
            for handle in (desk.compaction, desk.open()):
                prepared = await handle.prepare(window=WINDOW)
                assert prepared.observation.covered == 0
                assert len(prepared.inputs) == 12
                assert all(one.source is not None for one in prepared.inputs)

    async def test_another_session_sees_nothing_of_it(self) -> None:
        async with self.desk() as desk:
            await desk.talk(60)
            await desk.prepare()
            other = desk.laser.compaction(new_conversation_id(), registry=desk.registry, summarizer=desk.summarizer)
            assert (await other.prepare(window=WINDOW)).inputs == ()
            assert (await other.lcm.list()).folds == ()
            assert (await other.lcm.grep("question")).hits == ()
            assert (await other.lcm.expand()).rows == ()
            assert await other.steps() == []
