"""``laser doctor``: what is not set up as it should be, each with what to do."""

from __future__ import annotations

from typing import Annotated

import anyio
import msgspec
import typer
from rich.text import Text

import laser as ls
import laser.prompt as lp
from laser.cli.options import DEFAULT_TIMEOUT, AsJson, Stream, Timeout, Url, conversation_id
from laser.cli.output import console, plain, print_json
from laser.cli.running import FAILED, run

__all__ = ["doctor"]


def doctor(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="[SESSION]", help="Look at the prompts of this session too: an id, or @KEY.", show_default=False
        ),
    ] = None,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Check the log, its topics, the extras, and a session's prompts. Exit code 1 where something does not work."""
    found: list[lp.Finding] = []

    async def work() -> None:
        chosen = None if session is None else conversation_id(session, "SESSION")
        try:
            async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
                with anyio.fail_after(timeout):
                    found.extend(await lp.check_engine(laser))
                    if chosen is not None:
                        found.extend(lp.check_traces(await lp.read_traces(laser.context(chosen), 200)))
        except (ls.TransportError, ls.StorageError, ls.ConfigError, TimeoutError) as error:
            advice = "check the URL: that the server runs and lets you in, or that the directory is yours"
            found.append(lp.Finding("error", "log", f"cannot be used: {str(error) or 'no answer'}", advice))
        found.extend(lp.check_extras())
        if as_json:
            print_json({"findings": msgspec.to_builtins(found)})
            return
        out = console()
        for one in found:
            out.print(Text(plain(f"{one.level:8}{one.subject}: {one.text}")))
            out.print(Text(plain(f"        {one.advice}"), style="dim"))
        if not any(one.level in ("error", "warning") for one in found):
            out.print("ok      everything that was looked at works")

    run(work)
    if any(one.level == "error" for one in found):
        raise typer.Exit(FAILED)
