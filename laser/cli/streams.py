"""The standard streams of the command: always open, for any text, and with one error for what cannot be written."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import AsyncGenerator
from typing import Final

import anyio
from anyio import to_thread

from laser.errors import StorageError

__all__ = ["open_streams", "read_stdin", "stdin_chunks"]

_DESCRIPTORS: Final = (0, 1, 2)
_CHUNK_BYTES: Final = 1 << 20


def open_streams() -> None:
    """Makes stdin, stdout and stderr fit for use. To be called once, before anything is read or written.

    One that the caller closed is opened on nothing; else the next file opened would get its number, and what is
    printed would go into it. Text that the terminal's encoding lacks is shown as ``\\u2192``.
    """
    for descriptor in _DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open as long as the process
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    before = sys.stdout
    encoding = "utf-8" if before is None else before.encoding
    output = _Output(1, "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(output), encoding, errors="backslashreplace", line_buffering=output.isatty()
    )


async def read_stdin() -> bytes:
    """All of stdin. On a terminal it says what it waits for."""
    return b"".join([chunk async for chunk in stdin_chunks()])


async def stdin_chunks() -> AsyncGenerator[bytes, None]:
    """Stdin, a piece at a time."""
    stdin = sys.stdin
    try:
        descriptor = stdin.fileno()
    except OSError:
        # Something in memory that stands for it, as tests have.
        while chunk := await to_thread.run_sync(stdin.buffer.read, _CHUNK_BYTES):
            yield chunk
        return
    if stdin.isatty():
        sys.stderr.write("Reading from the terminal: Ctrl-D ends the text, Ctrl-C gives up.\n")
        sys.stderr.flush()
    while True:
        # A read that waits cannot be interrupted, and the process would not end before it.
        try:
            await anyio.wait_readable(descriptor)
        except PermissionError:
            # A file or the null device: no event loop waits for those, and no read of them waits either.
            pass
        try:
            chunk = await to_thread.run_sync(os.read, descriptor, _CHUNK_BYTES)
        except OSError as error:
            raise StorageError(f"stdin cannot be read: {error.strerror or error}") from error
        if not chunk:
            return
        yield chunk


class _Output(io.FileIO):
    """Stdout. After a failed write it goes nowhere: what is left in the buffers must not fail again at exit."""

    def write(self, data: object) -> int | None:  # type: ignore[override] # typeshed's Buffer is not in Python 3.11
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            if isinstance(error, BrokenPipeError):
                raise
            raise StorageError(f"the output cannot be written: {error.strerror or error}") from error
