"""``laser lcm``: from the summaries of a session back to its messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
import typer
from rich.text import Text

import laser as ls
from laser.cli.options import (
    DEFAULT_TIMEOUT,
    AsJson,
    Conversation,
    Stream,
    Timeout,
    Url,
    conversation_id,
    require_topics,
)
from laser.cli.output import console, plain, print_json, print_nothing
from laser.cli.running import run

__all__ = ["lcm"]

lcm = typer.Typer(
    help="Read the summaries of a session, and what they stand for.", no_args_is_help=True, rich_markup_mode=None
)

Node = Annotated[int, typer.Argument(metavar="NODE", help="The number of a summary, as lcm list shows it.")]
Within = Annotated[
    int | None, typer.Option("--node", help="Only in this summary and what it stands for.", show_default=False)
]
After = Annotated[str | None, typer.Option("--after", help="Where the page before ended.", show_default=False)]


@lcm.command("list")
def list_(
    session: Conversation,
    after: Annotated[int, typer.Option("--after", help="Only summaries with a higher number.")] = 0,
    limit: Annotated[int, typer.Option("-n", "--limit", help="How many, 1 to 200.")] = 50,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List the summaries, also those that no request shows any more."""

    async def work(tools: ls.LcmTools) -> None:
        page = await tools.list(after=after, limit=limit)
        if as_json:
            print_json(msgspec.to_builtins(page))
            return
        out = console()
        for fold in page.folds:
            _print_head(fold)
            out.print(Text(plain(f"    {fold.text.splitlines()[0][:100]}")))
        if not page.folds:
            print_nothing("no summaries; laser compact CONVERSATION lcm makes them")
        _print_next(None if page.next is None else f"--after {page.next}")

    _with_tools(session, url, stream, timeout, work)


@lcm.command("describe")
def describe(
    session: Conversation,
    node: Node,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print a summary, and where its source is."""

    async def work(tools: ls.LcmTools) -> None:
        fold = await tools.describe(node)
        if as_json:
            print_json(msgspec.to_builtins(fold))
            return
        _print_head(fold)
        console().print(Text(plain(fold.text)))

    _with_tools(session, url, stream, timeout, work)


@lcm.command("grep")
def grep(
    session: Conversation,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Literal text; upper and lower case are alike.")],
    node: Within = None,
    after: After = None,
    limit: Annotated[int, typer.Option("-n", "--limit", help="How many hits, 1 to 200.")] = 20,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Find text in all messages of the session, and in its summaries."""

    async def work(tools: ls.LcmTools) -> None:
        page = await tools.grep(text, node=node, after=after, limit=limit)
        if as_json:
            print_json(msgspec.to_builtins(page))
            return
        out = console()
        for hit in page.hits:
            place = f"row {hit.seq} ({hit.role or 'message'})" if hit.seq is not None else f"summary {hit.node}"
            out.print(Text(plain(f"{place}: {' '.join(hit.excerpt.split())}")))
        if not page.hits:
            print_nothing("not found")
        _print_next(None if page.next is None else f"--after {page.next}")

    _with_tools(session, url, stream, timeout, work)


@lcm.command("expand")
def expand(
    session: Conversation,
    node: Annotated[
        int | None, typer.Argument(metavar="[NODE]", help="A summary; without it all messages.", show_default=False)
    ] = None,
    after: After = None,
    limit: Annotated[int, typer.Option("-n", "--limit", help="How many messages, 1 to 200.")] = 20,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print the original messages that a summary stands for, as text."""

    async def work(tools: ls.LcmTools) -> None:
        page = await tools.expand(node, after=after, limit=limit)
        if as_json:
            print_json(msgspec.to_builtins(page))
            return
        out = console()
        for row in page.rows:
            part = "" if row.whole else f", from character {row.start:,}"
            out.print(Text(f"row {row.seq} ({plain(row.role or 'message')}{part})", style="bold"))
            out.print(Text(plain(row.text)))
        _print_next(None if page.next is None else f"--after {page.next}")

    _with_tools(session, url, stream, timeout, work)


def _with_tools(
    session: str, url: str | None, stream: str | None, timeout: float, work: Callable[[ls.LcmTools], Awaitable[None]]
) -> None:
    async def connected() -> None:
        chosen = conversation_id(session, "CONVERSATION")
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            await require_topics(laser, [ls.AgentTopic.Sessions])
            await work(laser.compaction(chosen).lcm)

    run(connected)


def _print_head(fold: ls.FoldInfo) -> None:
    made_of = f"of summaries {', '.join(map(str, fold.children))}" if fold.children else "of messages"
    into = "" if fold.parent is None else f", part of {fold.parent}"
    spans = ", ".join(f"{first}-{last}" for first, last in fold.spans)
    console().print(f"{fold.number}: {made_of}{into}; {fold.rows} messages, rows {spans}, {fold.tokens:,} tokens")


def _print_next(option: str | None) -> None:
    if option is not None:
        console().print(f"more: {option}")
