"""An agent process of an import: reads its share from stdin, writes it, and tells its progress on stdout.

The share comes through stdin because arguments of a process, and so a password in a URL, can be seen by everybody on
the machine.
"""

from __future__ import annotations

import os
import sys

import anyio
import anyio.to_thread
import msgspec

import laser as ls
from laser.cli.importing import Progress, Share, write_share
from laser.cli.running import FAILED, INTERRUPTED, leave

__all__ = ["main"]


def main() -> None:
    """Does the work of one agent process and exits."""
    share = msgspec.json.decode(sys.stdin.buffer.read(), type=Share)
    code = 0
    try:
        anyio.run(_write, share)
    except ls.LaserError as error:
        _tell(Progress(error=str(error)))
        code = FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    leave(code)


async def _write(share: Share) -> None:
    async with ls.Laser.connect(share.url, stream=share.stream, timeout=share.timeout) as laser:
        await write_share(laser, share, _report, anyio.sleep_forever)


async def _report(progress: Progress) -> None:
    await anyio.to_thread.run_sync(_tell, progress)


def _tell(progress: Progress) -> None:
    # One write of less than a pipe's atomic size: a reader never sees half a line of a killed writer.
    os.write(1, msgspec.json.encode(progress) + b"\n")


if __name__ == "__main__":
    main()
