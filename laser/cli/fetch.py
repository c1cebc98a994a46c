"""``laser fetch``: the newest messages of a conversation."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

import laser as ls
from laser.cli.options import (
    DEFAULT_TIMEOUT,
    AsJson,
    Conversation,
    Stream,
    Timeout,
    Topics,
    Url,
    conversation_id,
    require_topics,
)
from laser.cli.output import console, message_json, print_json, print_message, print_nothing, print_skipped
from laser.cli.running import run

__all__ = ["fetch"]


def fetch(
    conversation: Conversation,
    n: Annotated[int, typer.Option("-n", "--last", help="How many of the newest messages.")] = 50,
    budget: Annotated[
        int | None,
        typer.Option("--budget", "-b", help="Tokens that they may cost together.", show_default=False),
    ] = None,
    agents: Annotated[
        list[str] | None,
        typer.Option("--agent", "-a", help="Only messages of this agent; repeat it for more.", show_default=False),
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Keep tool calls together with their results, as model providers ask.")
    ] = False,
    topics: Topics = None,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print the newest messages of a conversation, oldest first."""

    async def work() -> None:
        chosen = conversation_id(conversation)
        names = topics or [ls.AgentTopic.Sessions]
        policy = _policy(n, budget, agents, pairs)
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            await require_topics(laser, names)
            messages = await laser.context(chosen).fetch_with(names, policy)
            if as_json:
                print_json(
                    {
                        "conversation": chosen,
                        "messages": [message_json(message) for message in messages],
                        "skipped": [msgspec.structs.asdict(record) for record in messages.skipped],
                    }
                )
                return
            out = console()
            for message in messages:
                print_message(out, message)
            if not messages:
                print_nothing(f"no messages of conversation {chosen} in {', '.join(names)}")
            print_skipped(messages.skipped)

    run(work)


def _policy(n: int, budget: int | None, agents: list[str] | None, pairs: bool) -> ls.Chain:
    steps: list[ls.ContextPolicy] = [ls.RoleFilter(agents)] if agents else []
    steps.append(ls.LastN(n))
    if budget is not None:
        steps.append(ls.TokenBudget(budget))
    if pairs:
        steps.append(ls.ToolPairs())
    return ls.Chain(steps)
