"""Whoever compacts a session, its prompts and its requests show one history: nothing twice, nothing missing."""

from __future__ import annotations

import contextlib
import json
import random
import re

import pytest

import laser as ls
import laser.prompt as lp
from laser.ports.summarizer import Summary, SummaryRequest
from tests.prompt.making import assistant, calls, result, user, values

pytestmark = pytest.mark.anyio

SESSIONS = ls.AgentTopic.Sessions
RESPONSES = lp.ModelSelection("openai", "openai_responses", "gpt-5")
_WINDOW = 3_000


class Keeper:
    """Keeps the numbers of all messages that it is shown."""

    async def summarize(self, request: SummaryRequest) -> Summary:
        found = re.findall(r"ORD-\d+", f"{request.previous or ''} {request.text}")
        numbers = sorted({int(one.removeprefix("ORD-")) for one in found})
        return Summary("kept " + " ".join(f"ORD-{number}" for number in numbers))


class Talk:
    """A session in which each message has a number of its own."""

    def __init__(self, laser: ls.Laser, scope: ls.ContextScope) -> None:
        self.laser = laser
        self.scope = scope
        self.said: list[str] = []
        self.first = 0
        self.builder = lp.PromptBuilder(
            laser, [lp.History(40_000)], profile=lp.PromptProfile(lp.PromptBudget(60_000, 0))
        )

    async def say(self, turns: int) -> None:
        messages = []
        for _ in range(turns):
            at = self.first + len(self.said)
            text = [f"(ORD-{at + step}) " + "word " * 12 for step in range(4)]
            turn = [
                user(text[0]),
                calls(f"c{at}", arguments=json.dumps(text[1])),
                result(f"c{at}", text[2]),
                assistant(text[3]),
            ]
            messages += [json.dumps(message) for message in turn]
            self.said += [f"(ORD-{at + step})" for step in range(4)]
        await self.scope.append_many(SESSIONS, messages)

    async def check(self) -> lp.BuiltPrompt:
        """Each message stands in the prompt once, or a summary stands for it; and so it is in the request."""
        prompt = await self.builder.build(self.scope)
        request = await self.laser.compaction(self.scope.conversation).preview()
        shown = [value for value in values(prompt) if "laser:" not in json.dumps(value)]
        verbatim = [name for value in shown for name in re.findall(r"\(ORD-\d+\)", json.dumps(value))]
        assert len(verbatim) == len(set(verbatim))
        assert verbatim == [name for name in self.said if name in set(verbatim)]
        rows = [one for one in request.inputs if one.source is not None]
        assert verbatim == [name for one in rows for name in re.findall(r"\(ORD-\d+\)", one.payload.decode())]
        assert prompt.trace.history.summarised == request.observation.covered == len(self.said) - len(verbatim)
        assert prompt.trace.history.messages == len(self.said)
        summaries = [value["content"] for value in values(prompt) if "laser:" in json.dumps(value)]
        if all(isinstance(text, str) for text in summaries):
            words = set(re.findall(r"ORD-\d+", " ".join(summaries)))
            assert {name.strip("()") for name in self.said} - {name.strip("()") for name in verbatim} <= words
        else:
            # Pictures: their words are read by the tools.
            assert len(await self.reachable()) == len(self.said)
        return prompt

    async def reachable(self) -> set[str]:
        tools, after, found = self.laser.compaction(self.scope.conversation).transcript, None, set[str]()
        while True:
            page = await tools.read(after=after, limit=100)
            found.update(name for row in page.rows for name in re.findall(r"\(ORD-\d+\)", row.text))
            if page.next is None:
                return found
            after = page.next


async def test_both_on_one_session(laser: ls.Laser, scope: ls.ContextScope) -> None:
    talk = Talk(laser, scope)
    compactor = lp.SessionCompactor(laser, Keeper())
    compaction = laser.compaction(scope.conversation, summarizer=Keeper())
    await talk.say(12)
    assert await compactor.compact(scope) == lp.Compacted(28, 1, "summary", "rolling")
    await talk.check()
    seen = await compaction.observe()
    assert (seen.strategy, seen.covered, [one.kind for one in seen.sections]) == (
        "rolling",
        28,
        ["summary", "recap", "tail"],
    )
    # It goes on from what the other one made, in both directions.
    assert (await compaction.compact("rolling", keep_last=4)).covered == 44
    assert "kept ORD-0 " in (await talk.check()).text
    await talk.say(12)
    assert await compactor.compact(scope) == lp.Compacted(76, 3, "summary", "rolling")
    assert "kept ORD-0 " in (await talk.check()).text
    assert [step.kind for step in await compaction.steps()] == ["saved", "saved", "saved"]


async def test_the_compactor_works_with_the_strategy_that_was_chosen(laser: ls.Laser, scope: ls.ContextScope) -> None:
    talk = Talk(laser, scope)
    compactor = lp.SessionCompactor(laser, Keeper())
    compaction = laser.compaction(scope.conversation, summarizer=Keeper())
    await compaction.switch("lcm")
    await talk.say(12)
    done = await compactor.compact(scope)
    assert done is not None
    assert (done.messages, done.strategy) == (28, "lcm")
    prompt = await talk.check()
    assert "[laser: summary 1, rows 0 to 27" in prompt.text
    assert sum((await compaction.lcm.describe(1)).spans[0]) == 27
    # A session for which nobody wants any compaction has none.
    await compaction.switch(None)
    await talk.say(20)
    assert await compactor.compact(scope) is None
    assert (await talk.check()).trace.history.summarised == 0
    # What was saved is there again when its strategy is.
    await compaction.switch("lcm")
    assert (await talk.check()).trace.history.summarised == 28


async def test_a_strategy_of_ones_own(
    laser: ls.Laser, scope: ls.ContextScope, caplog: pytest.LogCaptureFixture
) -> None:
    class Mine(ls.Rolling):
        name = "mine"

    registry = ls.StrategyRegistry([Mine()], default="mine")
    talk = Talk(laser, scope)
    await laser.compaction(scope.conversation, registry=registry).switch("mine")
    await talk.say(12)
    done = await lp.SessionCompactor(laser, Keeper(), registry=registry).compact(scope)
    assert done == lp.Compacted(28, 1, "summary", "mine")
    knowing = lp.PromptBuilder(laser, [lp.History(registry=registry)])
    assert (await knowing.build(scope)).trace.history.summarised == 28
    # Who does not know the strategy shows all there is.
    assert (await talk.builder.build(scope)).trace.history.summarised == 0
    assert "mine" in caplog.text


@pytest.mark.parametrize("seed", range(6))
async def test_at_random(laser: ls.Laser, scope: ls.ContextScope, seed: int) -> None:
    draw = random.Random(seed)
    talk = Talk(laser, scope)
    settings = lp.CompactionSettings(compact_after=12, keep_last=5)
    handles = [laser.compaction(scope.conversation, summarizer=Keeper()) for _ in range(2)]
    compactors = [lp.SessionCompactor(laser, Keeper(), settings) for _ in range(2)]
    for _ in range(24):
        await talk.say(draw.randint(1, 3))
        handle, step, keep_last = draw.choice(handles), draw.randrange(6), draw.randint(0, 8)
        # What would not make it smaller is refused, and changes nothing.
        with contextlib.suppress(ls.CompactionError):
            if step < 2:
                await draw.choice(compactors).compact(scope)
            elif step == 2:
                await handle.prepare(window=_WINDOW)
            elif step == 3:
                await handle.switch(draw.choice(["rolling", "lcm", None]))
            else:
                name = draw.choice(["rolling", "lcm", "snapcompact"])
                await handle.compact(name, keep_last=keep_last)
        await talk.check()
    assert {step.strategy for step in await handles[0].steps()} >= {"rolling", "lcm", "snapcompact"}
    assert len(await talk.reachable()) == len(talk.said)


async def test_pictures_in_a_prompt(laser: ls.Laser, scope: ls.ContextScope) -> None:
    talk = Talk(laser, scope)
    await talk.say(30)
    await laser.compaction(scope.conversation).compact("snapcompact", keep_last=8)
    prompt = await talk.builder.build(scope)
    (picture,) = [one for one in prompt.sections if one.category == "compaction"]
    # It costs what its size says, not what its bytes would.
    assert 300 < picture.tokens < len(picture.text) // 8
    assert prompt.trace.budget.used < 4_000
    # In a small budget the pictures are small, and all of them fit.
    small = await lp.PromptBuilder(laser, [lp.History()]).build(scope)
    assert small.trace.budget.verdict == "fits"
    costs = [one.tokens for one in small.sections if one.category == "compaction"]
    assert len(costs) > 1
    assert sum(costs) < 2_000
    parts = json.loads(picture.text)["content"]
    assert parts[1]["type"] == "image_url"
    drawn = await talk.builder.build(scope, model=RESPONSES)
    assert json.loads(drawn.messages[0])["content"][1]["type"] == "input_image"
    claude = await talk.builder.build(scope, model=lp.ModelSelection("anthropic", "anthropic_messages", "claude"))
    assert json.loads(claude.messages[0])["content"][1]["type"] == "image"
    assert prompt.messages[1:] == drawn.messages[1:] == claude.messages[1:]


async def test_opaque_state_beside_summaries(laser: ls.Laser, scope: ls.ContextScope) -> None:
    async def native(messages: object, model: lp.ModelSelection) -> bytes:
        return b'[{"type":"compaction","encrypted_content":"opaque"}]'

    talk = Talk(laser, scope)
    settings = lp.CompactionSettings(mode="native", compact_after=20, keep_last=8)
    opaque = lp.SessionCompactor(laser, settings=settings, native=native)
    worded = lp.SessionCompactor(laser, Keeper(), lp.CompactionSettings(compact_after=20, keep_last=8))
    await talk.say(8)
    assert await worded.compact(scope) == lp.Compacted(24, 1, "summary", "rolling")
    await talk.say(8)
    assert await opaque.compact(scope, RESPONSES) == lp.Compacted(56, 1, "native")
    # The state stands for more, so it stands alone; for any other model the summary does.
    prompt = await talk.builder.build(scope, model=RESPONSES)
    assert (prompt.trace.history.summarised, "opaque" in prompt.text, "kept ORD" in prompt.text) == (56, True, False)
    assert (await talk.check()).trace.history.summarised == 24
    # The summary stands for more by now.
    await talk.say(6)
    assert await worded.compact(scope) is not None
    prompt = await talk.builder.build(scope, model=RESPONSES)
    assert (prompt.trace.history.summarised, "opaque" in prompt.text, "kept ORD-0 " in prompt.text) == (80, False, True)
    await talk.check()


async def test_builders_see_it_at_once(laser: ls.Laser, scope: ls.ContextScope) -> None:
    talk, builder = Talk(laser, scope), lp.PromptBuilder(laser, [lp.History()])
    await talk.say(12)
    before = await builder.build(scope)
    await lp.SessionCompactor(laser, Keeper()).compact(scope)
    after = await builder.build(scope)
    assert (before.trace.history.summarised, after.trace.history.summarised) == (0, 28)
    fresh = await lp.PromptBuilder(laser, [lp.History()]).build(scope)
    assert fresh.messages == after.messages


async def test_a_cleared_transcript_is_not_revived(laser: ls.Laser, scope: ls.ContextScope) -> None:
    talk = Talk(laser, scope)
    await talk.say(12)
    compactor = lp.SessionCompactor(laser, Keeper())
    await compactor.compact(scope)
    await talk.check()
    await laser.open_log().purge(laser.stream, SESSIONS)
    talk.said.clear()
    assert (await talk.check()).messages == ()
    talk.first = 1_000
    await talk.say(12)
    assert (await talk.check()).trace.history.summarised == 0
    await talk.say(12)
    assert await compactor.compact(scope) == lp.Compacted(76, 2, "summary", "rolling")
    await talk.check()


async def test_the_same_messages_come_back(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """What was saved fits them as it did before: prompts and requests agree on it, whenever they look."""
    talk = Talk(laser, scope)
    await talk.say(12)
    await lp.SessionCompactor(laser, Keeper()).compact(scope)
    await laser.open_log().purge(laser.stream, SESSIONS)
    talk.said.clear()
    for turns in (4, 4, 4):
        await talk.say(turns)
        last = await talk.check()
    assert last.trace.history.summarised == 28


@pytest.mark.parametrize("strategy", ["rolling", "lcm", "snapcompact"])
async def test_a_fork(laser: ls.Laser, strategy: str) -> None:
    session = await laser.sessions().start()
    talk = Talk(laser, session.scope())
    compactor = lp.SessionCompactor(laser, Keeper())
    await laser.compaction(session.id).switch(strategy)
    await talk.say(12)
    assert await compactor.compact(session) is not None
    fork = await session.fork()
    branch = Talk(laser, fork.scope())
    branch.said = list(talk.said)
    # A prompt of the fork shows its messages; what lcm summarised of them comes along when somebody works with it.
    assert (await branch.builder.build(branch.scope)).trace.history.shown == 48
    await laser.compaction(fork.id).observe()
    assert (await branch.check()).trace.history.summarised == (28 if strategy == "lcm" else 0)
    await branch.say(12)
    assert await compactor.compact(fork) is not None
    assert (await branch.check()).trace.history.summarised > 48
    # The other session sees nothing of it.
    assert (await talk.check()).trace.history.summarised == 28


async def test_what_retention_took_is_still_summarised(laser: ls.Laser) -> None:
    log, scope = laser.open_log(), laser.context(ls.new_conversation_id())
    await log.delete_topic(laser.stream, SESSIONS)
    await laser.ensure_topic(SESSIONS, 1, ls.TopicRetention(max_size=40_000))
    talk = Talk(laser, scope)
    compactor = lp.SessionCompactor(laser, Keeper())
    first = 0
    while first == 0 or len(talk.said) < 240:
        await talk.say(3)
        await compactor.compact(scope)
        await talk.builder.build(scope)
        first = (await laser.topic(SESSIONS)).partitions[0].first
        assert len(talk.said) < 2_000
    for builder in (talk.builder, lp.PromptBuilder(laser, [lp.History(40_000)])):
        prompt = await builder.build(scope)
        shown = [json.dumps(one) for one in values(prompt) if "laser:" not in str(one)]
        found = re.findall(r"\(ORD-\d+\)", " ".join(shown))
        assert found == talk.said[-len(found) :]
        words = set(re.findall(r"ORD-\d+", json.loads(prompt.messages[0])["content"]))
        assert {name.strip("()") for name in talk.said} - {name.strip("()") for name in found} <= words
