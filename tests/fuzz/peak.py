"""The most memory that this process held at once, from a moment on."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Final

__all__ = ["peak_bytes", "reset_peak"]

_STATUS: Final = Path("/proc/self/status")
_RESET: Final = Path("/proc/self/clear_refs")
_RESET_PEAK: Final = b"5"
_FIELD: Final = b"VmHWM:"


def reset_peak() -> bool:
    """Lets the peak begin anew; ``False`` where the system cannot, and it goes on from what was the most so far."""
    try:
        _RESET.write_bytes(_RESET_PEAK)
    except OSError:
        return False
    return True


def peak_bytes() -> int:
    """The peak in bytes.

    ``getrusage`` is asked only where ``/proc`` does not say it: what a process's parent held when it started it counts
    there, which hides all that is less.
    """
    if not _STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    status = _STATUS.read_bytes()
    start = status.index(_FIELD) + len(_FIELD)
    return int(status[start : status.index(b"kB", start)]) * 1024
