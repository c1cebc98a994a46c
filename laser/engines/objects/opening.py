"""Opening S3; the driver is looked for only here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laser.engines.objects.config import parse_s3_url
from laser.errors import ConfigError

if TYPE_CHECKING:
    from laser.engines.objects.s3 import S3Objects

__all__ = ["open_s3_objects"]


async def open_s3_objects(url: str, *, timeout: float = 30.0) -> S3Objects:
    """Opens a bucket of an S3-compatible service. Does no I/O: the first call finds out whether it is there.

    Args:
        url: see ``parse_s3_url``. timeout: seconds for a call, and for each step of a ``put``.

    Raises:
        ConfigError: the URL has another form, or the driver is not installed.
    """
    config = parse_s3_url(url)
    try:
        from laser.engines.objects.s3 import S3Objects
    except ImportError as error:
        raise ConfigError(
            "objects: s3:// needs the driver; install it with: pip install 'laser-context[s3]'"
        ) from error
    return S3Objects(config, timeout=timeout)
