"""An S3 URL, read and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from laser.errors import ConfigError

__all__ = ["S3Config", "parse_s3_url"]

_FORM: Final = "s3://[KEY_ID:SECRET@]BUCKET[/PREFIX][?endpoint=https://…&region=…]"
_PARAMETERS: Final = frozenset({"endpoint", "region", "virtual_hosted"})
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")


@dataclass(frozen=True)
class S3Config:
    """Which bucket, where, and how to enter it. Its repr holds no secret.

    Attributes:
        prefix: of all keys, without slashes at its ends. endpoint: of another service than AWS.
        key_id, secret: ``None`` where AWS's own variables and files are to tell.
        virtual_hosted: whether the bucket's name is a part of the host's.
    """

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None
    key_id: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    virtual_hosted: bool = False

    @property
    def address(self) -> str:
        """Bucket, prefix and endpoint."""
        return f"s3://{self.bucket}{'/' if self.prefix else ''}{self.prefix}" + (
            f" at {self.endpoint}" if self.endpoint else ""
        )


def parse_s3_url(url: str) -> S3Config:
    """Reads ``s3://[KEY_ID:SECRET@]BUCKET[/PREFIX][?endpoint=…&region=…&virtual_hosted=true]``.

    Without a key id and secret the variables ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``
    and the others of AWS count.

    Raises:
        ConfigError: another form. The text never holds the URL, which may hold a secret.
    """
    parts = _split(url)
    if parts is None or parts.scheme != "s3":
        raise ConfigError(f"objects: the URL cannot be read; the form is {_FORM}")
    who, _, bucket = parts.netloc.rpartition("@")
    key_id, colon, secret = who.partition(":")
    if who and not (key_id and colon and secret):
        raise ConfigError(f"objects: the URL has only a half of key id and secret; the form is {_FORM}")
    if not _BUCKET.fullmatch(bucket):
        raise ConfigError(f"objects: the bucket's name is not 3 to 63 small letters, digits, dots and dashes; {_FORM}")
    prefix = unquote(parts.path).strip("/")
    if prefix and (not _PREFIX.fullmatch(prefix) or {".", ".."} & set(prefix.split("/"))):
        raise ConfigError("objects: the prefix may hold letters, digits, '.', '_', '-' and single slashes")
    if parts.fragment:
        raise ConfigError("objects: the URL holds a '#'; in a key id or secret write it as %23")
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in parameters:
        if name not in _PARAMETERS:
            raise ConfigError(f"objects: unknown parameter {name[:32]!r}; there are {', '.join(sorted(_PARAMETERS))}")
    endpoint = parameters.get("endpoint")
    if endpoint is not None:
        where = _split(endpoint)
        if where is None or where.scheme not in ("http", "https") or not where.netloc or "@" in where.netloc:
            raise ConfigError("objects: endpoint must be http://HOST[:PORT] or https://HOST[:PORT]")
    hosted = parameters.get("virtual_hosted", "false")
    if hosted not in ("true", "false"):
        raise ConfigError("objects: virtual_hosted must be true or false")
    region = parameters.get("region")
    if region is not None and not re.fullmatch(r"[A-Za-z0-9-]{1,64}", region):
        raise ConfigError("objects: region must be letters, digits and dashes, such as eu-central-1")
    return S3Config(
        bucket,
        prefix,
        endpoint,
        region,
        unquote(key_id) or None,
        unquote(secret) or None,
        hosted == "true",
    )


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError:
        # Told by None, not by an error: urllib's text quotes what it could not read, and that may be a secret.
        return None
    return parts
