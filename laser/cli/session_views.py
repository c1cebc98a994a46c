"""``laser session transcript``, ``context`` and ``fork``: what happened, what the model sees, and branches."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
import typer
from rich.table import Table
from rich.text import Text

import laser as ls
from laser.cli.options import DEFAULT_TIMEOUT, AsJson, SessionId, Stream, Timeout, Url, conversation_id
from laser.cli.output import console, message_json, plain, print_json, print_message, print_skipped
from laser.cli.running import run
from laser.cli.session import open_session, sessions

__all__ = ["context_json", "tokens_text", "words"]

_SHOWN: Final = 60


@sessions.command("transcript")
def transcript(
    session: SessionId,
    limit: Annotated[int, typer.Option("-n", "--last", help="Messages of the page.")] = 50,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="CURSOR", help="The page before this one: its 'older'.", show_default=False),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="CURSOR", help="What came after a page: its 'live'.", show_default=False),
    ] = None,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print what happened in a session, a page at a time, oldest first. The cursors of a page come with --json."""

    async def work() -> None:
        chosen = conversation_id(session, "SESSION")
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            opened = await open_session(laser, chosen)
            page = await opened.transcript(limit=limit, before=before, after=after)
            if as_json:
                messages = [message_json(message) for message in page.messages]
                print_json({"session": chosen, "messages": messages, "older": page.older, "live": page.live})
            else:
                for message in page.messages:
                    print_message(console(), message)
                if page.older is not None:
                    console().print("There are older messages: ask for more with -n, or page with --json and --before.")
            print_skipped(page.skipped)

    run(work)


@sessions.command("context")
def context(
    session: SessionId,
    revision: Annotated[
        int | None,
        typer.Option("--at", metavar="REVISION", help="As it was at this revision. Default: now.", show_default=False),
    ] = None,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print a session's active context: one line an entry, in the order in which a model sees them."""

    async def work() -> None:
        chosen = conversation_id(session, "SESSION")
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            active = (await open_session(laser, chosen)).active
            state = await active.read() if revision is None else await active.at(revision)
            if as_json:
                print_json({"session": chosen, **context_json(state)})
                return
            out = console()
            out.print(f"revision {state.revision} of session {chosen}")
            if state.run is not None:
                out.print(Text(plain(f"run {state.run.id}: {state.run.state}, {state.run.turns} turns")))
            if state.pending is not None:
                out.print(f"compaction {state.pending.request} is under way, of revision {state.pending.revision}")
            if state.steering:
                out.print(f"{len(state.steering)} inputs wait for the next turn")
            table = Table()
            for column in ("id", "kind", "key", "tokens", "", "text"):
                table.add_column(column)
            for held in state.entries:
                table.add_row(
                    str(held.id),
                    held.kind,
                    Text(plain(held.entry.key or "")),
                    tokens_text(held.entry.tokens),
                    "superseded" if held.superseded else "run" if held.run is not None else "",
                    Text(plain(_brief(held))),
                )
            out.print(table)

    run(work)


@sessions.command("fork")
def fork(
    session: SessionId,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="PARTITION:OFFSET",
            help="Up to this message of agent.sessions, inclusive. Default: now.",
            show_default=False,
        ),
    ] = None,
    label: Annotated[str | None, typer.Option("--label", "-l", help="For people.", show_default=False)] = None,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Who works on it.", show_default=False)] = None,
    clone: Annotated[bool, typer.Option("--clone", help="Only what it is set up with, nothing that was said.")] = False,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", help="Whose content the session refers to, where it does.", show_default=False),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Take the messages that are left when retention took the oldest.")
    ] = False,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Start a session that begins with another one's past, and print its id."""

    async def work() -> None:
        chosen = conversation_id(session, "SESSION")
        if clone and at is not None:
            raise ls.InvalidError("--at: does not go with --clone", argument="--at")
        if clone and partial:
            raise ls.InvalidError("--partial: does not go with --clone", argument="--partial")
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            opened = await open_session(laser, chosen)
            content = None if tenant is None else laser.content(tenant)
            if clone:
                made = await opened.clone(label=label, agent=agent, content=content)
            else:
                moment = None if at is None else await _message(opened, at)
                made = await opened.fork(moment, label=label, agent=agent, partial=partial, content=content)
            origin = (await made.status()).origin
            if as_json:
                print_json({"session": made.id, "origin": None if origin is None else msgspec.to_builtins(origin)})
            else:
                typer.echo(made.id)

    run(work)


async def _message(session: ls.Session, place: str) -> ls.ContextMessage:
    page = await session.transcript(limit=1_000)
    while True:
        for message in page.messages:
            if message.id == place:
                return message
        if page.older is None:
            raise ls.NotFoundError(
                f"--at: session {session.id} has no message {place!r:.40} on {ls.AgentTopic.Sessions}; "
                "laser session transcript shows where its messages are",
                topic=ls.AgentTopic.Sessions,
            )
        page = await session.transcript(limit=1_000, before=page.older)


def context_json(state: ls.ActiveState) -> dict[str, Any]:
    """An active context for programs; payloads as text."""
    return {
        "revision": state.revision,
        "api": state.api,
        "run": None if state.run is None else _run_json(state.run),
        "pending": None if state.pending is None else msgspec.to_builtins(state.pending),
        "steering": len(state.steering),
        "entries": [_entry_json(held) for held in state.entries],
        "tokens": {"estimated": state.tokens, "measured": {} if state.run is None else dict(state.run.usage)},
    }


def tokens_text(count: int | None) -> str:
    """A count of tokens for people."""
    return "?" if count is None else f"{count:,}"


def words(entry: ls.NewEntry) -> str:
    """What a person may see of an entry, else its payload as text."""
    try:
        seen = entry.visible()
    except ls.CodecError:
        seen = ""
    return seen or (entry.payload or b"").decode("utf-8", "replace")


def _run_json(state: ls.RunState) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(state, output=None))
    made["output"] = None if state.output is None else words(state.output)
    return made


def _entry_json(held: ls.ContextEntry) -> dict[str, Any]:
    entry = held.entry
    made: dict[str, Any] = {
        "id": held.id,
        "kind": held.kind,
        "key": entry.key,
        "text": held.text,
        "ref": None if entry.ref is None else msgspec.to_builtins(entry.ref),
        "tokens": entry.tokens,
        "superseded": held.superseded,
        "supersedes": held.supersedes,
    }
    for name in ("call_id", "api", "source", "origin", "provenance"):
        made[name] = getattr(entry, name)
    return made | {"run": held.run, "consumed": held.consumed}


def _brief(held: ls.ContextEntry) -> str:
    text = held.entry.preview or words(held.entry) or (f"content {held.entry.ref.digest}" if held.entry.ref else "")
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
