"""``laser prompt``: what a session's next prompt holds, and what its prompts held before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import anyio
import msgspec
import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import laser as ls
import laser.prompt as lp
from laser.cli.options import DEFAULT_TIMEOUT, AsJson, SessionId, Stream, Timeout, Url, conversation_id
from laser.cli.output import console, plain, print_json
from laser.cli.running import run

__all__ = ["prompts"]

prompts = typer.Typer(help="Look at the prompts of sessions.", no_args_is_help=True, rich_markup_mode=None)

_LINES: Final = 6
_WIDTH: Final = 160

Tokens = Annotated[str, typer.Option("--tokens", help=f"Who counts: {', '.join(lp.TOKENIZERS)}.")]


@prompts.command("show")
def show(
    session: SessionId,
    message: Annotated[str, typer.Option("--message", "-m", help="The next message of the user.")] = "",
    identity: Annotated[
        Path | None, typer.Option("--identity", help="A file with the agent's system text.", show_default=False)
    ] = None,
    field: Annotated[
        list[str] | None, typer.Option("--field", help="A field of the briefing; repeat it for more.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", help="The namespace of the agent's memory.", show_default=False)
    ] = None,
    customer: Annotated[str | None, typer.Option("--customer", help="Whose memory.", show_default=False)] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Of which tenant.", show_default=False)] = None,
    budget: Annotated[int, typer.Option("--budget", help="Tokens of the prompt.")] = 8_000,
    reply: Annotated[int, typer.Option("--reply", help="Tokens kept free for the answer.")] = 1_024,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="The agent's name.", show_default=False)] = None,
    tokens: Tokens = "bytes/4",
    whole: Annotated[bool, typer.Option("--whole", help="Every text whole, not only its first lines.")] = False,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print the prompt that a session's next turn would have, section by section, with what each costs.

    It is built from what the log holds: history, conversation summary, briefing, and memory where one is named. What
    only the agent's own program knows, such as its tools, is not in it. Nothing is written.
    """

    async def work() -> None:
        chosen = conversation_id(session, "SESSION")
        text = "" if identity is None else await _read(identity)
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            providers: list[lp.ContextProvider] = [lp.Identity(text), lp.History(), lp.Request()]
            if field:
                briefing = lp.Briefing(*field)
                providers += [lp.BriefingKnown(briefing), lp.Recitation(briefing)]
            if memory is not None:
                providers.append(lp.MemoryFacts(laser.memory(memory)))
            builder = lp.PromptBuilder(
                laser,
                providers,
                profile=lp.PromptProfile(lp.PromptBudget(budget, reply)),
                tokens=ls.tokens(tokens),
                agent=agent,
            )
            prompt = await builder.build(chosen, message, customer=customer, tenant=tenant, record=False)
            if as_json:
                print_json(_json(chosen, prompt))
                return
            _print(console(), chosen, prompt, whole)

    run(work)


@prompts.command("trace")
def trace(
    session: SessionId,
    last: Annotated[int, typer.Option("-n", "--last", help="How many of the newest audit records to look at.")] = 50,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print how a session's prompts came about, a line for each turn: counts and digests, no content."""

    async def work() -> None:
        chosen = conversation_id(session, "SESSION")
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            found = await lp.read_traces(laser.context(chosen), last)
            if as_json:
                print_json({"session": chosen, "traces": msgspec.to_builtins(found)})
                return
            if not found:
                raise ls.NotFoundError(
                    f"session {chosen} has no prompts on {ls.AgentTopic.Audit}: PromptBuilder.build records them",
                    stream=laser.stream,
                    topic=ls.AgentTopic.Audit,
                )
            console().print(_table(chosen, found))
            for warning in found[-1].warnings:
                console().print(Text(f"warning: {plain(warning)}"))

    run(work)


async def _read(path: Path) -> str:
    try:
        return await anyio.Path(path).read_text("utf-8", "replace")
    except OSError as error:
        raise ls.InvalidError(f"--identity: cannot be read: {error.strerror}", argument="--identity") from error


def _json(session: str, prompt: lp.BuiltPrompt) -> dict[str, Any]:
    return {
        "session": session,
        "system": prompt.system,
        "messages": [orjson.loads(message) for message in prompt.messages],
        "sections": msgspec.to_builtins(prompt.sections),
        "trace": msgspec.to_builtins(prompt.trace),
    }


def _print(out: Console, session: str, prompt: lp.BuiltPrompt, whole: bool) -> None:
    report = prompt.trace.budget
    out.print(f"prompt of session {session}, tokens by {prompt.trace.tokenizer}")
    out.print(
        f"budget {report.budget}: reply {report.reply}, tools {report.tools}, message {report.message}, "
        f"left {report.available}; used {report.used} of {report.wanted} wanted: {report.verdict}"
    )
    for one in prompt.trace.evicted:
        out.print(f"evicted {one.fragments} of {plain(one.category)}, {one.tokens} tokens: {one.reason}")
    for warning in prompt.trace.warnings:
        out.print(Text(f"warning: {plain(warning)}"))
    for section in prompt.sections:
        out.print()
        title = f"== {section.category}, {section.layer}, {section.place}, priority {section.priority} =="
        out.print(Text(plain(title), style="bold"), Text(f"{section.tokens} tokens", style="dim"))
        out.print(Text(plain(section.text if whole else _beginning(section.text))))


def _beginning(text: str) -> str:
    lines = [line if len(line) <= _WIDTH else f"{line[:_WIDTH]} …" for line in text.splitlines()]
    return "\n".join(lines if len(lines) <= _LINES else [*lines[:_LINES], f"… {len(lines) - _LINES} more lines"])


def _table(session: str, traces: list[lp.PromptTrace]) -> Table:
    table = Table(title=f"prompts of session {session}", title_justify="left")
    for column in ("turn", "used", "of", "stable", "categories", "evicted", "broke", "cached", "ms"):
        table.add_column(column, justify="right" if column in ("used", "of", "stable", "cached", "ms") else "left")
    for one in traces:
        categories = ", ".join(f"{held.category} {held.tokens}" for held in one.categories)
        evicted = ", ".join(f"{held.category} {held.fragments}" for held in one.evicted)
        table.add_row(
            one.turn[-6:],
            str(one.budget.used),
            str(one.budget.available),
            str(one.stable_tokens),
            plain(categories),
            plain(evicted or "-"),
            plain(one.invalidated or "-"),
            _cached(one.usage),
            f"{one.milliseconds:.1f}",
        )
    return table


def _cached(usage: lp.TraceUsage | None) -> str:
    if usage is None or usage.cache_read_tokens is None or not usage.input_tokens:
        return "-"
    # What was read from the cache is part of the input.
    return f"{usage.cache_read_tokens / usage.input_tokens:.0%}"
