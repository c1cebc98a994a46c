"""Running a command: an event loop, and one line for whatever goes wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

import anyio
import typer

import laser as ls
from laser.cli.output import plain

__all__ = ["FAILED", "INTERRUPTED", "explain", "leave", "run"]

FAILED: Final = 1
INTERRUPTED: Final = 130


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Does the work, and turns what goes wrong into one line on stderr and an exit code.

    Raises:
        typer.Exit: with the code, where it is not 0.
    """
    try:
        anyio.run(work)
        sys.stdout.flush()
    except (KeyboardInterrupt, BrokenPipeError, ls.LaserError, BaseExceptionGroup) as error:
        raise typer.Exit(explain(error)) from None


def explain(error: BaseException) -> int:
    """Says on stderr, in one line, what went wrong, and returns the exit code.

    Raises:
        BaseException: the error itself, where it is a fault of the program: its traceback is what a report needs.
    """
    known = _known(error)
    if known is None:
        raise error
    if isinstance(known, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(known, BrokenPipeError):
        # The reader of the pipe, such as head, has seen enough.
        return 0
    sys.stderr.write(f"laser: {plain(' '.join(str(known).split()))}\n")
    return FAILED


def leave(code: str | int | None) -> NoReturn:
    """Ends the process with a code, as ``sys.exit`` does.

    Where the Iggy client was in use, without the interpreter's own tidying up: a thread of the client that still gives
    back its objects then aborts the process (seen at 1 exit in 5 on a busy machine), and the code would be lost.
    """
    if "apache_iggy" in sys.modules and not isinstance(code, str):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(code)


def _known(error: BaseException) -> BaseException | None:
    """The error that explains a failure, looked up in groups too; ``None`` for a fault of the program."""
    if isinstance(error, BaseExceptionGroup):
        found = [_known(inner) for inner in error.exceptions]
        return None if None in found else found[0]
    return error if isinstance(error, ls.LaserError | BrokenPipeError | KeyboardInterrupt) else None
