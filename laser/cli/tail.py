"""``laser tail``: a conversation as it grows."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

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
from laser.cli.output import console, message_json, print_json, print_message, print_skipped
from laser.cli.running import run

__all__ = ["tail"]


def tail(
    conversation: Conversation,
    n: Annotated[int, typer.Option("-n", "--last", help="How many of the messages there are to begin with.")] = 10,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="End after this many messages.", show_default=False)
    ] = None,
    topics: Topics = None,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print the newest messages of a conversation, then each new one as it comes in. Ctrl-C ends it.

    With --json each message is one line.
    """

    async def work() -> None:
        chosen = conversation_id(conversation)
        names = topics or [ls.AgentTopic.Sessions]
        first = ls.LastN(n)
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            await require_topics(laser, names)
            # What is there ends at the checkpoint, and following starts there: nothing is missed or shown twice.
            start = await laser.context(chosen).checkpoint(names)
            batch = await laser.assemble_context(chosen, topics=names, policy=first, to_checkpoint=start)
            out = console()
            shown = 0
            for message in batch:
                if shown != count:
                    _print(out, message, as_json)
                    shown += 1
            print_skipped(batch.skipped)
            async with laser.context(chosen).follow(names, start) as follow:
                skipped = 0
                while shown != count:
                    entry = await anext(follow)
                    if isinstance(entry, ls.ContextMessage):
                        _print(out, entry, as_json)
                        shown += 1
                    print_skipped(follow.skipped[skipped:])
                    skipped = len(follow.skipped)

    run(work)


def _print(out: Console, message: ls.ContextMessage, as_json: bool) -> None:
    if as_json:
        print_json(message_json(message))
    else:
        print_message(out, message)
