"""The ``laser`` command. It needs the ``cli`` extra; the library itself does not."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Runs the command line with the arguments of this process, and exits.

    Exit codes: 0 done; 1 laser refused or failed, with one line on stderr; 2 wrong usage; 130 interrupted.
    """
    try:
        from laser.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit("laser: the command line needs typer and rich; install them with: pip install 'laser-context[cli]'")
    from laser.cli.running import explain, leave
    from laser.cli.streams import open_streams
    from laser.errors import LaserError

    open_streams()
    code: str | int | None = 0
    try:
        try:
            app(prog_name="laser")
        except SystemExit as done:
            code = done.code
        sys.stdout.flush()
    except (LaserError, BrokenPipeError) as error:
        # What a command does not print itself, such as help, could not be written.
        code = explain(error)
    leave(code)
