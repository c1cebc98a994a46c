"""``laser context``: what a session's next model call will consume, in full."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.text import Text

import laser as ls
from laser.cli.compact import print_observation
from laser.cli.options import DEFAULT_TIMEOUT, AsJson, SessionId, Stream, Timeout, Url, conversation_id
from laser.cli.output import console, plain, print_json
from laser.cli.running import run
from laser.cli.session import open_session
from laser.cli.session_views import context_json, tokens_text, words

__all__ = ["contexts"]

contexts = typer.Typer(help="Look at what a model is given.", no_args_is_help=True, rich_markup_mode=None)

_LINES: Final = 6
_WIDTH: Final = 160


@contexts.command("show")
def show(
    session: SessionId,
    whole: Annotated[bool, typer.Option("--whole", help="Every text whole, not only its first lines.")] = False,
    window: Annotated[
        int | None,
        typer.Option("--window", help="Tokens of the model's window, for the request.", show_default=False),
    ] = None,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print a session's context section by section, with where each entry is from and what it costs.

    Estimated tokens are what laser reckons that entries cost; measured ones are what the provider counted. Where the
    session has messages, the sections of the request that its compaction strategy makes of them come last. Nothing is
    compacted, and nothing is written.
    """

    async def work() -> None:
        chosen = conversation_id(session, "SESSION")
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            state: ls.ActiveState | None = None
            seen: ls.ContextObservation | None = None
            missing: ls.NotFoundError | None = None
            try:
                state = (await (await open_session(laser, chosen)).read()).context
            except ls.NotFoundError as error:
                missing = error  # a conversation that is no session can have messages all the same
            try:
                seen = await ls.Compaction(laser, chosen, inherit=False).observe(window=window)
            except ls.NotFoundError:
                pass  # a strategy of the program's own
            if missing is not None and (seen is None or not seen.rows):
                raise missing
            if as_json:
                context = {} if state is None else context_json(state)
                print_json({"session": chosen, **context, "request": msgspec.to_builtins(seen)})
                return
            if state is not None:
                _print(console(), chosen, state, whole)
            if seen is not None and seen.rows:
                print_observation(console(), seen)

    run(work)


def _print(out: Console, session: str, state: ls.ActiveState, whole: bool) -> None:
    out.print(f"context of session {session}, revision {state.revision}")
    instructions = [held for held in state.entries if held.kind == "instruction"]
    for title, entries in (
        ("instructions", instructions),
        ("conversation", state.entries[len(instructions) :]),
    ):
        out.print()
        out.print(Text(f"== {title} ({len(entries)}) ==", style="bold"))
        for held in entries:
            _print_entry(out, held, whole)
    out.print()
    out.print(f"estimated tokens of all entries   {tokens_text(state.tokens)}")
    compactable = ls.compactable_tokens(state.entries)
    out.print(f"estimated tokens to be compacted  {tokens_text(compactable)}")
    measured = {} if state.run is None else state.run.usage
    if not measured:
        out.print("measured by the provider          nothing yet")
    for name, count in measured.items():
        out.print(Text(plain(f"measured by the provider          {name} {count:,}")))


def _print_entry(out: Console, held: ls.ContextEntry, whole: bool) -> None:
    entry = held.entry
    marks = [
        *([f"key {entry.key}"] if entry.key is not None else []),
        *([f"from {entry.source}"] if entry.source is not None else []),
        *([f"origin {entry.origin}"] if entry.origin is not None else []),
        *([f"made from {entry.provenance[:12]}"] if entry.provenance is not None else []),
        *([f"{entry.api} native"] if entry.api is not None else []),
        *(["superseded"] if held.superseded else []),
        *([f"supersedes {held.supersedes}"] if held.supersedes is not None else []),
        *([f"goes with run {held.run}"] if held.run is not None else []),
        f"about {tokens_text(entry.tokens)} tokens",
    ]
    head = Text()
    head.append(f"[{held.id}] {held.kind}", style="bold")
    head.append(plain(f"  {', '.join(marks)}"), style="dim")
    out.print(head)
    text = f"content {entry.ref.digest} ({entry.ref.media_type})" if entry.ref is not None else words(entry)
    lines = text.splitlines()
    shown = lines if whole else [line[:_WIDTH] for line in lines[:_LINES]]
    for line in shown:
        out.print(Text(f"    {plain(line)}"))
    if not whole and (len(lines) > _LINES or any(len(line) > _WIDTH for line in lines[:_LINES])):
        out.print(Text("    …", style="dim"))
