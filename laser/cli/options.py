"""Arguments and options that several commands share, and what they mean."""

from __future__ import annotations

from typing import Annotated, Final

import typer

import laser as ls
from laser.model.ids import parse_conversation_id

__all__ = [
    "AsJson",
    "Conversation",
    "SessionId",
    "Stream",
    "Timeout",
    "Topics",
    "Url",
    "conversation_id",
    "require_topics",
]

DEFAULT_TIMEOUT: Final = 30.0

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        help="Where the log is: embedded:DIRECTORY or iggy://USER:PASSWORD@HOST:PORT. Without it "
        "LASER_CONNECTION_STRING counts, else embedded:.laser. A password is better kept in the variable: "
        "arguments can be seen by every user of the machine.",
        show_default=False,
    ),
]
Stream = Annotated[
    str | None,
    typer.Option(
        "--stream",
        help="The stream. Without it the URL's counts, else LASER_STREAM, else 'laser'.",
        show_default=False,
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds that one call to the log may take.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
Conversation = Annotated[
    str,
    typer.Argument(
        metavar="CONVERSATION",
        help="A conversation id (26 characters), or @KEY for the id derived from a key of yours, such as a ticket.",
        show_default=False,
    ),
]
SessionId = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="The session's id (26 characters), or @KEY for the id derived from a key of yours.",
        show_default=False,
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", help="A topic to read; repeat it for more. Default: agent.sessions."),
]


def conversation_id(text: str, argument: str = "CONVERSATION") -> str:
    """The conversation id that a user typed.

    Raises:
        IdError: neither an id nor ``@KEY``.
    """
    if len(text) > 1 and text.startswith("@"):
        return ls.derive_conversation_id(text[1:])
    try:
        return parse_conversation_id(text)
    except ls.IdError as error:
        shown = repr(text) if len(text) <= 64 else f"a text of {len(text)} characters"
        raise ls.IdError(
            f"{argument}: {shown} is neither a conversation id (26 characters, such as {ls.new_conversation_id()}) "
            "nor @KEY, which stands for the id derived from a key of yours",
            argument=argument,
        ) from error


async def require_topics(laser: ls.Laser, names: list[str]) -> None:
    """Makes sure that topics exist: the library reads an absent one as empty, but here it is most likely a typo.

    Raises:
        NotFoundError: one does not; the text says how to create it.
    """
    present = {topic.name for topic in await laser.topics()}
    for name in names:
        if name not in present:
            there = f"; there are: {', '.join(sorted(present))}" if present else ""
            raise ls.NotFoundError(
                f"topic {name!r} does not exist in stream {laser.stream!r}{there or '; it has no topics yet'} "
                "(laser bootstrap creates the agent topics)",
                stream=laser.stream,
                topic=name,
            )
