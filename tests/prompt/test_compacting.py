"""Compaction in the session: off the critical path, nothing lost when it fails."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

import laser as ls
import laser.prompt as lp
from laser.ports.summarizer import Summary, SummaryRequest
from tests.prompt.making import assert_pairs_whole, assistant, calls, contents, result, user, values

pytestmark = pytest.mark.anyio

SESSIONS = ls.AgentTopic.Sessions
RESPONSES = lp.ModelSelection("openai", "openai_responses", "gpt-5")


class Scribe:
    """Keeps every order number that it is shown."""

    def __init__(self, answer: Summary | Exception | None = None) -> None:
        self.requests: list[SummaryRequest] = []
        self.answer = answer

    async def summarize(self, request: SummaryRequest) -> Summary:
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return self.answer
        words = f"{request.previous or ''} {request.text}".split()
        kept = sorted({word.strip(".,") for word in words if word.startswith("ORD-")})
        return Summary(f"About {' '.join(kept)}")


async def talk(scope: ls.ContextScope, count: int, start: int = 0) -> None:
    messages = [
        assistant(f"answer {number}") if number % 2 else user(f"question about ORD-{number}")
        for number in range(start, start + count)
    ]
    await scope.append_many(SESSIONS, [json.dumps(message) for message in messages])


async def test_the_summary_takes_the_place_of_old_messages(laser: ls.Laser, scope: ls.ContextScope) -> None:
    scribe = Scribe()
    compactor = lp.SessionCompactor(laser, scribe)
    made = lp.PromptBuilder(laser, [lp.History()])
    await talk(scope, 40)
    assert await compactor.compact(scope) is None  # not above compact_after
    await talk(scope, 1, 40)
    assert await compactor.compact(scope) == lp.Compacted(20, 1, "summary", "rolling")
    prompt = await made.build(scope)
    assert len(prompt.messages) == 22
    first = values(prompt)[0]
    assert first["role"] == "user"
    assert first["content"].startswith(
        "<conversation_summary>\n[laser: summary of the conversation so far, 20 messages"
    )
    assert "\nAbout ORD-0 ORD-10" in first["content"]
    assert contents(prompt)[1:] == [json.loads(one.payload)["content"] for one in await scope.fetch(n=21)]
    report = prompt.trace.history
    assert (report.messages, report.summarised, report.shown) == (41, 20, 21)
    assert [one.category for one in prompt.sections if one.place == "history"][:2] == ["compaction", "history"]
    assert next(one.priority for one in prompt.sections if one.category == "compaction") == 59
    # Nothing left the log, and until the next compaction the boundary stays.
    assert len(await scope.fetch(n=1_000)) == 41
    await talk(scope, 5, 41)
    assert (await made.build(scope)).messages[:22] == prompt.messages
    assert await compactor.compact(scope) is None


async def test_a_later_summary_folds_the_earlier_one_in(laser: ls.Laser, scope: ls.ContextScope) -> None:
    scribe = Scribe()
    compactor = lp.SessionCompactor(laser, scribe)
    for part in range(6):
        await talk(scope, 41, part * 41)
        await compactor.compact(scope)
    assert scribe.requests[0].previous is None
    assert all("ORD-0 " in (request.previous or "") + " " for request in scribe.requests[1:])
    # Each message is given to one summary only, and none is missing.
    shown = [word for request in scribe.requests for word in request.text.split() if word.startswith("ORD-")]
    assert len(shown) == len(set(shown))
    assert all(request.instructions == lp.CompactionSettings().instructions for request in scribe.requests)
    prompt = await lp.PromptBuilder(laser, [lp.History()]).build(scope)
    everything = prompt.text
    assert all(f"ORD-{number}" in everything for number in range(0, 246, 2))
    assert prompt.trace.history.messages == 246


@pytest.mark.parametrize(
    "answer",
    [
        Summary(""),
        Summary(" \n"),
        Summary("half of it", complete=False),
        Summary("Error: rate limit"),
        Summary("far too long " * 1_000),
        RuntimeError("down"),
        TimeoutError(),
    ],
)
async def test_what_fails_changes_nothing(laser: ls.Laser, scope: ls.ContextScope, answer: Summary | Exception) -> None:
    await talk(scope, 50)
    made = lp.PromptBuilder(laser, [lp.History()])
    before = await made.build(scope)
    with pytest.raises(ls.LaserError):
        await lp.SessionCompactor(laser, Scribe(answer)).compact(scope)
    assert (await made.build(scope)).messages == before.messages
    # In the background it costs nobody anything, and is tried again after the next turn.
    scribe = Scribe(answer)
    async with lp.SessionCompactor(laser, scribe) as compactor:
        compactor.turn_committed(scope)
    # A summary that is too long is asked for once more, shorter.
    too_long = isinstance(answer, Summary) and len(answer.text) > 1_000
    asked = [request.max_tokens for request in scribe.requests]
    assert asked[1:] == ([asked[0] // 2] if too_long else [])
    assert asked[0] < 200, "a third of what it stands for"
    assert (await made.build(scope)).messages == before.messages
    assert await lp.SessionCompactor(laser, Scribe()).compact(scope) is not None


async def test_off_the_critical_path(laser: ls.Laser, scope: ls.ContextScope) -> None:
    release, asked = anyio.Event(), anyio.Event()

    class Slow(Scribe):
        async def summarize(self, request: SummaryRequest) -> Summary:
            asked.set()
            await release.wait()
            return await super().summarize(request)

    scribe, done = Slow(), []
    await talk(scope, 50)
    made = lp.PromptBuilder(laser, [lp.History()])
    compactor = lp.SessionCompactor(laser, scribe, on_compacted=lambda conversation, what: done.append(what))
    async with compactor:
        compactor.turn_committed(scope)
        compactor.turn_committed(scope.conversation)  # one at a time for a session
        await asked.wait()
        # The customer has the answer, and goes on talking meanwhile.
        await talk(scope, 2, 50)
        assert len((await made.build(scope)).messages) == 52
        release.set()
    assert done == [lp.Compacted(30, 1, "summary", "rolling")]
    assert len((await made.build(scope)).messages) == 23
    with pytest.raises(ls.ClosedError):
        compactor.turn_committed(scope)


async def test_an_error_of_the_block_comes_out_as_it_is(laser: ls.Laser, scope: ls.ContextScope) -> None:
    class Never(Scribe):
        async def summarize(self, request: SummaryRequest) -> Summary:
            await anyio.sleep_forever()
            raise AssertionError

    await talk(scope, 50)
    with pytest.raises(KeyError, match="mine"):
        async with lp.SessionCompactor(laser, Never()) as compactor:
            compactor.turn_committed(scope)
            raise KeyError("mine")
    with anyio.move_on_after(0.05) as cancel:
        async with lp.SessionCompactor(laser, Never()) as compactor:
            compactor.turn_committed(scope)
    assert cancel.cancelled_caught


async def test_cancelled_at_every_await(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await talk(scope, 50)
    made = lp.PromptBuilder(laser, [lp.History()])
    for steps in range(1, 40):
        left = steps

        class Stopping(Scribe):
            async def summarize(self, request: SummaryRequest) -> Summary:
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                return await super().summarize(request)

        with anyio.CancelScope() as cancel:
            async with anyio.create_task_group() as tasks:

                async def stop(left: int = left) -> None:
                    for _ in range(left):
                        await anyio.lowlevel.checkpoint()
                    cancel.cancel()

                tasks.start_soon(stop)
                await lp.SessionCompactor(laser, Stopping()).compact(scope)
        prompt = await made.build(scope)
        assert len(prompt.messages) in (50, 21)
        assert all(f"ORD-{number}" in prompt.text for number in range(0, 50, 2))


async def test_pairs_and_open_calls_stay_whole(laser: ls.Laser, scope: ls.ContextScope) -> None:
    messages: list[dict[str, Any]] = []
    for number in range(15):
        messages += [user(f"ORD-{number}"), calls(f"c{number}"), result(f"c{number}"), assistant("ok")]
    await scope.append_many(SESSIONS, [json.dumps(message) for message in messages])
    for keep_last in range(1, 8):
        fresh = laser.context(ls.new_conversation_id())
        await fresh.append_many(SESSIONS, [json.dumps(message) for message in messages])
        settings = lp.CompactionSettings(compact_after=10, keep_last=keep_last)
        assert await lp.SessionCompactor(laser, Scribe(), settings).compact(fresh) is not None
        prompt = await lp.PromptBuilder(laser, [lp.History()]).build(fresh)
        assert_pairs_whole(prompt.messages)
        assert keep_last + 1 <= len(prompt.messages) <= keep_last + 4
    # A call whose tool is still at work is never summarised away.
    running = laser.context(ls.new_conversation_id())
    left = [*messages, user("and now?"), calls("slow", "fast"), *(result("fast"),) * 1]
    await running.append_many(SESSIONS, [json.dumps(message) for message in left])
    settings = lp.CompactionSettings(compact_after=10, keep_last=1)
    assert await lp.SessionCompactor(laser, Scribe(), settings).compact(running) is not None
    prompt = await lp.PromptBuilder(laser, [lp.History()]).build(running)
    assert values(prompt)[-2:] == left[-2:]


async def test_summaries_at_once(laser: ls.Laser, scope: ls.ContextScope) -> None:
    """Two processes compact one session: the first one counts, and nothing is shown twice or lost."""
    await talk(scope, 50)
    asked, both = 0, anyio.Event()

    class Meeting(Scribe):
        """Answers once the other one was asked too: neither may be done before the other begins."""

        async def summarize(self, request: SummaryRequest) -> Summary:
            nonlocal asked
            asked += 1
            if asked == 2:
                both.set()
            await both.wait()
            return await super().summarize(request)

    async with anyio.create_task_group() as tasks:
        for keep_last in (10, 20):
            settings = lp.CompactionSettings(keep_last=keep_last)
            tasks.start_soon(lp.SessionCompactor(laser, Meeting(), settings).compact, scope)
    prompt = await lp.PromptBuilder(laser, [lp.History()]).build(scope)
    assert len(prompt.messages) in (11, 21)
    assert [step.kind for step in await laser.compaction(scope.conversation).steps()].count("saved") == 1
    assert all(prompt.text.count(f"ORD-{number}") >= 1 for number in range(0, 50, 2))


async def test_a_long_history_takes_several_requests(laser: ls.Laser, scope: ls.ContextScope) -> None:
    messages = [user(f"ORD-{number} " + "words " * 600) for number in range(100)]
    await scope.append_many(SESSIONS, [json.dumps(message) for message in messages])
    scribe = Scribe()
    assert await lp.SessionCompactor(laser, scribe).compact(scope) == lp.Compacted(80, 1, "summary", "rolling")
    assert len(scribe.requests) == 3
    assert [request.previous is None for request in scribe.requests] == [True, False, False]
    text = (await lp.PromptBuilder(laser, [lp.History()]).build(scope)).text
    assert all(f"ORD-{number} " in text or f"ORD-{number}\\n" in text for number in range(100))

    class Dying(Scribe):
        async def summarize(self, request: SummaryRequest) -> Summary:
            if self.requests:
                raise RuntimeError("down")
            return await super().summarize(request)

    fresh = laser.context(ls.new_conversation_id())
    await fresh.append_many(SESSIONS, [json.dumps(message) for message in messages])
    with pytest.raises(ls.LaserError):
        await lp.SessionCompactor(laser, Dying()).compact(fresh)
    assert (await lp.PromptBuilder(laser, [lp.History()]).build(fresh)).trace.history.summarised == 0


async def test_secrets_and_repairs_in_what_is_summarised(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await scope.append(SESSIONS, json.dumps(user("my password is hunter22-very-secret")))
    await scope.append(SESSIONS, json.dumps(assistant("<tool>junk</tool>")))
    await lp.repair_message(laser, (await scope.fetch())[1], "It was looked up.")
    await talk(scope, 50)
    scribe = Scribe()
    await lp.SessionCompactor(laser, scribe).compact(scope)
    text = scribe.requests[0].text
    assert "hunter22" not in text
    assert "It was looked up." in text
    assert "junk" not in text


async def test_native_state_only_for_the_model_that_made_it(laser: ls.Laser, scope: ls.ContextScope) -> None:
    seen: list[Sequence[bytes]] = []

    async def native(messages: Sequence[bytes], model: lp.ModelSelection) -> bytes:
        seen.append(messages)
        return json.dumps([{"type": "compaction", "encrypted_content": f"opaque-{len(seen)}"}]).encode()

    await talk(scope, 50)
    settings = lp.CompactionSettings(mode="native")
    compactor = lp.SessionCompactor(laser, settings=settings, native=native)
    chat = lp.ModelSelection("openai", "chat_completions", "gpt-5")
    assert await compactor.compact(scope, chat) is None
    assert await compactor.compact(scope) is None
    assert seen == []
    assert await compactor.compact(scope, RESPONSES) == lp.Compacted(30, 1, "native")
    made = lp.PromptBuilder(laser, [lp.History()])
    prompt = await made.build(scope, model=RESPONSES)
    assert values(prompt)[0] == {"type": "compaction", "encrypted_content": "opaque-1"}
    assert len(prompt.messages) == 21
    # The budget counts what the state stands for, too.
    cost = next(one.tokens for one in prompt.sections if one.category == "compaction")
    assert cost > sum(len(message) for message in seen[0]) // 5
    for other in (None, chat, lp.ModelSelection("azure", "openai_responses", "gpt-5")):
        assert len((await made.build(scope, model=other)).messages) == 50
    assert (await made.build(scope, model=RESPONSES)).messages == prompt.messages

    class Others(lp.BaseProvider):
        name = "others"

        async def provide(self, turn: lp.TurnContext) -> list[lp.Fragment]:
            return [lp.Fragment("others", '{"role":"user","content":"mine"}', 70, place="history")]

    both = await lp.PromptBuilder(laser, [lp.History(), Others()]).build(scope, model=RESPONSES)
    assert len(both.messages) == 51
    # Each compaction is of the whole stored prefix, never of opaque state.
    await talk(scope, 45, 50)
    assert await compactor.compact(scope, RESPONSES) is not None
    assert len(seen[1]) == 75
    # A summary in words after that begins anew: what is opaque cannot be folded in.
    scribe = Scribe()
    await talk(scope, 45, 95)
    await lp.SessionCompactor(laser, scribe).compact(scope)
    assert scribe.requests[0].previous is None
    assert "ORD-0" in scribe.requests[0].text


@pytest.mark.parametrize("answer", [b"{bad", b"{}", b"[]"])
async def test_native_answers_that_are_none(laser: ls.Laser, scope: ls.ContextScope, answer: bytes) -> None:
    async def native(messages: Sequence[bytes], model: lp.ModelSelection) -> bytes:
        return answer

    await talk(scope, 50)
    compactor = lp.SessionCompactor(laser, settings=lp.CompactionSettings(mode="native"), native=native)
    with pytest.raises(ls.LaserError):
        await compactor.compact(scope, RESPONSES)
    assert len((await lp.PromptBuilder(laser, [lp.History()]).build(scope, model=RESPONSES)).messages) == 50


async def test_the_budget_is_the_backstop(laser: ls.Laser, scope: ls.ContextScope) -> None:
    messages = [user(f"question {number} " + "word " * 40) for number in range(50)]
    await scope.append_many(SESSIONS, [json.dumps(message) for message in messages])
    await lp.SessionCompactor(laser, Scribe(Summary("s" * 3_000))).compact(scope)
    profile = lp.PromptProfile(lp.PromptBudget(700, 0))
    prompt = await lp.PromptBuilder(laser, [lp.History(650)], profile=profile).build(scope)
    assert prompt.trace.evicted[0].category == "compaction"


async def test_a_summary_that_wins_nothing_is_not_made_again_at_once(laser: ls.Laser, scope: ls.ContextScope) -> None:
    scribe = Scribe(Summary("s" * 3_000))
    compactor = lp.SessionCompactor(laser, scribe)
    await talk(scope, 50)
    with pytest.raises(ls.SummaryError):
        await compactor.compact(scope)
    assert len(scribe.requests) == 2  # the second time it was to be shorter
    for start in range(50, 68, 2):
        await talk(scope, 2, start)
        assert await compactor.compact(scope) is None
    assert len(scribe.requests) == 2
    scribe.answer = None
    await talk(scope, 4, 68)
    assert await compactor.compact(scope) is not None


async def test_plain_texts_are_turns_too(laser: ls.Laser, scope: ls.ContextScope) -> None:
    for number in range(30):
        await scope.append(SESSIONS, f"where is ORD-{number}?")
        await scope.append(SESSIONS, f"on its way, {number}", agent="bot")
    scribe = Scribe()
    assert await lp.SessionCompactor(laser, scribe).compact(scope) == lp.Compacted(40, 1, "summary", "rolling")
    assert scribe.requests[0].text.startswith("user: where is ORD-0?\n\nbot: on its way, 0\n\n")
    prompt = await lp.PromptBuilder(laser, [lp.History()], agent="bot").build(scope)
    assert contents(prompt)[1:3] == ["where is ORD-20?", "on its way, 20"]
    assert all(f"ORD-{number}" in prompt.text for number in range(30))


async def test_stored_repairs_are_summarised(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await talk(scope, 2)
    await scope.append(SESSIONS, json.dumps(assistant("<tool>junk</tool>") | {"context_content": "It was looked up."}))
    await talk(scope, 50, 2)
    scribe = Scribe()
    await lp.SessionCompactor(laser, scribe).compact(scope)
    assert "It was looked up." in scribe.requests[0].text
    assert "junk" not in scribe.requests[0].text


def test_refused_settings() -> None:
    for make in (
        lambda: lp.CompactionSettings(compact_after=20, keep_last=20),
        lambda: lp.CompactionSettings(compact_after=-1),
        lambda: lp.CompactionSettings(mode="both"),  # type: ignore[arg-type]
        lambda: lp.SessionCompactor(None),  # type: ignore[arg-type]
        lambda: lp.SessionCompactor(None, settings=lp.CompactionSettings(mode="native")),  # type: ignore[arg-type]
    ):
        with pytest.raises(ls.InvalidError):
            make()
