"""``laser import``: a chat transcript onto the log by several agent processes, and back under a token budget."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from anyio import to_thread
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import laser as ls
from laser.cli.agents import Killed, run_agents
from laser.cli.bootstrap import KEEP_DAYS, PARTITIONS, days
from laser.cli.importing import Progress as Step
from laser.cli.importing import Share, split_shares, verify
from laser.cli.options import DEFAULT_TIMEOUT, AsJson, Stream, Timeout, Url
from laser.cli.output import console, plain, print_json
from laser.cli.running import run
from laser.cli.transcripts import Transcript, read_transcripts
from laser.model.checks import check_name

__all__ = ["ImportReport", "import_transcript", "next_options"]


class ImportReport(msgspec.Struct, frozen=True):
    """The figures of an import.

    Attributes:
        file: its name. stream, topic: where to. conversations, messages: in the file; all were read back and compared.
        written: appended by this run. found: on the log already.
        tokens: of all messages, estimated. budget: tokens a conversation. kept, dropped: tokens under that budget.
        kept_messages: messages under the budget. partitions: those that hold messages. all_partitions: of the topic.
        others: messages of these conversations that are not from the file.
        agents: processes that wrote; 0 for ``memory:``. killed: the one that was killed, if any.
        seconds: writing and reading back.
    """

    file: str
    stream: str
    topic: str
    conversations: int
    messages: int
    written: int
    found: int
    tokens: int
    budget: int
    kept: int
    dropped: int
    kept_messages: int
    partitions: int
    all_partitions: int
    others: int
    agents: int
    killed: Killed | None
    seconds: float


def import_transcript(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON Lines or JSON in the OpenAI chat shape.", show_default=False)
    ],
    agents: Annotated[int, typer.Option("--agents", min=1, max=64, help="Agent processes that write at once.")] = 3,
    budget: Annotated[
        int, typer.Option("--budget", "-b", help="Tokens of a conversation to read back at the end.")
    ] = 4000,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic to write to.")] = ls.AgentTopic.Sessions,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="Partitions of a new topic.")] = PARTITIONS,
    keep_days: Annotated[
        float, typer.Option("--keep-days", help="Days that a new agent.sessions keeps its records.")
    ] = KEEP_DAYS,
    kill_one: Annotated[
        bool, typer.Option("--kill-one", help="Kill -9 one agent process half-way, to see the import go on.")
    ] = False,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Write the conversations of a file onto the log and read them back.

    Several agent processes write at once, each whole conversations. A message's record id comes from its conversation
    and place, so importing again, or after a crash, doubles nothing. Everything is read back and compared with the
    file; then each conversation is fetched under the token budget.
    """

    async def work() -> None:
        policy = ls.Chain([ls.TokenBudget(budget), ls.ToolPairs()])
        retention = ls.TopicRetention(expire_after=days(keep_days))
        check_name(topic, "topic")
        transcripts = await to_thread.run_sync(read_transcripts, file)
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            begun = time.perf_counter()
            await laser.bootstrap(partitions, retention)
            if topic not in ls.AgentTopic.ALL:
                await laser.ensure_topic(topic, partitions)
            processes = (await laser.info()).engine != "memory"
            like = Share(url, stream, timeout, topic, [])
            shares = split_shares(transcripts, agents, like)
            with _progress(transcripts, quiet=as_json) as (on_step, on_read):
                tally = _Tally(on_step)
                killed = await run_agents(
                    laser, shares, tally.add, kill_one=kill_one and processes, processes=processes
                )
                reading = await _read_back(laser, transcripts, topic, policy, on_read)
            report = ImportReport(
                file=file.name,
                stream=laser.stream,
                topic=topic,
                conversations=len(transcripts),
                messages=sum(len(transcript.messages) for transcript in transcripts),
                written=tally.written,
                found=tally.found,
                tokens=reading.tokens,
                budget=budget,
                kept=reading.kept,
                dropped=reading.tokens - reading.kept,
                kept_messages=reading.kept_messages,
                partitions=len(reading.partitions),
                others=reading.others,
                all_partitions=len((await laser.topic(topic)).partitions),
                agents=len(shares) if processes else 0,
                killed=killed,
                seconds=time.perf_counter() - begun,
            )
            if as_json:
                print_json(msgspec.structs.asdict(report) | {"killed": killed and msgspec.structs.asdict(killed)})
            else:
                _print_report(report)
                if processes:
                    _print_next(report, transcripts, url)

    run(work)


class _Tally:
    """Counts what the agents did."""

    def __init__(self, on_step: Callable[[int], None]) -> None:
        self.written = 0
        self.found = 0
        self._on_step = on_step

    def add(self, step: Step) -> None:
        self.written += step.written
        self.found += step.found
        self._on_step(step.written + step.found)


class _Reading:
    """What reading back found."""

    def __init__(self) -> None:
        self.tokens = 0
        self.kept = 0
        self.kept_messages = 0
        self.others = 0
        self.partitions: set[int] = set()


async def _read_back(
    laser: ls.Laser, transcripts: list[Transcript], topic: str, policy: ls.ContextPolicy, on_read: Callable[[int], None]
) -> _Reading:
    reading = _Reading()
    for transcript in transcripts:
        whole, others = await verify(laser, transcript, topic)
        reading.others += others
        kept = await laser.context(transcript.conversation_id).fetch_with([topic], policy)
        mine = {message.record_id for message in whole}
        reading.tokens += sum(ls.estimate_tokens(message.payload) for message in whole)
        reading.kept += sum(ls.estimate_tokens(message.payload) for message in kept if message.record_id in mine)
        reading.kept_messages += sum(message.record_id in mine for message in kept)
        reading.partitions.update(message.partition for message in whole)
        on_read(len(whole))
    return reading


@contextmanager
def _progress(
    transcripts: list[Transcript], *, quiet: bool
) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """Two bars on stderr, one for writing and one for reading back; yields how to move them. Quiet: none."""
    if quiet:
        yield (lambda _: None), (lambda _: None)
        return
    total = sum(len(transcript.messages) for transcript in transcripts)
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("messages"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
    with bars:
        writing = bars.add_task("writing", total=total)
        reading = bars.add_task("reading back", total=total)
        yield lambda count: bars.advance(writing, count), lambda count: bars.advance(reading, count)


def _print_report(report: ImportReport) -> None:
    table = Table(show_header=False, title=f"{plain(report.file)} on stream {report.stream}", title_justify="left")
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_column("note", style="dim")
    agents = f"by {report.agents} agent processes" if report.agents else "by this process: memory: ends with it"
    if report.agents == 1:
        agents = "by 1 agent process"
    table.add_row("conversations", f"{report.conversations:,}", f"topic {plain(report.topic)}")
    table.add_row("messages", f"{report.messages:,}", "all read back, equal in bytes and order")
    table.add_row("  written now", f"{report.written:,}", agents)
    table.add_row("  there already", f"{report.found:,}", "written by an earlier run or a killed process")
    if report.others:
        table.add_row("  not from it", f"{report.others:,}", "of others, in the same conversations")
    table.add_row("tokens", f"{report.tokens:,}", "estimated: bytes / 4")
    table.add_row(
        "  kept", f"{report.kept:,}", f"{report.kept_messages:,} messages, {report.budget:,} tokens a conversation"
    )
    table.add_row("  dropped", f"{report.dropped:,}", "from the view only: the log keeps them")
    table.add_row("partitions", f"{report.partitions}", f"of {report.all_partitions}")
    table.add_row("time", f"{report.seconds:.2f} s", f"{report.messages / report.seconds:,.0f} messages/s")
    out = console()
    out.print(table)
    killed = report.killed
    if killed is not None:
        out.print(
            f"Agent process {killed.pid} was killed (kill -9) when it had told of {killed.reported} of its "
            f"{killed.messages} messages. Another one found {killed.resumed_at} of them on the log and went on from "
            "there. A reader sees each message once: lost 0, doubled 0."
        )


def _print_next(report: ImportReport, transcripts: list[Transcript], url: str | None) -> None:
    program = _program()
    options = next_options(url, report.stream, report.topic)
    key = shlex.quote(f"@{max(transcripts, key=lambda one: len(one.messages)).key}")
    out = console()
    out.print("\nNext:")
    out.print(f"  {program} fetch {key} --budget {report.budget} --pairs{options}")
    out.print(f"  {program} append {key} 'And one more thing.' --agent user{options}")
    out.print(f"  {program} tail {key}{options}")


def next_options(url: str | None, stream: str, topic: str) -> str:
    """The options that lead another command to the same place, without repeating a password on the screen."""
    options = "" if stream == "laser" else f" --stream {shlex.quote(stream)}"
    if url is not None and url != "embedded:.laser":
        options += f" --url {'URL' if '@' in url else shlex.quote(url)}"
    return options if topic == ls.AgentTopic.Sessions else f"{options} --topic {shlex.quote(topic)}"


def _program() -> str:
    """How to call this program from where the user is."""
    called = sys.argv[0]
    found = shutil.which("laser")
    if found is not None and Path(found).exists() and Path(called).exists() and Path(found).samefile(called):
        return "laser"
    if Path(called).name == "laser":
        return shlex.quote(os.path.relpath(called))
    return f"{shlex.quote(sys.executable)} -m laser"
