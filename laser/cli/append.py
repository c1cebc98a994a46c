"""``laser append``: one message onto the log."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

import laser as ls
from laser.cli.options import DEFAULT_TIMEOUT, AsJson, Stream, Timeout, Url, conversation_id, require_topics
from laser.cli.output import console, print_json
from laser.cli.running import run
from laser.cli.streams import read_stdin

__all__ = ["append"]


def append(
    conversation: Annotated[
        str,
        typer.Argument(
            metavar="CONVERSATION",
            help="A conversation id, @KEY for the id derived from a key of yours, or 'new' for a new conversation.",
            show_default=False,
        ),
    ],
    text: Annotated[
        str | None, typer.Argument(help="The message; without it, or as '-', the bytes of stdin.", show_default=False)
    ] = None,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic to append to.")] = ls.AgentTopic.Sessions,
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", help="Who writes the message.", show_default=False)
    ] = None,
    record_id: Annotated[
        str | None,
        typer.Option(
            "--id", help="The record's id, from an earlier try: nothing is written twice.", show_default=False
        ),
    ] = None,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Append one message to a conversation, and print where it landed."""

    async def work() -> None:
        chosen = ls.new_conversation_id() if conversation == "new" else conversation_id(conversation)
        identity = None if record_id is None else _parse_record_id(record_id)
        payload = await read_stdin() if text in (None, "-") else text
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            await require_topics(laser, [topic])
            receipt = await laser.context(chosen).append(topic, payload or b"", agent=agent, id=identity)
            if as_json:
                value = msgspec.structs.asdict(receipt) | {"id": str(receipt.id)}
                print_json({"conversation": chosen, "topic": topic} | value)
            else:
                console().print(f"{chosen}  {topic} {receipt.partition}:{receipt.offset}  id {receipt.id}")

    run(work)


def _parse_record_id(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 40):
        raise ls.InvalidError(f"--id: {text[:64]!r} is not a whole number", argument="--id")
    return int(text)
