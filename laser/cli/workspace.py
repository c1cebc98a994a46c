"""``laser workspace``: versioned file trees, on the command line."""

from __future__ import annotations

import sys
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from anyio import to_thread

import laser as ls
from laser.cli.connected import on_content
from laser.cli.content import Tenant
from laser.cli.options import AsJson
from laser.cli.output import console, moment_text, plain, print_json, print_nothing
from laser.cli.streams import stdin_chunks

__all__ = ["workspaces"]

workspaces = typer.Typer(help="Keep and read versioned file trees.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The workspace's name.", show_default=False)]
FilePath = Annotated[str, typer.Argument(metavar="PATH", help="A path in it, as in docs/notes.md.", show_default=False)]
Revision = Annotated[
    int | None, typer.Option("--revision", "-r", help="A version; default: the newest.", show_default=False)
]
Note = Annotated[str | None, typer.Option("--note", "-m", help="Why, for the log.", show_default=False)]


@workspaces.command("ls")
@on_content
async def ls_command(
    laser: ls.Laser,
    tenant: Tenant,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A workspace; default: list them all.", show_default=False)
    ] = None,
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="A directory in it.", show_default=False)] = "",
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="Every file below it.")] = False,
    revision: Revision = None,
    as_json: AsJson = False,
) -> None:
    """List workspaces, or what is in one."""
    found = laser.workspaces(tenant)
    if name is None:
        names = await found.list()
        if as_json:
            print_json(names)
        else:
            for entry in names:
                console().print(plain(entry))
            if not names:
                print_nothing(f"tenant {tenant} has no workspaces in stream {laser.stream}")
        return
    tree = await _tree(await _open(laser, tenant, name), revision)
    files = await tree.list(path, recursive=recursive)
    if as_json:
        print_json([msgspec.to_builtins(info) for info in files])
        return
    if not files:
        print_nothing("no files")
    for info in files:
        shown = f"{info.path}/" if info.directory else f"{info.path}{'*' if info.executable else ''}"
        console().print(f"{info.size:>12,}  {plain(shown)}")


@workspaces.command("cat")
@on_content
async def cat(
    laser: ls.Laser,
    name: Name,
    path: FilePath,
    tenant: Tenant,
    revision: Revision = None,
) -> None:
    """Write a file of a workspace to stdout."""
    tree = await _tree(await _open(laser, tenant, name), revision)
    async with aclosing(tree.stream(path)) as data:
        async for chunk in data:
            await to_thread.run_sync(sys.stdout.buffer.write, chunk)
    await to_thread.run_sync(sys.stdout.buffer.flush)


@workspaces.command("put")
@on_content
async def put(
    laser: ls.Laser,
    name: Name,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A file or directory, or '-' for stdin.", show_default=False)
    ],
    tenant: Tenant,
    path: Annotated[
        str | None,
        typer.Option("--path", "-p", help="Where in the workspace; default: the source's name.", show_default=False),
    ] = None,
    seen: Annotated[
        int | None, typer.Option("--seen", help="Only if the workspace is at this revision.", show_default=False)
    ] = None,
    note: Note = None,
    as_json: AsJson = False,
) -> None:
    """Put a file or a directory into a workspace, and make the workspace where it is absent."""
    # Who has seen a revision has seen the workspace: a name with a typo in it must not become another one.
    workspace = await (_open_or_create(laser.workspaces(tenant), name) if seen is None else _open(laser, tenant, name))
    report: ls.ImportReport | None = None
    if source == "-":
        if path is None:
            raise ls.InvalidError("--path: stdin has no name; say where it is to go", argument="--path")
        async with aclosing(stdin_chunks()) as data:
            await workspace.write(path, data, seen=seen, note=note)
    elif await to_thread.run_sync(Path(source).is_dir):
        report = await workspace.import_(source, path=path or "", seen=seen, note=note)
    else:
        await workspace.write(path or Path(source).name, Path(source), seen=seen, note=note)
    head = await workspace.head()
    if as_json:
        shown: dict[str, Any] = {"revision": head.revision, "root": head.root}
        print_json(shown | ({} if report is None else {"import": msgspec.to_builtins(report)}))
        return
    console().print(f"revision {head.revision}")
    for left, reason in () if report is None else report.left_out:
        console().print(f"left out {plain(left)}: {plain(reason)}")


@workspaces.command("log")
@on_content
async def log(
    laser: ls.Laser,
    name: Name,
    tenant: Tenant,
    as_json: AsJson = False,
) -> None:
    """Print the versions of a workspace, newest first."""
    versions = (await (await _open(laser, tenant, name)).history())[::-1]
    if as_json:
        print_json([msgspec.to_builtins(version) | {"record": f"{version.record:032x}"} for version in versions])
        return
    for version in versions:
        who = f"  {plain(version.agent)}" if version.agent else ""
        note = f"  {plain(version.note)}" if version.note else ""
        console().print(f"{version.revision:>6}  {moment_text(version.at_micros)}{who}{note}")


@workspaces.command("diff")
@on_content
async def diff(
    laser: ls.Laser,
    name: Name,
    before: Annotated[int, typer.Argument(metavar="REVISION", help="The older version.", show_default=False)],
    tenant: Tenant,
    after: Annotated[
        int | None, typer.Argument(metavar="[REVISION]", help="The newer one; default: the newest.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print which files differ between two versions."""
    changes = await (await _open(laser, tenant, name)).diff(before, after)
    if as_json:
        print_json([msgspec.to_builtins(change) for change in changes])
        return
    if not changes:
        print_nothing("no file differs")
    for change in changes:
        sign = "+" if change.before is None else "-" if change.after is None else "~"
        console().print(f"{sign} {plain(change.path)}")


@workspaces.command("export")
@on_content
async def export(
    laser: ls.Laser,
    name: Name,
    directory: Annotated[str, typer.Argument(metavar="DIRECTORY", help="An empty or a new one.", show_default=False)],
    tenant: Tenant,
    revision: Revision = None,
) -> None:
    """Write a version of a workspace into a directory."""
    tree = await _tree(await _open(laser, tenant, name), revision)
    count = await tree.export(directory)
    console().print(f"{count:,} files")


async def _open(laser: ls.Laser, tenant: str, name: str) -> ls.Workspace:
    try:
        return await laser.workspaces(tenant).open(name)
    except ls.NotFoundError as error:
        raise ls.NotFoundError(
            f"workspace {name!r} of tenant {tenant!r} does not exist; laser workspace ls shows those that do, and "
            "laser workspace put makes one"
        ) from error


async def _tree(workspace: ls.Workspace, revision: int | None) -> ls.TreeView:
    return await workspace.tree() if revision is None else await workspace.at(revision)


async def _open_or_create(found: ls.Workspaces, name: str) -> ls.Workspace:
    try:
        return await found.open(name)
    except ls.NotFoundError:
        try:
            return await found.create(name)
        except ls.ConflictError:  # another process was faster
            return await found.open(name)
