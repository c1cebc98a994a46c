"""What is folded, when, and what stays."""

from __future__ import annotations

import json
import re

import pytest

from laser.compaction.inputs import PreparedRequest
from laser.errors import BudgetError, InvalidError, NotFoundError
from laser.testing.compaction_cases.base import WINDOW, CompactionCases, assistant, call, result, system, user
from laser.testing.compaction_checks import kept_prefix, shown_places

__all__ = ["FoldingCases"]


class FoldingCases(CompactionCases):
    """What is expected of every strategy."""

    async def test_below_the_trigger_nothing_changes(self) -> None:
        async with self.desk() as desk:
            await desk.say(system("be brief"))
            await desk.talk(5)
            prepared = await desk.prepare()
            assert prepared.observation.status == "idle"
            assert [one.payload for one in prepared.inputs] == [one.payload for one in await desk.transcript()]
            assert all(one.source is not None and one.source.session == desk.session for one in prepared.inputs)
            assert desk.summarizer.asked == 0

    async def test_without_a_window_nothing_is_compacted_by_itself(self) -> None:
        async with self.desk() as desk:
            await desk.talk(40)
            prepared = await desk.prepare(None)
            assert prepared.observation.status == "no_window"
            assert "no window is known" in prepared.observation.note
            assert len(prepared.inputs) == 160
            assert (await desk.compaction.compact()).status == "compacted"
            assert (await desk.prepare(None)).observation.covered > 0

    async def test_a_long_session_stays_within_its_window(self) -> None:
        async with self.desk() as desk:
            await desk.say(system("be brief"))
            compactions = 0
            before: PreparedRequest | None = None
            for turn in range(60):
                await desk.talk(1, first=turn)
                prepared = await desk.prepare()
                if prepared.observation.status == "compacted":
                    compactions += 1
                    low = prepared.observation.tokens
                    assert low < WINDOW * 60 // 100, "a compaction goes down to a low-water mark"
                elif before is not None:
                    # Then it holds: the request only grows at its end.
                    assert kept_prefix(before, prepared) == sum(len(one.payload) for one in before.inputs)
                before = prepared
            assert 2 <= compactions <= 15
            assert [step.kind for step in await desk.compaction.steps()].count("stale") == 0

    async def test_every_folded_message_was_summarised_and_is_reachable(self) -> None:
        async with self.desk() as desk:
            for turn in range(0, 80, 4):
                await desk.talk(4, first=turn)
                await desk.prepare()
            prepared = await desk.prepare()
            transcript = await desk.transcript()
            shown = set(shown_places(prepared, transcript))
            folded = [place for place in range(len(transcript)) if place not in shown]
            assert len(folded) > 100
            seen = desk.summarizer.seen
            if self.summarizes:
                for place in folded:
                    word = json.loads(transcript[place].payload).get("content") or f"lookup-{place // 4}"
                    found = re.findall(rf"\b{word.split(' ')[0]}\b", seen)
                    assert len(found) == 1, word[:20]
            reached = await desk.reachable()
            assert list(reached) == [message.offset for message in transcript]
            for place in folded[:: len(folded) // 20]:
                word = f"found-{place // 4}"
                hits = (await desk.compaction.lcm.grep(f"{word} ", limit=5)).hits
                assert [hit.seq for hit in hits if hit.seq is not None] == [place // 4 * 4 + 2]

    async def test_only_up_to_the_cut(self) -> None:
        async with self.desk() as desk:
            await desk.talk(12)
            assert (await desk.compaction.compact(window=100_000)).status == "compacted"
            prepared = await desk.prepare(100_000)
            shown = shown_places(prepared, await desk.transcript())
            assert shown == list(range(shown[0], 48))
            assert 0 < shown[0] < 48
            # Once more right away: less is left, never everything.
            await desk.compaction.compact(window=100_000)
            prepared = await desk.prepare(100_000)
            assert shown_places(prepared, await desk.transcript())[-4:] == [44, 45, 46, 47]

    async def test_instructions_are_never_folded(self) -> None:
        async with self.desk() as desk:
            await desk.say(system("first rule"))
            await desk.talk(20)
            await desk.say(b'{"role":"developer","content":"second rule"}')
            await desk.talk(40, first=20)
            prepared = await desk.prepare(context=[system("from outside")])
            assert prepared.observation.status == "compacted"
            assert [one.kind for one in prepared.inputs[:3]] == ["context", "instruction", "instruction"]
            assert [json.loads(one.payload)["content"] for one in prepared.inputs[:3]] == [
                "from outside",
                "first rule",
                "second rule",
            ]
            assert prepared.inputs[0].source is None
            assert "rule" not in desk.summarizer.seen

    async def test_the_newest_words_of_the_user_come_last_and_as_they_are(self) -> None:
        async with self.desk() as desk:
            await desk.talk(60)
            newest = user("do it again, but only now")
            await desk.say(newest)
            prepared = await desk.prepare()
            assert prepared.observation.status == "compacted"
            assert prepared.inputs[-1].payload == newest

    async def test_a_session_without_a_user(self) -> None:
        async with self.desk() as desk:
            await desk.say(*(assistant(f"thought {number} " + "x" * 400) for number in range(80)))
            prepared = await desk.prepare(over=True)
            assert prepared.observation.status == "nothing_to_fold"
            assert prepared.observation.over_window
            assert len(prepared.inputs) == 80

    @pytest.mark.parametrize("interim", [None, {"interim": True}, {"status": "in_progress"}])
    async def test_open_calls_are_not_folded(self, interim: dict[str, object] | None) -> None:
        async with self.desk() as desk:
            await desk.say(user("ask for approval"), call("open-1"))
            if interim is not None:
                await desk.say(result("open-1", "waiting for a person", **interim))
            await desk.talk(60)
            prepared = await desk.prepare()
            transcript = await desk.transcript()
            first = 2 if interim is None else 3
            assert prepared.observation.status == "compacted"
            assert shown_places(prepared, transcript)[:first] == list(range(first))
            assert {one.kind for one in prepared.inputs if one.source and one.source.seq < first} == {"held"}
            await desk.say(result("open-1", "approved"), assistant("thank you"))
            shown = shown_places(await desk.prepare(), await desk.transcript())
            assert shown[:first] == list(range(first))
            # Once it is answered, and the answer is old, both go.
            await desk.talk(60, first=60)
            assert shown_places(await desk.prepare(), await desk.transcript())[0] > first

    async def test_a_pair_with_words_of_the_user_between_stays_whole(self) -> None:
        async with self.desk() as desk:
            for turn in range(30):
                await desk.say(user(f"go {turn} " + "x" * 200), call(f"p{turn}"), user(f"hurry {turn}"))
                await desk.say(result(f"p{turn}", "y" * 200), assistant(f"done {turn}"))
                await desk.prepare()
            assert (await desk.prepare()).observation.covered > 50

    async def test_right_after_a_call_it_waits(self) -> None:
        async with self.desk(trigger_percent=50) as desk:
            await desk.talk(10)
            await desk.say(user("now look"), call("late"))
            tokens = (await desk.compaction.observe()).tokens
            prepared = await desk.prepare(tokens * 100 // 70)
            assert prepared.observation.status == "deferred"
            assert desk.summarizer.asked == 0
            await desk.say(result("late", "seen"))
            assert (await desk.prepare(tokens * 100 // 70)).observation.status == "compacted"

    async def test_a_strategy_can_be_none(self) -> None:
        async with self.desk() as desk:
            name = await desk.compaction.strategy()
            assert name == self.make_strategy().name
            await desk.compaction.switch(None)
            await desk.talk(60)
            prepared = await desk.prepare(over=True)
            assert (prepared.observation.strategy, prepared.observation.status) == (None, "none")
            assert len(prepared.inputs) == 240
            assert await desk.open().strategy() is None
            with pytest.raises(InvalidError):
                await desk.compaction.compact()
            with pytest.raises(NotFoundError):
                await desk.compaction.switch("no such strategy")
            observation = await desk.compaction.compact(name, window=WINDOW)
            assert (observation.strategy, observation.status) == (name, "compacted")
            assert await desk.open().strategy() == name

    @pytest.mark.parametrize(
        ("window", "reserve"), [(0, 0), (-1, 0), (1.5, 0), (True, 0), (100, -1), (100, 100), (100, 101), (100, 0.5)]
    )
    async def test_bad_budgets_are_refused(self, window: int, reserve: int) -> None:
        async with self.desk() as desk:
            with pytest.raises(BudgetError):
                await desk.compaction.prepare(window=window, reserve=reserve)

    async def test_what_is_reserved_counts(self) -> None:
        async with self.desk() as desk:
            await desk.talk(12)
            assert (await desk.prepare()).observation.status == "idle"
            prepared = await desk.prepare(reserve=WINDOW * 60 // 100)
            assert prepared.observation.status == "compacted"
            assert prepared.observation.reserved == WINDOW * 60 // 100
