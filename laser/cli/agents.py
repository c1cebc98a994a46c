"""The agent processes of an import: started, listened to, and one of them killed and replaced on request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

import laser as ls
from laser.cli.importing import Progress, Share, write_share

__all__ = ["Killed", "run_agents"]

_LINE_BYTES = 1 << 20


class Killed(msgspec.Struct, frozen=True):
    """An agent process that was killed on purpose.

    Attributes:
        pid: its process id. reported: messages that it had told of. messages: its share.
        resumed_at: messages of its share that the next process found on the log.
    """

    pid: int
    reported: int
    messages: int
    resumed_at: int


async def run_agents(
    laser: ls.Laser, shares: list[Share], on_progress: Callable[[Progress], None], *, kill_one: bool, processes: bool
) -> Killed | None:
    """Has every share written, all at once, each by a process of its own.

    Args:
        laser: used when ``processes`` is false: a ``memory:`` log lives in this process only.
        on_progress: told of each step, of a killed process too.
        kill_one: kill -9 the process of the first share half-way and start another in its place.

    Raises:
        LaserError: a process failed; the others are ended.
    """
    killed: list[Killed] = []

    async def write(share: Share, victim: bool) -> None:
        if not processes:
            await write_share(laser, share, _telling(on_progress), anyio.sleep_forever)
        elif victim:
            killed.append(await _write_killed_once(share, on_progress))
        else:
            await _write(share, on_progress)

    async with anyio.create_task_group() as tasks:
        for place, share in enumerate(shares):
            tasks.start_soon(write, share, kill_one and place == 0)
    return killed[0] if killed else None


async def _write_killed_once(share: Share, on_progress: Callable[[Progress], None]) -> Killed:
    half = share.messages // 2
    reported = 0
    async with _agent(msgspec.structs.replace(share, hold_after=half)) as agent:
        while reported < half and (progress := await agent.next()) is not None:
            reported += progress.written + progress.found
            on_progress(progress)
        pid = agent.process.pid
        agent.process.send_signal(signal.SIGKILL)
        await agent.process.wait()
    found = 0
    known = reported

    def resumed(progress: Progress) -> None:
        # What the killed process had told of is found again now; it must not count twice.
        nonlocal found, known
        found += progress.found
        again = min(known, progress.found)
        known -= again
        on_progress(msgspec.structs.replace(progress, found=progress.found - again))

    await _write(share, resumed)
    return Killed(pid, reported, share.messages, found)


async def _write(share: Share, on_progress: Callable[[Progress], None]) -> None:
    done = 0
    async with _agent(share) as agent:
        while (progress := await agent.next()) is not None:
            done += progress.written + progress.found
            on_progress(progress)
        code = await agent.process.wait()
    if code or done != share.messages:
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        raise ls.LaserError(
            f"an agent process {ended} after {done} of {share.messages} messages; "
            "run the same import again: it goes on from what is on the log"
        )


class _Agent:
    """A running agent process, and what it tells."""

    def __init__(self, process: Process, lines: BufferedByteReceiveStream) -> None:
        self.process = process
        self._lines = lines

    async def next(self) -> Progress | None:
        """The next word of the process, ``None`` when it has ended.

        Raises:
            LaserError: the process gave up, and why.
        """
        try:
            line = await self._lines.receive_until(b"\n", _LINE_BYTES)
        except (anyio.IncompleteRead, anyio.EndOfStream):
            return None
        progress = msgspec.json.decode(line, type=Progress)
        if progress.error is not None:
            raise ls.LaserError(progress.error)
        return progress


@asynccontextmanager
async def _agent(share: Share) -> AsyncIterator[_Agent]:
    # The child imports what this process imports, and nothing from a directory it happens to be started in.
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(entry for entry in sys.path if entry))
    process = await anyio.open_process(
        [sys.executable, "-P", "-m", "laser.cli.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None,
        env=environment,
    )
    async with process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("the process was opened with pipes")
        try:
            try:
                await process.stdin.send(msgspec.json.encode(share))
                await process.stdin.aclose()
            except anyio.BrokenResourceError:
                # It ended before it had read its share: its exit code tells.
                pass
            yield _Agent(process, BufferedByteReceiveStream(process.stdout))
        finally:
            if process.returncode is None:
                process.kill()


def _telling(on_progress: Callable[[Progress], None]) -> Callable[[Progress], Awaitable[None]]:
    async def tell(progress: Progress) -> None:
        on_progress(progress)

    return tell
