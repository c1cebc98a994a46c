"""The command line as a whole: its commands, its help, its version."""

from __future__ import annotations

from typing import Annotated

import typer

import laser as ls
from laser.cli.append import append
from laser.cli.bootstrap import bootstrap
from laser.cli.checkpoint import checkpoint
from laser.cli.compact import compact, strategies
from laser.cli.content import contents
from laser.cli.context import contexts
from laser.cli.doctor import doctor
from laser.cli.fetch import fetch
from laser.cli.graph import graphs
from laser.cli.import_ import import_transcript
from laser.cli.inspect import inspect
from laser.cli.lcm import lcm
from laser.cli.memory import memories
from laser.cli.prompt import prompts
from laser.cli.serve_info import serve_info
from laser.cli.session import sessions
from laser.cli.snapshot import snapshots
from laser.cli.state import state
from laser.cli.tail import tail
from laser.cli.topics import topics
from laser.cli.workspace import workspaces

__all__ = ["app"]

_EPILOG = "Exit codes: 0 done, 1 refused or failed (one line on stderr says why), 2 wrong usage, 130 interrupted."

app = typer.Typer(
    help="Keeps conversations of agents on a durable log.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    # A traceback with the values of local variables could show a password.
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("append")(append)
app.command("fetch")(fetch)
app.command("tail")(tail)
app.command("state")(state)
app.command("checkpoint")(checkpoint)
app.command("topics")(topics)
app.command("bootstrap")(bootstrap)
app.command("import")(import_transcript)
app.command("serve-info")(serve_info)
app.command("compact")(compact)
app.command("strategies")(strategies)
app.command("doctor")(doctor)
app.command("inspect")(inspect)
app.add_typer(snapshots, name="snapshot")
app.add_typer(sessions, name="session")
app.add_typer(contexts, name="context")
app.add_typer(graphs, name="graph")
app.add_typer(lcm, name="lcm")
app.add_typer(prompts, name="prompt")
app.add_typer(contents, name="content")
app.add_typer(workspaces, name="workspace")
app.add_typer(memories, name="memory")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"laser {ls.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass
