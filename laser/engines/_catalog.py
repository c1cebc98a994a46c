"""What the catalogs share."""

from __future__ import annotations

from collections.abc import Iterable

from laser.errors import ConflictError, NotFoundError

__all__ = ["lease_lost", "missing", "upload_lost"]


def missing(digests: Iterable[str]) -> NotFoundError:
    """Contents that are not there."""
    names = sorted(digests)
    shown = ", ".join(f"sha256:{name[:16]}…" for name in names[:3]) + ("" if len(names) <= 3 else ", …")
    return NotFoundError(
        f"{len(names)} content{'s' if len(names) > 1 else ''} not there ({shown}): never put by this tenant, or "
        "removed because nothing held it; put it again"
    )


def upload_lost(key: str) -> ConflictError:
    """The collector took an upload for dead."""
    return ConflictError(f"upload {key}: it took longer than the grace and was collected; put the content again")


def lease_lost(name: str) -> ConflictError:
    """Another process does the work now."""
    return ConflictError(f"lease {name!r}: another process has it now")
