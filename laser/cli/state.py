"""``laser state``: a value folded from a conversation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from anyio import to_thread
from rich.text import Text

import laser as ls
from laser.cli.folds import FOLDS
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
from laser.cli.output import console, indented_json, plain, print_json
from laser.cli.running import run
from laser.cli.streams import read_stdin

__all__ = ["state"]


def state(
    conversation: Conversation,
    fold: Annotated[str, typer.Option("--fold", "-f", help=f"What to fold: {', '.join(FOLDS)}.")] = "count",
    last_n: Annotated[
        int | None, typer.Option("--last", "-n", help="Only this many of the newest messages.", show_default=False)
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            "--from-checkpoint",
            metavar="FILE",
            help="Only what came after the checkpoint in this file, or '-' for stdin.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="FILE",
            help="Only what came before the checkpoint in this file, or '-' for stdin.",
            show_default=False,
        ),
    ] = None,
    save_every: Annotated[
        int | None,
        typer.Option(
            "--save-every",
            help="Start from the latest snapshot on agent.snapshots, and save one after so many messages.",
            show_default=False,
        ),
    ] = None,
    topics: Topics = None,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Fold a conversation's messages into a value: all of them, or those of one bound.

    What cannot be decoded is left out, and reported on stderr. A checkpoint that the log cannot serve any more, because
    it was made anew, purged or cut by retention, is refused.
    """

    async def work() -> None:
        chosen = conversation_id(conversation)
        named = FOLDS.get(fold)
        if named is None:
            raise ls.InvalidError(f"--fold: {fold!r} is not one of {', '.join(FOLDS)}", argument="--fold")
        bounds: dict[str, Any] = {
            "last_n": last_n,
            "from_checkpoint": await read_checkpoint(after, "--from-checkpoint"),
            "at": await read_checkpoint(at, "--at"),
        }
        given = {name: value for name, value in bounds.items() if value is not None}
        if len(given) + (save_every is not None) > 1:
            raise ls.InvalidError("give one of --last, --from-checkpoint, --at and --save-every", argument="--last")
        names = topics or [ls.AgentTopic.Sessions]
        skipped = 0

        def progress(seen: ls.FoldProgress) -> None:
            nonlocal skipped
            skipped = seen.skipped

        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            await require_topics(laser, names)
            scope = laser.context(chosen)
            if save_every is None:
                value = await scope.state(names, named.init, named.fold, full=not given, progress=progress, **given)
            else:
                store = ls.TopicSnapshotStore(laser, fold_name(fold, names))
                save = ls.AutoSave(every=save_every)
                value = await scope.state_with(store, names, named.init, named.fold, save=save, progress=progress)
            if skipped:
                sys.stderr.write(f"laser: skipped {skipped} records that could not be decoded\n")
            if as_json:
                print_json({"conversation": chosen, "topics": names, "fold": fold, "state": value, "skipped": skipped})
            else:
                console().print(Text(plain(value if isinstance(value, str) else indented_json(value))))

    run(work)


def fold_name(fold: str, topics: list[str]) -> str:
    """The name under which a built-in fold's snapshots are kept: one of other topics is another fold."""
    return "/".join(["laser", fold, *sorted(topics)])


async def read_checkpoint(path: str | None, argument: str) -> ls.Checkpoint | None:
    """The checkpoint in a file, or on stdin.

    Raises:
        InvalidError: the file cannot be read. CodecError: it holds no checkpoint.
    """
    if path is None:
        return None
    try:
        text = await (read_stdin() if path == "-" else to_thread.run_sync(Path(path).read_bytes))
    except OSError as error:
        raise ls.InvalidError(f"{argument}: {path}: {error.strerror or error}", argument=argument) from error
    return ls.Checkpoint.from_json(text)
