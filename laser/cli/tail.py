"""``laser tail``: a conversation as it grows."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

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
from laser.cli.output import console, message_json, print_json, print_message, print_skipped
from laser.cli.reading import follow
from laser.cli.running import run

__all__ = ["tail"]


def tail(
    conversation: Conversation,
    n: Annotated[int, typer.Option("-n", "--last", help="How many of the messages there are to begin with.")] = 10,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="End after this many messages.", show_default=False)
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", min=0.01, help="Seconds between two looks at the log.")
    ] = 0.25,
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
            left = count
            # What is there ends at the checkpoint, and following starts there: nothing is missed or shown twice.
            start = await laser.context(chosen).checkpoint(names)
            batch = await laser.assemble_context(chosen, topics=names, policy=first, to_checkpoint=start)
            left = _print_batch(batch, as_json, left)
            async with aclosing(follow(laser, chosen, names, start, interval=interval)) as batches:
                while left != 0:
                    left = _print_batch(await anext(batches), as_json, left)

    run(work)


def _print_batch(batch: ls.Messages, as_json: bool, left: int | None) -> int | None:
    """Prints messages, at most ``left`` of them, and returns how many may still come."""
    out = console()
    for message in batch[:left]:
        if as_json:
            print_json(message_json(message))
        else:
            print_message(out, message)
    print_skipped(batch.skipped)
    return None if left is None else left - len(batch[:left])
