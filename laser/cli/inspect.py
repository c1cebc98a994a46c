"""``laser inspect``: sessions in a browser."""

from __future__ import annotations

import signal
from typing import Annotated

import anyio
import typer

import laser as ls
from laser.cli.options import DEFAULT_TIMEOUT, Stream, Timeout, Url
from laser.cli.output import plain
from laser.cli.running import INTERRUPTED, run

__all__ = ["inspect"]


def inspect(
    host: Annotated[str, typer.Option("--host", help="An address of this machine's loopback.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0 for a free one.")] = 0,
    url: Url = None,
    stream: Stream = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Serve pages to look at sessions with, on this machine only, until interrupted.

    Prints the address. It holds a token: whoever has it can read every session of the stream. Nothing is written.
    """

    async def work() -> None:
        try:
            from laser.inspector import listen, serve
        except ImportError as error:
            raise ls.ConfigError(
                f"laser inspect needs {error.name}; install it with: pip install 'laser-context[inspect]'"
            ) from error
        caught: list[int] = []
        listener = listen(host, port)
        try:
            async with ls.Laser.connect(url, stream=stream, timeout=timeout) as laser:
                with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:

                    async def interrupted() -> None:
                        async for number in signals:
                            caught.append(number)
                            return

                    typer.echo(f"sessions of stream {plain(laser.stream)}: {listener.url}")
                    typer.echo("Ctrl-C ends it.", err=True)
                    await serve(laser, listener, interrupted)
        finally:
            listener.close()
        if signal.SIGINT in caught:
            raise typer.Exit(INTERRUPTED)

    run(work)
