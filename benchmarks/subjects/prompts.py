"""How long it takes to build a prompt: 12 providers and 200 messages of history."""

from __future__ import annotations

import json
from typing import Final

import laser as ls
import laser.prompt as lp
from benchmarks.bench import SESSIONS, Bench
from benchmarks.figures import LASER, Line, make_line
from benchmarks.measuring import Side, compare

__all__ = ["build_without_io", "messages_of", "run"]

_MESSAGES: Final = 200
_PROVIDERS: Final = 12
_PROFILE: Final = lp.PromptProfile(lp.PromptBudget(40_000))


def messages_of(count: int) -> list[bytes]:
    """So many messages of a support conversation, with a tool call for every fourth."""
    made: list[dict[str, object]] = []
    for number in range(count // 4):
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "find", "arguments": f'{{"n":"A-{number}"}}'},
        }
        made += [
            {"role": "user", "content": f"Question {number}: where is my order A-{number}? " + "words " * 10},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": f"c{number}",
                "content": json.dumps({"order": f"A-{number}", "at": "depot"}),
            },
            {"role": "assistant", "content": f"Order A-{number} is at the depot. " + "words " * 10},
        ]
    return [json.dumps(message).encode() for message in made]


def _builder(laser: ls.Laser | None) -> lp.PromptBuilder:
    async def text(turn: lp.TurnContext) -> str:
        return "material of the turn " * 20

    others = [lp.FunctionProvider(f"p{number}", text, priority=number) for number in range(_PROVIDERS - 3)]
    # With the notice about fences they are twelve.
    return lp.PromptBuilder(
        laser, [lp.Identity("You are an agent. " * 50), lp.History(20_000), *others], profile=_PROFILE
    )


async def build_without_io(history: list[bytes]) -> lp.BuiltPrompt:
    """One prompt of a history that the caller holds: every message is read anew."""
    return await _WITHOUT.build(message="And now?", history=history)


_WITHOUT: Final = _builder(None)


async def run(bench: Bench) -> list[Line]:
    """Measures builds without a log, and on the embedded one, where a conversation goes on."""
    history = messages_of(_MESSAGES)

    async def without() -> int:
        return len((await build_without_io(history)).messages)

    samples = await compare({LASER: Side(without)}, bench.size.rounds)
    lines = [
        make_line(
            "prompts.build", "a prompt, without I/O", "process", samples, messages=_MESSAGES, providers=_PROVIDERS
        )
    ]
    if "embedded" in bench.engines:
        url, stream = bench.place("embedded", "prompts")
        async with ls.Laser.connect(url, stream=stream) as laser:
            await laser.ensure_topic(SESSIONS)
            scope = laser.context(ls.new_conversation_id())
            await scope.append_many(SESSIONS, history)
            made = _builder(laser)

            async def going_on() -> int:
                return len((await made.build(scope, "And now?", record=False)).messages)

            samples = await compare({LASER: Side(going_on)}, bench.size.rounds)
            lines.append(
                make_line(
                    "prompts.going_on",
                    "a prompt, the conversation read before",
                    "embedded",
                    samples,
                    messages=_MESSAGES,
                    providers=_PROVIDERS,
                )
            )
    return lines


def _line(name: str, title: str, engine: str, samples: dict[str, list[float]]) -> Line:
    return make_line(name, title, engine, samples, messages=_MESSAGES, providers=_PROVIDERS)
