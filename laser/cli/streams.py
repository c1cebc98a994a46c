"""The standard streams of the command: always open, for any text, and with one error for what cannot be written."""

from __future__ import annotations

import io
import os
import sys
from typing import Final

from laser.errors import StorageError

__all__ = ["open_streams"]

_DESCRIPTORS: Final = (0, 1, 2)


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
