"""``laser compact`` and ``laser strategies``: make what a request shows of a session smaller."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
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
from laser.cli.output import console, plain, print_json
from laser.cli.running import run
from laser.cli.session import open_session
from laser.cli.session_views import tokens_text
from laser.cli.summarizing import SummarizerCommand, make_summarizer
from laser.prompt.notes import read_notes

__all__ = ["compact", "print_observation", "strategies"]


def compact(
    session: Conversation,
    strategy: Annotated[
        str | None,
        typer.Argument(
            metavar="[STRATEGY]",
            help="Choose this strategy for the session first, one of `laser strategies`.",
            show_default=False,
        ),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            "--window",
            help="Tokens of the model's window. Without it the newest quarter of the session stays as it is.",
            show_default=False,
        ),
    ] = None,
    keep_last: Annotated[
        int | None,
        typer.Option(
            "--keep-last",
            help="Messages that stay as they are, at least; the newest turn of the user stays in any case.",
            show_default=False,
        ),
    ] = None,
    active: Annotated[
        bool, typer.Option("--active", help="The session's active context, in place of what its messages give.")
    ] = False,
    summarizer_command: SummarizerCommand = None,
    summary_timeout: Annotated[float, typer.Option("--summary-timeout", help="Seconds that a summary may take.")] = 120,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Summarise the older part of a session. The log keeps every message; only what requests show becomes smaller."""

    async def work() -> None:
        chosen = conversation_id(session, "CONVERSATION")
        summarizer = make_summarizer(summarizer_command)
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            progress = None if as_json else _Progress()
            if active:
                compactor = ls.strategy_compactor(
                    summarizer,
                    ls.StrategyRegistry().get(strategy or "rolling"),
                    window=window,
                    keep_last=keep_last,
                    timeout=summary_timeout,
                    progress=progress,
                )
                await _compact_active(laser, chosen, compactor, progress, as_json)
                return
            await require_topics(laser, [ls.AgentTopic.Sessions])
            repairs = (await read_notes(laser, laser.context(chosen))).repairs
            compaction = ls.Compaction(laser, chosen, summarizer=summarizer, timeout=summary_timeout, repairs=repairs)
            before = await compaction.observe(window=window)
            if not before.rows:
                raise ls.NotFoundError(
                    f"conversation {chosen} has no messages on {ls.AgentTopic.Sessions} in stream {laser.stream!r}; "
                    "--active compacts the active context of a session",
                    stream=laser.stream,
                )
            after = await compaction.compact(strategy, window=window, keep_last=keep_last, progress=progress)
            if progress is not None:
                progress.end()
            _print(before, after, as_json)

    run(work)


def strategies(as_json: AsJson = False) -> None:
    """List the compaction strategies."""
    registry = ls.StrategyRegistry()
    found = [registry.get(name) for name in registry.names]
    if as_json:
        print_json(
            {
                "default": registry.default,
                "strategies": [{"name": one.name, **msgspec.structs.asdict(one.limits)} for one in found],
            }
        )
        return
    table = Table()
    for column in ("strategy", "compacts at", "leaves", "what it does"):
        table.add_column(column)
    for one in found:
        name = f"{one.name} (default)" if one.name == registry.default else one.name
        limits = one.limits
        does = (type(one).__doc__ or "").strip().splitlines()[0]
        table.add_row(name, f"{limits.trigger_percent} % of the window", f"{limits.tail_percent} %", does)
    console().print(table)


class _Progress:
    """One line on stderr that says how far it is: rewritten on a terminal, else once for each summary."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._said = -1

    def __call__(self, progress: ls.CompactionProgress) -> None:
        if not self._terminal and progress.summaries == self._said:
            return
        self._said = progress.summaries
        percent = 100 * progress.done // max(1, progress.total)
        text = (
            f"{progress.strategy}: {min(percent, 100)} % of {progress.total:,} tokens, {progress.summaries} summaries"
        )
        sys.stderr.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Ends the line."""
        if self._terminal and self._said >= 0:
            sys.stderr.write("\n")


async def _compact_active(
    laser: ls.Laser, session: str, compactor: ls.Compactor, progress: _Progress | None, as_json: bool
) -> None:
    handle = await open_session(laser, session)
    before = await handle.active.read()
    after = await handle.compact(compactor)
    if progress is not None:
        progress.end()
    changed = after.entries != before.entries
    if as_json:
        print_json(
            {
                "session": session,
                "status": "compacted" if changed else "nothing_to_fold",
                "revision": after.revision,
                "entries_before": len(before.entries),
                "entries": len(after.entries),
                "tokens_before": before.tokens,
                "tokens": after.tokens,
            }
        )
        return
    out = console()
    out.print(f"session   {session}: {'compacted' if changed else 'nothing to fold'} (active context)")
    out.print(f"entries   {len(before.entries):,} -> {len(after.entries):,}, revision {after.revision}")
    out.print(f"tokens    {tokens_text(before.tokens)} -> {tokens_text(after.tokens)} (estimated)")


def _print(before: ls.ContextObservation, after: ls.ContextObservation, as_json: bool) -> None:
    if as_json:
        value: dict[str, Any] = msgspec.to_builtins(after)
        print_json(value | {"tokens_before": before.tokens})
        return
    out = console()
    what = {"compacted": "compacted", "nothing_to_fold": "nothing to fold"}.get(after.status, after.status)
    out.print(f"session   {after.session}: {what} ({after.strategy})")
    out.print(f"messages  {after.rows:,}, of which {after.covered:,} are summarised")
    out.print(f"tokens    {before.tokens:,} -> {after.tokens:,} (estimated; all messages {after.full_tokens:,})")
    _print_sections(out, after)


def print_observation(out: Console, seen: ls.ContextObservation) -> None:
    """A session's next request, as its strategy makes it of the messages."""
    out.print()
    out.print(Text(f"== request of its {seen.rows:,} messages ==", style="bold"))
    note = f": {seen.note}" if seen.note else ""
    out.print(Text(plain(f"strategy  {seen.strategy or 'none'}, {seen.status.replace('_', ' ')}{note}")))
    window = "unknown" if seen.window is None else f"{seen.window:,} tokens, compacted from {seen.trigger or 0:,} on"
    out.print(f"window    {window}")
    out.print(f"messages  {seen.rows:,}, of which {seen.covered:,} are summarised")
    out.print(f"tokens    {seen.tokens:,} (estimated; all messages {seen.full_tokens:,})")
    _print_sections(out, seen)


def _print_sections(out: Console, seen: ls.ContextObservation) -> None:
    for section in seen.sections:
        rows = "" if section.first is None else f", rows {section.first} to {section.last}"
        out.print(plain(f"          {section.kind}: {section.inputs} inputs, {section.tokens:,} tokens{rows}"))
