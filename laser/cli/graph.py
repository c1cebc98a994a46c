"""``laser graph``: what agents know, as tables and for other programs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import laser as ls
from laser.cli.connected import on_views
from laser.cli.dot import dot_lines
from laser.cli.options import AsJson, require_topics
from laser.cli.output import console, indented_json, plain, print_json, print_utf8, stretch_text
from laser.cli.rebuilding import rebuild_view

__all__ = ["graphs"]

graphs = typer.Typer(help="Look at knowledge graphs.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The graph's name.", show_default=False)]
_FORMATS: Final = ("json", "dot")
_SIDES: Final[tuple[Literal["out", "in"], ...]] = ("out", "in")


@graphs.command("show")
@on_views
async def show(
    laser: ls.Laser,
    name: Name,
    node: Annotated[
        str | None,
        typer.Argument(metavar="[NODE]", help="A node's id, or its label and value: Person:Alice.", show_default=False),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", help="Without NODE: only nodes with this label.", show_default=False)
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="TIME",
            help="With NODE: what held at this time, such as 2026-01-31T12:00:00Z.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", help="How many nodes, or neighbours each way.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Print a graph's nodes, or one node with its neighbours."""
    moment = None if as_of is None else _moment(as_of)
    graph = laser.graph(name)
    if node is None:
        found = await graph.find(label, limit=limit)
        if not found and label is None:
            raise _absent(laser, f"graph {name!r} has no nodes")
        _print_nodes(laser.stream, name, found, as_json)
        return
    known = await graph.node(node)
    if known is None:
        raise _absent(laser, f"graph {name!r} has no node {node!r}")
    near = {side: await graph.neighbors(known, side, as_of=moment, limit=limit) for side in _SIDES}
    _print_node(laser.stream, name, known, near, as_json)


@graphs.command("export")
@on_views
async def export(
    laser: ls.Laser,
    name: Name,
    format_: Annotated[str, typer.Option("--format", "-f", help=f"What to write: {', '.join(_FORMATS)}.")] = "json",
) -> None:
    """Write a whole graph to stdout: JSON for programs, or DOT for Graphviz.

    An edge that held in several stretches of time stands once for each.
    """
    if format_ not in _FORMATS:
        raise ls.InvalidError(f"--format: {format_!r} is not one of {', '.join(_FORMATS)}", argument="--format")
    graph = await laser.graph(name).export()
    if not graph.nodes:
        raise _absent(laser, f"graph {name!r} has no nodes")
    if format_ == "dot":
        print_utf8("\n".join(dot_lines(graph)))
        return
    print_json(
        {
            "stream": laser.stream,
            "graph": graph.name,
            "nodes": [_node_json(one) for one in graph.nodes],
            "edges": [_edge_json(edge) for edge in graph.edges],
        }
    )


@graphs.command("rebuild")
@on_views
async def rebuild(laser: ls.Laser, as_json: AsJson = False) -> None:
    """Fold the read view of all graphs anew from the log's start."""
    await require_topics(laser, ["agent.graph"])
    await rebuild_view(laser, laser.graph("-"), as_json)


def _absent(laser: ls.Laser, what: str) -> ls.NotFoundError:
    return ls.NotFoundError(
        f"{what} in stream {laser.stream!r}; check the names", stream=laser.stream, topic="agent.graph"
    )


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise ls.InvalidError(
            f"--as-of: {text!r:.60} is not a time such as 2026-01-31T12:00:00Z", argument="--as-of"
        ) from error


def _print_nodes(stream: str, name: str, nodes: Iterable[ls.Node], as_json: bool) -> None:
    if as_json:
        print_json({"stream": stream, "graph": name, "nodes": [_node_json(node) for node in nodes]})
        return
    table = Table(title=Text(plain(f"graph {name} of stream {stream}")), title_justify="left")
    for column in ("node", "label", "value", "attributes"):
        table.add_column(column)
    for node in nodes:
        table.add_row(node.id, _cell(node.label), _cell(node.value), _cell(_attributes(node)))
    console().print(table)


def _print_node(
    stream: str, name: str, node: ls.Node, near: dict[Literal["out", "in"], list[ls.GraphHit]], as_json: bool
) -> None:
    if as_json:
        sides: dict[str, Any] = {
            side: [{"node": _node_json(hit.node), "edge": _edge_json(hit.edge)} for hit in hits]
            for side, hits in near.items()
        }
        print_json({"stream": stream, "graph": name, "node": _node_json(node), **sides})
        return
    out = console()
    out.print(_cell(f"{node.label}: {node.value}"))
    out.print(f"id          {node.id}")
    if node.attributes:
        out.print(_cell(f"attributes  {indented_json(node.attributes)}"))
    _print_origin(out, node)
    table = Table()
    for column in ("", "type", "label", "value", "weight", "holds"):
        table.add_column(column)
    for side, hits in near.items():
        for hit in hits:
            edge = hit.edge
            table.add_row(
                "->" if side == "out" else "<-",
                _cell(edge.type),
                _cell(hit.node.label),
                _cell(hit.node.value),
                f"{edge.weight:g}",
                stretch_text(edge.valid_from, edge.valid_to),
            )
    out.print(table)


def _print_origin(out: Console, node: ls.Node) -> None:
    by = node.asserted
    if by is not None and by.conversation is not None:
        out.print(f"said in     {by.conversation}")
    if by is not None and by.source is not None:
        out.print(_cell(f"learnt from {by.source.topic} {by.source.partition}:{by.source.offset}"))


def _cell(text: str) -> Text:
    return Text(plain(text))


def _attributes(node: ls.Node) -> str:
    return orjson.dumps(node.attributes).decode() if node.attributes else ""


def _node_json(node: ls.Node) -> dict[str, Any]:
    return {"id": node.id, **_builtins(node)}


def _edge_json(edge: ls.Edge) -> dict[str, Any]:
    return {"id": edge.id, **_builtins(edge)}


def _builtins(value: ls.Node | ls.Edge) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(value)
    return made
