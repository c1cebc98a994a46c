"""``laser snapshot``: the snapshots that folds have saved on a topic."""

from __future__ import annotations

from typing import Annotated, Any

import typer
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
from laser.cli.output import console, indented_json, moment_text, plain, print_json
from laser.cli.running import FAILED, run
from laser.context.snapshot_listing import FoundSnapshot, all_snapshots
from laser.wire.state_json import decode_state

__all__ = ["snapshots"]

snapshots = typer.Typer(
    help="Look at the snapshots that folds have saved.", no_args_is_help=True, rich_markup_mode=None
)

Topic = Annotated[str, typer.Option("--topic", "-t", help="The topic that they are on.")]
Fold = Annotated[
    str | None,
    typer.Option("--fold", "-f", help="Only those of this fold. Default: of every fold.", show_default=False),
]
_DEFAULT = ls.AgentTopic.Snapshots


@snapshots.command("list")
def list_(
    conversation: Annotated[
        str | None,
        typer.Argument(
            metavar="[CONVERSATION]", help="Only those of this conversation: an id, or @KEY.", show_default=False
        ),
    ] = None,
    fold: Fold = None,
    limit: Annotated[int, typer.Option("-n", "--last", min=1, help="How many of the newest.")] = 100,
    topic: Topic = _DEFAULT,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List snapshots, newest first, and records among them that hold none."""

    async def work() -> None:
        chosen = None if conversation is None else conversation_id(conversation)
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            found = await _find(laser, topic, chosen, fold)
            found.sort(key=lambda one: (one.timestamp_micros, one.partition, one.offset), reverse=True)
            if as_json:
                print_json({"topic": topic, "snapshots": [_json(one) for one in found[:limit]]})
                return
            table = Table(title=f"{plain(topic)} of stream {laser.stream}", title_justify="left")
            for column in ("place", "written", "conversation", "fold"):
                table.add_column(column, no_wrap=column == "conversation")
            for column in ("version", "bytes"):
                table.add_column(column, justify="right")
            table.add_column("folded to")
            for one in found[:limit]:
                place = f"{one.partition}:{one.offset}"
                made = one.snapshot
                when, size = moment_text(one.timestamp_micros), f"{one.size:,}"
                if made is None:
                    table.add_row(place, when, "-", "-", "-", size, plain(one.reason or ""))
                else:
                    folded = ", ".join(f"{part.partition}:{part.offset}" for part in made.as_of)
                    table.add_row(place, when, made.conversation, plain(made.fold), str(made.version), size, folded)
            console().print(table)

    run(work)


@snapshots.command("show")
def show(
    conversation: Conversation,
    fold: Fold = None,
    topic: Topic = _DEFAULT,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Print a conversation's latest snapshot of each fold, with its state."""

    async def work() -> None:
        chosen = conversation_id(conversation)
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            latest = await _latest(laser, topic, chosen, fold)
            if as_json:
                print_json({"conversation": chosen, "snapshots": [_whole_json(made) for made in latest]})
                return
            out = console()
            for made in latest:
                out.print(f"fold      {plain(made.fold)}, version {made.version}")
                out.print(f"saved     {moment_text(made.saved_at_micros)}")
                for part in made.as_of:
                    out.print(f"folded    topic number {part.topic_id}, partition {part.partition}, to {part.offset}")
                out.print(Text(plain(_shown_state(made))))
                out.print()

    run(work)


@snapshots.command("verify")
def verify(
    conversation: Conversation,
    fold: Fold = None,
    topic: Topic = _DEFAULT,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Check that a conversation's latest snapshots can be folded on: exit code 1 where one cannot.

    The state must be readable, and the log still the one it was folded from, with nothing missing after it.
    """
    failed = False

    async def work() -> None:
        nonlocal failed
        chosen = conversation_id(conversation)
        async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
            checks = [
                {"fold": made.fold, "version": made.version} | await _check(laser, made)
                for made in await _latest(laser, topic, chosen, fold)
            ]
        failed = any(not check["usable"] for check in checks)
        if as_json:
            print_json({"conversation": chosen, "snapshots": checks})
            return
        out = console()
        for check in checks:
            said = f"usable, {check['messages_after']} messages after it" if check["usable"] else check["problem"]
            out.print(Text(plain(f"{check['fold']}, version {check['version']}: {said}")))

    run(work)
    if failed:
        raise typer.Exit(FAILED)


async def _check(laser: ls.Laser, made: ls.Snapshot) -> dict[str, Any]:
    names = {info.topic_id: info.name for info in await laser.topics()}
    topics = list(dict.fromkeys(names.get(part.topic_id, "") for part in made.as_of))
    try:
        decode_state(made.state)
        start = await ls.checkpoint_from_snapshot(laser, made, [name for name in topics if name])
        scope = laser.context(made.conversation)
        after = await scope.state(list(start.topics()), 0, lambda count, _: count + 1, from_checkpoint=start)
    except (ls.CodecError, ls.InvalidError, ls.RetentionGapError) as error:
        return {"usable": False, "problem": str(error), "messages_after": None}
    return {"usable": True, "problem": None, "messages_after": after}


async def _find(laser: ls.Laser, topic: str, conversation: str | None, fold: str | None) -> list[FoundSnapshot]:
    await require_topics(laser, [topic])
    found: list[FoundSnapshot] = []
    async for one in all_snapshots(laser.open_log(), laser.stream, topic):
        made = one.snapshot
        if made is None:
            wanted = conversation is None and fold is None
        else:
            wanted = conversation in (None, made.conversation) and fold in (None, made.fold)
        if wanted:
            found.append(one)
    return found


async def _latest(laser: ls.Laser, topic: str, conversation: str, fold: str | None) -> list[ls.Snapshot]:
    versions: dict[str, int] = {}
    for one in await _find(laser, topic, conversation, fold):
        assert one.snapshot is not None
        versions[one.snapshot.fold] = max(versions.get(one.snapshot.fold, 1), one.snapshot.version)
    latest: list[ls.Snapshot] = []
    for name, version in sorted(versions.items()):
        made = await ls.TopicSnapshotStore.on_topic(laser, topic, name, version=version).latest(conversation)
        if made is not None:
            latest.append(made)
    if not latest:
        of = "" if fold is None else f" of fold {fold!r}"
        raise ls.NotFoundError(
            f"no snapshot{of} of conversation {conversation} on topic {topic!r}", stream=laser.stream, topic=topic
        )
    return latest


def _json(one: FoundSnapshot) -> dict[str, Any]:
    value: dict[str, Any] = {
        "partition": one.partition,
        "offset": one.offset,
        "timestamp_micros": one.timestamp_micros,
        "bytes": one.size,
    }
    return value | ({"problem": one.reason} if one.snapshot is None else _head_json(one.snapshot))


def _head_json(made: ls.Snapshot) -> dict[str, Any]:
    return {
        "conversation": made.conversation,
        "fold": made.fold,
        "version": made.version,
        "saved_at_micros": made.saved_at_micros,
        "as_of": [
            {
                "topic_id": part.topic_id,
                "topic_created_at_micros": part.topic_created_at_micros,
                "partition": part.partition,
                "offset": part.offset,
            }
            for part in made.as_of
        ],
    }


def _whole_json(made: ls.Snapshot) -> dict[str, Any]:
    value = _head_json(made)
    try:
        return value | {"state": decode_state(made.state)}
    except ls.CodecError as error:
        return value | {"problem": str(error)}


def _shown_state(made: ls.Snapshot) -> str:
    try:
        return indented_json(decode_state(made.state))
    except ls.CodecError as error:
        return f"(unreadable: {error})"
