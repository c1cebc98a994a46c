"""A Redis URL, read and checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from laser.errors import ConfigError

__all__ = ["RedisConfig", "parse_redis_url"]

_SCHEMES: Final = {"redis": False, "rediss": True, "valkey": False, "valkeys": True}
_FORM: Final = "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// for TLS"
_DEFAULT_PORT: Final = 6379
_TLS_FILES: Final = ("tls_ca_file", "tls_cert_file", "tls_key_file")


@dataclass(frozen=True)
class RedisConfig:
    """Where a Redis is and how to enter it. Its repr holds no password.

    Attributes:
        database: the number of the database. tls: whether to encrypt, and to verify the server's certificate and name.
        tls_ca_file: PEM certificates to trust in place of the system's. tls_cert_file, tls_key_file: of the client.
    """

    host: str
    port: int
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_ca_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None

    @property
    def address(self) -> str:
        """``host:port/database``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}/{self.database}"


def parse_redis_url(url: str) -> RedisConfig:
    """Reads ``redis://[user:password@]host[:port][/database]``; ``rediss://`` means TLS, ``valkey://`` and
    ``valkeys://`` mean the same as these two.

    Args:
        url: user and password are percent-encoded. After ``?``, for TLS only: ``tls_ca_file``, ``tls_cert_file`` and
            ``tls_key_file``, paths of PEM files.

    Raises:
        ConfigError: another form. The text never holds the URL, which may hold a password.
    """
    split = _split(url)
    if split is None:
        raise ConfigError(f"kv: the host or port of the URL cannot be read; the form is {_FORM}")
    parts, host, port = split
    if parts.scheme not in _SCHEMES:
        raise ConfigError(f"kv: not a Redis URL; the form is {_FORM}")
    tls = _SCHEMES[parts.scheme]
    if not host:
        raise ConfigError(f"kv: names no host; the form is {_FORM}")
    if parts.fragment:
        raise ConfigError("kv: holds a '#'; in a user name or password write it as %23")
    database = parts.path.strip("/") or "0"
    if not (database.isascii() and database.isdigit()):
        raise ConfigError(f"kv: the database, after the '/', is not a whole number; the form is {_FORM}")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in _TLS_FILES or not tls:
            raise ConfigError(
                f"kv: unknown parameter {name[:32]!r}; there are {', '.join(_TLS_FILES)}, for rediss:// only"
            )
    return RedisConfig(
        host=host,
        port=port or _DEFAULT_PORT,
        database=int(database),
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        tls=tls,
        **options,
    )


def _split(url: str) -> tuple[SplitResult, str | None, int | None] | None:
    try:
        parts = urlsplit(url)
        return parts, parts.hostname, parts.port
    except ValueError:
        # Told by None, not by an error: urllib's text quotes what it could not read, and that may be a password.
        return None
