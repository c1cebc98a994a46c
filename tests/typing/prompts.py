# pyright: strict
"""Not run: prompts as a user writes them, and the types that every checker must see (mypy --strict, pyright strict)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_type

import laser as ls
import laser.prompt as lp


class Weather:
    """A provider of a user's own, by shape alone."""

    name = "weather"
    layer: lp.Layer = "volatile"
    priority = 50
    pinned = False
    required = False
    timeout = 1.0

    def applies(self, turn: lp.TurnContext) -> bool:
        return turn.customer is not None

    async def provide(self, turn: lp.TurnContext) -> Sequence[lp.Fragment]:
        return [lp.Fragment("weather", turn.fence("weather", "rain"), self.priority)]


class Garden(lp.BaseProvider):
    name = "garden"
    priority = 30

    async def provide(self, turn: lp.TurnContext) -> str | None:
        return "roses" if turn.message else None


async def builds(laser: ls.Laser, session: ls.Session) -> None:
    counter = ls.tokens("o200k_base")
    assert_type(counter, ls.Tokenizer)
    assert_type(counter.count("text"), int)
    ls.TokenBudget(100, counter)
    briefing = lp.Briefing("size")
    providers: list[lp.ContextProvider] = [lp.Identity("x"), lp.History(), Weather(), Garden(), lp.Recitation(briefing)]
    builder = lp.PromptBuilder(laser, providers, tokens=counter, profile=lp.PromptProfile(lp.PromptBudget(4_000)))
    prompt = await builder.build(session, "hello", tools=briefing.tools(), variables={"page": "cart"})
    assert_type(prompt, lp.BuiltPrompt)
    assert_type(prompt.system, str)
    assert_type(prompt.messages, tuple[bytes, ...])
    assert_type(prompt.chat_messages(), list[dict[str, Any]])
    assert_type(prompt.trace.invalidated, str | None)
    assert_type(await lp.read_traces(session.scope()), list[lp.PromptTrace])
    assert_type(await briefing.read(laser, session.scope()), lp.BriefingState)
    await builder.record_usage(prompt, lp.TraceUsage(input_tokens=10))
    assert_type(lp.check_builder(builder), list[lp.Finding])
