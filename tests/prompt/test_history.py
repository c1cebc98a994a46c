"""The history: whole while it fits, trimmed without breaking pairs, held between trims."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import laser as ls
import laser.prompt as lp
import laser.prompt.providers.history as history_provider
from tests.prompt.making import assert_pairs_whole, assistant, builder, calls, contents, result, user, values

pytestmark = pytest.mark.anyio

SESSIONS = ls.AgentTopic.Sessions


async def built(history: list[dict[str, Any]], tokens: int = 100_000, **settings: Any) -> lp.BuiltPrompt:
    return await builder(lp.History(tokens, **settings), tokens=200_000).build(history=history)


async def test_an_empty_history() -> None:
    # A9
    prompt = await built([])
    assert prompt.messages == ()


async def test_a_result_without_its_call_is_left_out() -> None:
    # A5, E1
    prompt = await built([result("gone"), user("a")])
    assert contents(prompt) == ["a"]
    assert prompt.trace.history.unpaired == 1


async def test_a_call_without_its_result_is_left_out_but_for_a_running_one() -> None:
    # A8, A21, E1
    broken = [user("a"), calls("c1", "c2"), result("c1"), user("b")]
    assert contents(await built(broken)) == ["a", "b"]
    running = [user("a"), calls("c1", "c2"), result("c1")]
    assert values(await built(running)) == running
    # The answer comes although the user spoke meanwhile.
    late = [*broken, result("c2")]
    assert values(await built(late)) == late


async def test_ids_that_come_again() -> None:
    history = [calls("c"), result("c", "1"), calls("c"), result("c", "2"), user("x")]
    assert values(await built(history)) == history
    half = [calls("c"), result("c", "1"), calls("c"), user("x")]
    assert values(await built(half)) == [*half[:2], user("x")]


async def test_the_shapes_of_responses_and_anthropic() -> None:
    responses: list[dict[str, Any]] = [
        user("a"),
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "x" * 400},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "r" * 4_000},
        {"type": "function_call_output", "call_id": "c2", "output": "r" * 4_000},
        assistant("done"),
        user("b"),
    ]
    anthropic: list[dict[str, Any]] = [
        user("a"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"order": "A-17"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "r" * 8_000}]},
        assistant("done"),
        user("b"),
    ]
    for history in (responses, anthropic):
        assert values(await built(history)) == history
        trimmed = await built(history, 600)
        assert_pairs_whole(trimmed.messages)
        assert b"[cleared: " in b"".join(trimmed.messages)
        cut = await built(history, 120, clear_results=False)
        assert_pairs_whole(cut.messages)
        assert contents(cut)[-1] == "b"
        assert not any(value.get("type") == "reasoning" for value in values(cut))
    assert "A-17" in (await built(anthropic, 160, clear_results=False, ledger=0.5)).text


async def test_reasoning_goes_with_its_calls() -> None:
    history: list[dict[str, Any]] = []
    for number in range(8):
        history += [
            user(f"question {number}"),
            {"type": "reasoning", "id": f"rs_{number}", "summary": ["x" * 100]},
            {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": f"d{number}", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": "r" * 100},
            {"type": "function_call_output", "call_id": f"d{number}", "output": "r" * 100},
        ]
    partial = 0
    for tokens in range(150, 900, 10):
        try:
            prompt = await builder(lp.History(100_000), tokens=tokens).build(history=history)
        except ls.BudgetError:
            continue
        held = values(prompt)
        reasoned = {value["id"][3:] for value in held if value.get("type") == "reasoning"}
        called = [value["call_id"] for value in held if value.get("type") == "function_call"]
        assert sorted(called) == sorted(f"{kind}{number}" for number in reasoned for kind in "cd")
        partial += 0 < len(reasoned) < 8
    assert partial > 10


async def test_a_message_that_arrives_while_the_log_is_read(
    laser: ls.Laser, scope: ls.ContextScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lp.PromptBuilder(laser, [lp.History()])
    take = history_provider.take_checkpoint
    said = iter(range(100))

    async def late(*place: Any) -> ls.Checkpoint:
        # Between the look at the log's end and the read of what is there.
        end = await take(*place)
        await scope.append(SESSIONS, json.dumps(user(f"message {next(said)}")))
        return end

    monkeypatch.setattr(history_provider, "take_checkpoint", late)
    for count in range(1, 5):
        prompt = await made.build(scope, record=False)
        assert contents(prompt) == [f"message {number}" for number in range(count)]


async def test_bulky_old_results_are_cleared_before_anything_leaves() -> None:
    rows = json.dumps([{"order_id": f"ORD-{number}", "note": "words " * 30} for number in range(20)])
    history = [user("first"), calls("c1"), result("c1", rows), assistant("ok")]
    history += [user("second"), calls("c2"), result("c2", "short"), calls("c3"), result("c3", rows), user("third")]
    prompt = await built(history, 1_900, ledger=0.1)
    assert len([value for value in values(prompt) if value["role"] != "user"]) == 7
    cleared = next(value for value in values(prompt) if value.get("tool_call_id") == "c1")
    assert cleared["content"].startswith(
        f"[cleared: {len(rows)} bytes; call the tool again for all of it] order_id: ORD-0"
    )
    assert len(cleared["content"]) < 400
    assert next(value for value in values(prompt) if value.get("tool_call_id") == "c3")["content"] == rows
    report = prompt.trace.history
    assert (report.cleared, report.dropped, report.trims) == (1, 0, 1)
    kept = await built(history, 1_900, clear_results=False)
    assert kept.trace.history.dropped > 0
    assert "[cleared" not in kept.text


async def test_exact_values_of_what_left_stay() -> None:
    history = [user("My order is ORD-7731, mail ann@example.org, due 2026-03-04. " + "words " * 400)]
    history += [calls("c1", arguments='{"customer_id":"cus_88"}'), result("c1", '{"invoice":"INV-5"}')]
    for number in range(12):
        history += [assistant("words " * 60), user(f"question number {number} " + "words " * 20)]
    prompt = await built(history, 800)
    first = values(prompt)[0]["content"]
    assert first.startswith("<earlier_values>\n")
    for value in ("ORD-7731", "ann@example.org", "2026-03-04", "customer_id: cus_88", "invoice: INV-5"):
        assert value in first
    assert "ORD-7731" not in (await built(history, 800, ledger=0)).text
    assert len(prompt.text.encode()) // 4 <= 900


async def test_the_newest_thing_the_user_said_stays() -> None:
    history = [
        user("the task: book a table"),
        *(one for n in range(40) for one in (calls(f"c{n}"), result(f"c{n}", "x" * 400))),
    ]
    prompt = await built(history, 600)
    assert "the task: book a table" in contents(prompt)
    assert_pairs_whole(prompt.messages)


@pytest.mark.parametrize("first", [[], [{"role": "system", "content": "rules"}], [assistant("Welcome!")]])
async def test_what_is_left_begins_with_the_user(first: list[dict[str, Any]]) -> None:
    # A22
    history = list(first)
    for number in range(30):
        history += [user(f"{number} " + "words " * 20), calls(f"c{number}"), result(f"c{number}", "short")]
        history += [assistant("words " * 20)]
        prompt = await built(history, 500, ledger=0)
        spoken = [value["role"] for value in values(prompt) if value["role"] != "system"]
        assert spoken[0] == ("user" if prompt.trace.history.trims else spoken[0])
    assert prompt.trace.history.trims > 3
    # Where no user ever spoke there is nothing to begin with, and no reason to lose more.
    alone = [assistant(f"{number} " + "words " * 20) for number in range(30)]
    assert len((await built(alone, 500, ledger=0)).messages) > 5


async def test_instructions_in_the_history_stay() -> None:
    # A23
    history = [{"role": "system", "content": "rules"}, *(user(f"{n} " + "words " * 50) for n in range(40))]
    history.insert(20, {"role": "developer", "content": "more rules"})
    history.insert(21, {"role": "USER", "content": "shouted"})
    prompt = await built(history, 500)
    assert [text for text in contents(prompt) if "rules" in text] == ["rules", "more rules"]


async def test_repeated_results_become_back_references() -> None:
    page = json.dumps({"catalog": [f"item-{number}" for number in range(60)]})
    history = [user("a")]
    for number in range(3):
        history += [calls(f"c{number}"), result(f"c{number}", page), assistant("ok")]
    assert values(await built(history)) == history  # never by default
    prompt = await built(history, tool_output_compression=True)
    results = [value["content"] for value in values(prompt) if value["role"] == "tool"]
    assert results[0] == page
    for text in results[1:]:
        assert text.startswith("[the same result as that of c0, which stands above in full] catalog: item-0")
        assert "\n" not in text
        assert len(text) < 200
    assert prompt.trace.history.repeated == 2
    other = [*history, calls("d"), result("d", page + " ")]
    assert values(await built(other, tool_output_compression=True))[-1]["content"] == page + " "


async def test_when_the_first_leaves_the_next_stands_in_full() -> None:
    page = json.dumps({"catalog": [f"item-{number}" for number in range(60)]})
    history = [user("a"), calls("c0"), result("c0", page), assistant("words " * 300)]
    history += [user("b"), calls("c1"), result("c1", page), calls("c2"), result("c2", page), user("c")]
    for tokens in range(300, 1_300, 50):
        for clear in (True, False):
            prompt = await built(history, tokens, tool_output_compression=True, clear_results=clear)
            held = [value for value in values(prompt) if value["role"] == "tool"]
            for place, value in enumerate(held):
                if value["content"].startswith("[the same result as that of "):
                    named = value["content"].split()[6].rstrip(",")
                    before = {one["tool_call_id"]: one["content"] for one in held[:place]}
                    assert before[named] == page


async def test_held_between_trims() -> None:
    history: list[dict[str, Any]] = []
    before: tuple[bytes, ...] = ()
    trims = changes = 0
    pick = random.Random(1)
    for number in range(150):
        history.append(user(f"{number} " + "words " * pick.randint(1, 40)))
        if pick.random() < 0.4:
            history += [calls(f"c{number}"), result(f"c{number}", "r" * pick.randint(1, 1_500))]
        history.append(assistant("words " * pick.randint(1, 40)))
        prompt = await built(history, 2_000)
        report = prompt.trace.history
        if report.trims == trims:
            assert prompt.messages[: len(before)] == before
        else:
            changes += 1
        before, trims = prompt.messages, report.trims
        assert_pairs_whole(prompt.messages)
        assert len(b"\n".join(prompt.messages)) / 4 <= 2_000
    assert 3 < changes < 50


async def test_the_same_history_gives_the_same_prompt_in_every_process(laser: ls.Laser, scope: ls.ContextScope) -> None:
    made = lp.PromptBuilder(laser, [lp.History(700)])
    for number in range(60):
        await scope.append(SESSIONS, json.dumps(user(f"order ORD-{number} " + "words " * (number % 17))))
        prompt = await made.build(scope, record=False)
        if number % 10 == 0:
            fresh = await lp.PromptBuilder(laser, [lp.History(700)]).build(scope, record=False)
            assert fresh.messages == prompt.messages
    assert prompt.trace.history.trims > 0
    # The view never changes what is stored.
    assert len(await scope.fetch(n=1_000)) == 60


async def test_messages_of_others_and_plain_texts(laser: ls.Laser, scope: ls.ContextScope) -> None:
    await scope.append(SESSIONS, "plain words", agent="customer")
    await scope.append(SESSIONS, "an answer", agent="support")
    await scope.append(SESSIONS, '{"some":"json"}', agent="customer")
    await scope.append(SESSIONS, b"\xff\xfe", agent="customer")
    await scope.append(SESSIONS, '{"role":"user","content":"{bad', agent="customer")
    prompt = await lp.PromptBuilder(laser, [lp.History()], agent="support").build(scope)
    assert [(value["role"], value["content"]) for value in values(prompt)] == [
        ("user", "plain words"),
        ("assistant", "an answer"),
        ("user", '{"some":"json"}'),
        ("user", "\ufffd\ufffd"),
        ("user", '{"role":"user","content":"{bad'),
    ]


async def test_malformed_arguments_hold_nobody_up() -> None:
    # E3, G8
    for arguments in ("", "[]", "{bad", "7", "[" * 5_000):
        history = [user("a"), calls("c1", arguments=arguments), result("c1", arguments * 3), user("b")] * 3
        assert values(await built(history)) == history
        assert_pairs_whole((await built(history, 60)).messages)


async def test_halves_of_surrogate_pairs_cost_no_role() -> None:
    # E5
    stored = [b'{"role":"user","content":"a \\ud83d b"}', b'{"role":"assistant","content":"\\ud83d\\ude00"}']
    made = lp.PromptBuilder(None, [lp.Identity("x \ud83d"), lp.History()])
    built_prompt = await made.build(message="bad \udc88", history=stored)
    assert [(value["role"], value["content"]) for value in values(built_prompt)] == [
        ("user", "a \ufffd b"),
        ("assistant", "\U0001f600"),
        ("user", "bad \ufffd"),
    ]
    assert built_prompt.system.encode().startswith("x \ufffd".encode())


async def test_values_that_are_no_single_line() -> None:
    rows = json.dumps([{"order_id": "ORD-1\nORD-2\u202e", "note": "ORD-3"}, {"text": "z" * 300}])
    history = [user("a"), calls("c0"), result("c0", rows), *(user("words " * 60) for _ in range(8))]
    prompt = await built(history, 400, ledger=0.4)
    (line,) = [line for line in contents(prompt)[0].splitlines() if "ORD-1" in line]
    assert "ORD-1 ORD-2" in line
    assert "\u202e" not in prompt.text


async def test_repairs_replace_an_assistants_text_in_prompts_only(laser: ls.Laser, scope: ls.ContextScope) -> None:
    stored = [
        {"role": "assistant", "content": "<tool>junk</tool>", "context_content": "Let me look that up."},
        {"role": "user", "content": "as said", "context_content": "never"},
        {**calls("c1"), "context_content": "never"},
        {**result("c1"), "context_content": "never"},
        {"role": "assistant", "content": "more junk"},
    ]
    await scope.append_many(SESSIONS, [json.dumps(one) for one in stored])
    made = lp.PromptBuilder(laser, [lp.History()])
    first = await made.build(scope)
    assert contents(first) == ["Let me look that up.", "as said", "", "found", "more junk"]
    assert "never" not in first.text
    assert first.trace.history.repaired == 1
    messages = await scope.fetch()
    await lp.repair_message(laser, messages[4], "No more junk.")
    await lp.repair_message(laser, messages[3], "never")
    second = await made.build(scope)
    assert contents(second)[3:] == ["found", "No more junk."]
    assert second.trace.history.repaired == 2
    assert await scope.fetch() == messages
    assert json.loads(messages[0].payload)["content"] == "<tool>junk</tool>"
    await lp.repair_message(laser, messages[4], None)
    assert contents(await made.build(scope))[4] == "more junk"
    # A history of the caller's own is the caller's contract: stored repairs are not for it.
    given = await made.build(scope, history=[assistant("more junk")])
    assert contents(given) == ["more junk"]


async def test_topics_that_were_made_anew(laser: ls.Laser, scope: ls.ContextScope) -> None:
    made = lp.PromptBuilder(laser, [lp.History()])
    await scope.append(SESSIONS, json.dumps(user("before")))
    assert contents(await made.build(scope, record=False)) == ["before"]
    await laser.delete_topic(SESSIONS)
    await laser.ensure_topic(SESSIONS)
    await scope.append(SESSIONS, json.dumps(user("after")))
    assert contents(await made.build(scope, record=False)) == ["after"]


@pytest.mark.parametrize(
    "settings",
    [
        {"low_water": 0},
        {"low_water": 1},
        {"low_water": "x"},
        {"ledger": 0.9},
        {"ledger": -0.1},
        {"low_water": 0.1, "ledger": 0.2},
    ],
)
def test_refused_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ls.InvalidError):
        lp.History(**settings)
