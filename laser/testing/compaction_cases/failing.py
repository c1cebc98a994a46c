"""Summarizers that fail, are late, or lie: nothing is lost, the error is typed, and a later try works."""

from __future__ import annotations

import pytest

from laser.compaction.inputs import PreparedRequest
from laser.errors import CompactionError, LaserError, SummaryError
from laser.ports.summarizer import Summary, SummaryRequest
from laser.testing.compaction_cases.base import WINDOW, CompactionCases, texts
from laser.testing.compaction_checks import check_request
from laser.testing.stepping import cancel_at
from laser.testing.summarizers import FAULTS

__all__ = ["FailingCases"]

_STEPS = 300


class FailingCases(CompactionCases):
    """What is expected of every strategy that asks a summarizer."""

    @pytest.mark.parametrize("fault", FAULTS)
    async def test_a_failed_summary_costs_nothing(self, fault: str) -> None:
        self.needs_summaries()
        async with self.desk(timeout=0.05) as desk:
            await desk.talk(30)
            before, transcript = (await desk.prepare(100_000)).inputs, texts(await desk.transcript())
            desk.summarizer.fault = FAULTS[fault]
            with pytest.raises(SummaryError) as caught:
                await desk.compaction.compact(window=WINDOW)
            assert caught.value.retryable
            assert "saved" not in {step.kind for step in await desk.compaction.steps()}
            assert (await desk.prepare(100_000)).inputs == before
            assert texts(await desk.transcript()) == transcript
            desk.summarizer.fault = None
            assert (await desk.compaction.compact(window=WINDOW)).status == "compacted"
            after = await desk.prepare()
            assert after.observation.covered > 0
            assert after.observation.tokens < after.observation.full_tokens

    async def test_a_failure_within_the_window_is_told_and_cools_down(self) -> None:
        self.needs_summaries()
        async with self.desk(trigger_percent=60) as desk:
            await desk.talk(10)
            tokens = (await desk.compaction.observe()).tokens
            window = tokens * 100 // 70
            desk.summarizer.fault = FAULTS["raises"]
            first = await desk.prepare(window)
            assert first.observation.status == "failed"
            assert "ValueError" in first.observation.note
            assert "out of reach" not in first.observation.note, "an error's text may quote what was sent"
            asked = desk.summarizer.asked
            again = await desk.prepare(window)
            assert again.observation.status == "cooling_down"
            assert again.inputs == first.inputs
            # Another process knows of it too.
            assert (await desk.open().prepare(window=window)).observation.status == "cooling_down"
            assert desk.summarizer.asked == asked
            # Asked for, or after the request has grown, it is tried again.
            with pytest.raises(SummaryError):
                await desk.compaction.compact(window=window)
            desk.summarizer.fault = None
            await desk.talk(1, first=10)
            assert (await desk.prepare(window)).observation.status == "compacted"

    async def test_a_failure_over_the_window_is_raised(self) -> None:
        self.needs_summaries()
        async with self.desk() as desk:
            await desk.talk(60)
            desk.summarizer.fault = FAULTS["empty"]
            for _ in range(2):
                with pytest.raises(SummaryError):
                    await desk.compaction.prepare(window=WINDOW)
            desk.summarizer.fault = None
            assert (await desk.prepare()).observation.status == "compacted"

    async def test_a_later_request_that_fails_leaves_what_was_there(self) -> None:
        self.needs_summaries()
        async with self.desk() as desk:
            await desk.talk(120)

            async def second_fails(request: SummaryRequest) -> Summary:
                if desk.summarizer.asked > 1:
                    raise OSError("gone")
                desk.summarizer.requests.append(request)
                return Summary("The first part was about question 0.")

            desk.summarizer.fault = second_fails
            with pytest.raises(SummaryError):
                await desk.compaction.compact(window=WINDOW)
            check_request(await desk.compaction.prepare(window=100_000), await desk.transcript())
            first = desk.summarizer.requests[0]
            desk.summarizer.fault = None
            desk.summarizer.requests.clear()
            await desk.compaction.compact(window=WINDOW)
            check_request(await desk.compaction.prepare(window=100_000), await desk.transcript())
            done = (await desk.compaction.observe(window=100_000)).covered
            # What succeeded stays, or the retry begins with the very same request: nothing of the failed try is left.
            assert done > 0
            assert desk.summarizer.requests[0] == first or first.text not in desk.summarizer.seen

    async def test_cancelled_at_every_await(self) -> None:
        self.needs_summaries()
        outcomes: set[bool] = set()
        for number in range(1, _STEPS):
            async with self.desk() as desk:
                await desk.talk(9)
                transcript = texts(await desk.transcript())
                cancelled = await cancel_at(number, lambda: desk.compaction.compact(window=WINDOW))
                found: list[PreparedRequest] = []
                for handle in (desk.compaction, desk.open()):
                    found.append(await handle.prepare(window=100_000))
                    check_request(found[-1], await desk.transcript())
                assert found[0].inputs == found[1].inputs, "the cancelled handle sees something else than a new one"
                assert texts(await desk.transcript()) == transcript
                outcomes.add(found[0].observation.covered > 0)
                if not cancelled:
                    break
                await desk.compaction.compact(window=WINDOW)
                await desk.prepare()
        else:
            raise AssertionError(f"a compaction that waits more than {_STEPS} times")
        assert outcomes == {False, True}

    async def test_nothing_to_summarise_is_no_error(self) -> None:
        async with self.desk() as desk:
            assert (await desk.prepare()).inputs == ()
            assert (await desk.compaction.compact(window=WINDOW)).status == "nothing_to_fold"
            await desk.talk(1)
            assert (await desk.compaction.compact(window=WINDOW)).status == "nothing_to_fold"
            assert desk.summarizer.asked == 0
            assert len((await desk.prepare()).inputs) == 4

    async def test_what_cannot_be_made_smaller_is_not_tried(self) -> None:
        async with self.desk() as desk:
            await desk.talk(20)
            context = [b'{"role":"system","content":"' + b"x" * 4 * WINDOW + b'"}']
            with pytest.raises(CompactionError) as caught:
                await desk.compaction.prepare(window=WINDOW, context=context)
            assert caught.value.window == WINDOW
            assert caught.value.tokens > WINDOW
            with pytest.raises(LaserError):
                await desk.compaction.prepare(window=WINDOW, context=context)
            assert desk.summarizer.asked == 0

    async def test_summaries_as_long_as_their_source_do_not_burn_credits(self) -> None:
        self.needs_summaries()
        async with self.desk() as desk:
            await desk.talk(60)
            desk.summarizer.length = 6 * WINDOW
            failed, asked = False, 0
            for turn in range(6):
                try:
                    check_request(await desk.compaction.prepare(window=WINDOW), await desk.transcript(), over=True)
                except LaserError:
                    failed = True
                if turn == 0:
                    asked = desk.summarizer.asked
            # What is still over the window may be tried once more at each call, never in a loop.
            assert desk.summarizer.asked <= 6 * asked
            if not failed:
                assert desk.summarizer.asked == asked
