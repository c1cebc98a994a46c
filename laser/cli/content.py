"""``laser content``: bytes by their hash, on the command line."""

from __future__ import annotations

import secrets
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import anyio
import msgspec
import typer
from anyio import to_thread

import laser as ls
from laser.cli.connected import on_content
from laser.cli.options import AsJson
from laser.cli.output import console, moment_text, plain, print_json
from laser.cli.streams import stdin_chunks
from laser.limits import CONTENT_GRACE_SECONDS

__all__ = ["Tenant", "contents"]

contents = typer.Typer(help="Keep and read bytes by their hash.", no_args_is_help=True, rich_markup_mode=None)

Tenant = Annotated[str, typer.Option("--tenant", help="Whose content it is.", show_default=False)]
Digest = Annotated[
    str, typer.Argument(metavar="DIGEST", help="SHA-256 of the content, 64 hexadecimal digits.", show_default=False)
]


@contents.command("put")
@on_content
async def put(
    laser: ls.Laser,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file, or '-' for stdin.", show_default=False)],
    tenant: Tenant,
    media_type: Annotated[
        str | None, typer.Option("--media-type", help="Such as image/png; shown again, not kept.", show_default=False)
    ] = None,
    holder: Annotated[
        str | None,
        typer.Option("--hold", metavar="HOLDER", help="Keep it until this holder lets go.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put a file and print its hash. Content that nothing holds goes after seven days."""
    content = laser.content(tenant)
    if file == "-":
        async with aclosing(stdin_chunks()) as data:
            ref = await content.put(data, media_type=media_type)
    else:
        ref = await content.put(Path(file), media_type=media_type)
    if holder is not None:
        await content.hold(holder, [ref])
    if as_json:
        print_json(msgspec.to_builtins(ref) | {"size": (await content.head(ref)).size})
    else:
        console().print(ref.digest)


@contents.command("get")
@on_content
async def get(
    laser: ls.Laser,
    digest: Digest,
    tenant: Tenant,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="FILE", help="A new file; default: stdout.", show_default=False)
    ] = None,
    start: Annotated[int, typer.Option("--start", help="The first byte, from 0.")] = 0,
    stop: Annotated[
        int | None, typer.Option("--stop", help="The byte to stop before; default: the end.", show_default=False)
    ] = None,
) -> None:
    """Write content to stdout or a new file. Every byte is checked before it is written."""
    content = laser.content(tenant)
    await content.head(digest)
    async with aclosing(content.stream(digest, start=start, stop=stop)) as data:
        if out is None:
            async for chunk in data:
                await to_thread.run_sync(sys.stdout.buffer.write, chunk)
            await to_thread.run_sync(sys.stdout.buffer.flush)
        else:
            await _write_file(out, data)


@contents.command("info")
@on_content
async def info(
    laser: ls.Laser,
    digest: Digest,
    tenant: Tenant,
    as_json: AsJson = False,
) -> None:
    """Print what is known of some content: its size, and what keeps it."""
    head = await laser.content(tenant).head(digest)
    if as_json:
        print_json(msgspec.to_builtins(head))
        return
    out = console()
    out.print(f"sha256:{head.digest}")
    out.print(f"{head.size:,} bytes, in the {'catalog' if head.inline else 'object store'}")
    out.print(f"admitted {moment_text(head.admitted_at_micros)}")
    kept = [f"{head.holders} holders", f"{head.parents} contents that name it"]
    out.print("kept by " + " and ".join(kept) if head.holders or head.parents else "kept by nothing")
    out.print(f"names {head.children} other contents")


@contents.command("gc")
@on_content
async def collect(
    laser: ls.Laser,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", help="Only this tenant's content; default: everybody's.", show_default=False),
    ] = None,
    grace: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", help="How long content stays that nothing keeps.")
    ] = CONTENT_GRACE_SECONDS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing; say what the first pass would.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove content that nothing keeps, and objects that nothing names. Safe beside everything else.

    Messages that the log has no more keep nothing: they are looked for first.
    """
    if tenant is None:
        report = await laser.collect_content(grace=grace, dry_run=dry_run)
    else:
        report = await laser.content(tenant).collect(grace=grace, dry_run=dry_run)
    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        console().print(plain(_told(report)))
    if report.failure is not None:
        raise ls.TransportError(f"something stayed, the next collection tries again: {report.failure}")


def _told(report: ls.CollectReport) -> str:
    if not report.elected:
        return "another process is collecting; nothing was done"
    verb = "would remove" if report.dry_run else "removed"
    text = f"{verb} {report.removed:,} of {report.scanned:,} looked at, {report.size:,} bytes"
    if not report.dry_run:
        text += f"; {report.objects:,} objects gone"
    if report.released or report.unconfirmed:
        verb = "would end" if report.dry_run else "ended"
        text += f"; {verb} {report.released:,} holds of messages that are gone, {report.unconfirmed:,} that never came"
    return text


async def _write_file(path: str, data: AsyncGenerator[bytes, None]) -> None:
    """A new file, whole or not at all."""
    # A name of its own: what is there under any other is somebody's.
    part = anyio.Path(f"{path}.{secrets.token_hex(8)}.part")
    try:
        if await anyio.Path(path).exists():
            raise ls.InvalidError(f"--out: {path}: exists; name a new file", argument="--out")
        async with await part.open("xb") as file:
            try:
                async for chunk in data:
                    await file.write(chunk)
                await file.flush()
                await part.replace(path)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await part.unlink(missing_ok=True)
                raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ls.InvalidError(f"--out: {path!r}: {reason}", argument="--out") from error
