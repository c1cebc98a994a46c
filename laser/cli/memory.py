"""``laser memory``: what agents remember."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypedDict, get_args

import typer
from rich.text import Text

import laser as ls
from laser.cli.connected import on_views
from laser.cli.options import AsJson, conversation_id, require_topics
from laser.cli.output import console, moment_text, plain, print_json, print_nothing, print_skipped
from laser.cli.rebuilding import rebuild_view, skipped_json
from laser.cli.streams import read_stdin

__all__ = ["memories"]

memories = typer.Typer(
    help="Look at what agents remember, add to it, and forget.", no_args_is_help=True, rich_markup_mode=None
)

_KINDS: Final = get_args(ls.MemoryKind)

Namespace = Annotated[
    str, typer.Option("--namespace", "-N", help="The memory's namespace; the default is the one of laser-sdk.")
]
InConversation = Annotated[
    str | None,
    typer.Option("--conversation", "-c", help="Only of this conversation: an id, or @KEY.", show_default=False),
]
Agent = Annotated[str | None, typer.Option("--agent", "-a", help="Whose: the agent.", show_default=False)]
User = Annotated[str | None, typer.Option("--user", "-u", help="Whose: the user.", show_default=False)]
Application = Annotated[str | None, typer.Option("--application", help="Whose: the application.", show_default=False)]
Limit = Annotated[int, typer.Option("-n", "--limit", help="How many items.")]


class _Owner(TypedDict):
    conversation: str | None
    agent: str | None
    user: str | None
    application: str | None


_NAMESPACE: Final = "agent.memory"
_LIMIT: Final = 50


@memories.command("list")
@on_views
async def list_(
    laser: ls.Laser,
    limit: Limit = _LIMIT,
    namespace: Namespace = _NAMESPACE,
    conversation: InConversation = None,
    agent: Agent = None,
    user: User = None,
    application: Application = None,
    as_json: AsJson = False,
) -> None:
    """List items, newest first."""
    owner = _owner(conversation, agent, user, application)
    await require_topics(laser, [ls.AgentTopic.Memory])
    memory = laser.memory(namespace)
    found = await memory.recall(strategy="recent", limit=limit, **owner)
    _print_items(laser.stream, memory, found, as_json)


@memories.command("search")
@on_views
async def search(
    laser: ls.Laser,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words to look for.", show_default=False)],
    limit: Limit = _LIMIT,
    namespace: Namespace = _NAMESPACE,
    conversation: InConversation = None,
    agent: Agent = None,
    user: User = None,
    application: Application = None,
    as_json: AsJson = False,
) -> None:
    """Print the items that share words with a query, best first."""
    owner = _owner(conversation, agent, user, application)
    await require_topics(laser, [ls.AgentTopic.Memory])
    memory = laser.memory(namespace)
    _print_items(laser.stream, memory, await memory.search(query, limit=limit, **owner), as_json)


@memories.command("remember")
@on_views
async def remember(
    laser: ls.Laser,
    text: Annotated[
        str | None, typer.Argument(help="What; without it, or as '-', the bytes of stdin.", show_default=False)
    ] = None,
    kind: Annotated[str, typer.Option("--kind", "-k", help=f"What it is: {', '.join(_KINDS)}.")] = "fact",
    dedup: Annotated[bool, typer.Option("--dedup", help="The same again is the same item.")] = False,
    durable: Annotated[bool, typer.Option("--durable", help="Consolidation leaves it alone.")] = False,
    namespace: Namespace = _NAMESPACE,
    conversation: InConversation = None,
    agent: Agent = None,
    user: User = None,
    application: Application = None,
    as_json: AsJson = False,
) -> None:
    """Remember something, and print the item's id."""
    owner = _owner(conversation, agent, user, application)
    payload = await read_stdin() if text in (None, "-") else text
    # The client refuses a kind that it does not know.
    what: Any = kind
    item = await laser.memory(namespace).remember(payload or b"", kind=what, dedup=dedup, durable=durable, **owner)
    if as_json:
        print_json({"stream": laser.stream, "namespace": namespace, "id": item})
    else:
        console().print(item)


@memories.command("forget")
@on_views
async def forget(
    laser: ls.Laser,
    item: Annotated[str, typer.Argument(metavar="ID", help="The item's id, 26 characters.", show_default=False)],
    namespace: Namespace = _NAMESPACE,
    conversation: InConversation = None,
    agent: Agent = None,
    user: User = None,
    application: Application = None,
    as_json: AsJson = False,
) -> None:
    """Forget an item, for good. Its record stays on the log until retention takes it."""
    owner = _owner(conversation, agent, user, application)
    await require_topics(laser, [ls.AgentTopic.Memory])
    memory = laser.memory(namespace)
    known = await memory.get(item, **owner) is not None
    await memory.forget(item, **owner)
    if as_json:
        print_json({"stream": laser.stream, "namespace": namespace, "id": item, "known": known})
    else:
        console().print(f"{item}  {'forgotten' if known else 'there was no such item; it will not come either'}")


@memories.command("rebuild")
@on_views
async def rebuild(
    laser: ls.Laser,
    namespace: Namespace = _NAMESPACE,
    as_json: AsJson = False,
) -> None:
    """Fold the read view of all namespaces anew from the log's start."""
    await require_topics(laser, [ls.AgentTopic.Memory])
    memory = laser.memory(namespace)
    await rebuild_view(laser, memory, as_json)


def _owner(conversation: str | None, agent: str | None, user: str | None, application: str | None) -> _Owner:
    chosen = None if conversation is None else conversation_id(conversation, "--conversation")
    return {"conversation": chosen, "agent": agent, "user": user, "application": application}


def _print_items(stream: str, memory: ls.Memory, items: Sequence[ls.MemoryItem], as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "stream": stream,
                "namespace": memory.namespace,
                "items": [_item_json(item) for item in items],
                "skipped": skipped_json(memory.skipped),
            }
        )
        return
    out = console()
    for item in items:
        out.print(_head(item))
        out.print(Text(plain(item.text).rstrip()))
        out.print()
    if not items:
        print_nothing(f"nothing of it in namespace {memory.namespace} of stream {stream}")
    print_skipped(memory.skipped)


def _head(item: ls.MemoryItem) -> Text:
    head = Text()
    head.append(item.id, style="bold")
    owners = [
        f"{name} {value}" for name, value in (("agent", item.agent), ("user", item.user), ("app", item.app)) if value
    ]
    marks = [] if item.weight is None else [f"weight {item.weight:g}"]
    marks += [] if item.score is None else [f"score {item.score:.3g}"]
    when = [moment_text(item.created_at_micros)]
    if item.expires_at_micros is not None:
        when.append(f"until {moment_text(item.expires_at_micros)}")
    head.append(plain("  " + "  ".join([item.kind, *when, *owners, *marks])), style="dim")
    return head


def _item_json(item: ls.MemoryItem) -> dict[str, Any]:
    value: dict[str, Any] = {
        "id": item.id,
        "kind": item.kind,
        "score": item.score,
        "signals": dict(item.signals),
        "weight": item.weight,
        "conversation": item.conversation,
        "agent": item.agent,
        "user": item.user,
        "application": item.app,
        "created_at_micros": item.created_at_micros,
        "partition": item.partition,
        "offset": item.offset,
        "key": item.key,
        "origin": item.origin,
        "expires_at_micros": item.expires_at_micros,
    }
    value = {name: entry for name, entry in value.items() if entry is not None}
    try:
        value["text"] = item.body.decode()
    except UnicodeDecodeError:
        value["body_base64"] = base64.b64encode(item.body).decode()
    return value
