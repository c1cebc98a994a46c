"""``laser session``: sessions and how they stand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, cast

import msgspec
import typer
from rich.table import Table
from rich.text import Text

import laser as ls
from laser.cli.options import DEFAULT_TIMEOUT, AsJson, SessionId, Stream, Timeout, Url, conversation_id, require_topics
from laser.cli.output import console, indented_json, moment_text, plain, print_json
from laser.cli.running import run
from laser.session.lifecycle import SESSION_STATES

__all__ = ["open_session", "sessions"]

sessions = typer.Typer(help="Look at sessions, and end them.", no_args_is_help=True, rich_markup_mode=None)

_ENDS = SESSION_STATES[1:]


@sessions.command("list")
def list_(
    state: Annotated[
        str | None,
        typer.Option(
            "--state", "-s", help=f"Only those in this state: {', '.join(SESSION_STATES)}.", show_default=False
        ),
    ] = None,
    parent: Annotated[
        str | None,
        typer.Option("--parent", help="Only the children of this session: an id, or @KEY.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--last", help="How many of the newest.")] = 100,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List sessions, newest first."""

    async def work() -> None:
        # The client refuses a state that it does not know.
        wanted = cast("ls.SessionState | None", state)
        above = None if parent is None else conversation_id(parent, "--parent")
        async with _connect(url, stream, timeout) as laser:
            await require_topics(laser, [ls.AgentTopic.Control])
            found = await laser.sessions().list(state=wanted, parent=above, limit=limit)
            if as_json:
                print_json({"stream": laser.stream, "sessions": [_json(status) for status in found]})
                return
            table = Table(title=f"sessions of stream {laser.stream}", title_justify="left")
            for column in ("session", "state", "started", "finished", "agent", "label"):
                # An id that is cut short is of no use to the next command.
                table.add_column(column, no_wrap=column == "session")
            for status in found:
                table.add_row(
                    status.id,
                    status.state,
                    moment_text(status.started_at_micros),
                    moment_text(status.finished_at_micros),
                    plain(status.agent or "-"),
                    plain(status.label or "-"),
                )
            console().print(table)

    run(work)


@sessions.command("show")
def show(
    session: SessionId,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print how a session stands, and its children."""

    async def work() -> None:
        chosen = conversation_id(session, "SESSION")
        async with _connect(url, stream, timeout) as laser:
            opened = await open_session(laser, chosen)
            status = await opened.status()
            children = await laser.sessions().list(parent=chosen)
            _print(status, children, as_json)

    run(work)


@sessions.command("end")
def end(
    session: SessionId,
    state: Annotated[str, typer.Option("--as", help=f"How it finishes: {', '.join(_ENDS)}.")] = "ended",
    error: Annotated[
        str | None, typer.Option("--error", help="What went wrong; with --as failed.", show_default=False)
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Who ends it.", show_default=False)] = None,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Finish a session. One that finished in another way before stays as it is: exit code 1."""

    async def work() -> None:
        chosen = conversation_id(session, "SESSION")
        if state not in _ENDS:
            raise ls.InvalidError(f"--as: {state!r} is not one of {', '.join(_ENDS)}", argument="--as")
        if error is not None and state != "failed":
            raise ls.InvalidError("--error: goes with --as failed", argument="--error")
        async with _connect(url, stream, timeout) as laser:
            opened = await open_session(laser, chosen, agent)
            ends: dict[str, Callable[[], Awaitable[ls.SessionStatus]]] = {
                "ended": opened.end,
                "cancelled": opened.cancel,
                "failed": lambda: opened.fail(error),
            }
            _print(await ends[state](), [], as_json)

    run(work)


async def open_session(laser: ls.Laser, session: str, agent: str | None = None) -> ls.Session:
    """A session that was started before.

    Raises:
        NotFoundError: it was not; the text names the command that lists those that were.
    """
    try:
        return await laser.sessions().open(session, agent=agent)
    except ls.NotFoundError as error:
        raise ls.NotFoundError(
            f"session {session} is not on stream {laser.stream!r}; laser session list shows those that are",
            stream=error.stream,
            topic=error.topic,
        ) from error


def _connect(url: str | None, stream: str | None, timeout: float) -> Any:
    return ls.Laser.connect(url, stream=stream, timeout=timeout)


def _print(status: ls.SessionStatus, children: list[ls.SessionStatus], as_json: bool) -> None:
    if as_json:
        print_json(_json(status) | {"children": [child.id for child in children]})
        return
    out = console()
    out.print(f"session   {status.id}: {status.state}")
    for name, value in (
        ("label", status.label),
        ("agent", status.agent),
        ("parent", status.parent),
        ("root", status.root),
    ):
        if value is not None:
            out.print(Text(f"{name:10}{plain(value)}"))
    if status.origin is not None:
        out.print(f"fork of   {status.origin.session}, {status.origin.messages} messages")
    out.print(f"started   {moment_text(status.started_at_micros)}")
    if status.finished_at_micros is not None:
        out.print(f"finished  {moment_text(status.finished_at_micros)}")
    if status.error is not None:
        text = status.error if isinstance(status.error, str) else indented_json(status.error)
        out.print(Text(f"error     {plain(text)}"))
    for child in children:
        out.print(Text(f"child     {child.id}  {child.state}  {plain(child.label or '')}".rstrip()))


def _json(status: ls.SessionStatus) -> dict[str, Any]:
    value = msgspec.structs.asdict(status)
    # Ids of records have 128 bits, more than a number in JSON holds everywhere.
    value["origin"] = None if status.origin is None else msgspec.to_builtins(status.origin)
    value["decided_by"] = None if status.decided_by is None else str(status.decided_by)
    return value
