"""A PostgreSQL URL, read and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from laser.errors import ConfigError

__all__ = ["PostgresConfig", "parse_postgres_url"]

_SCHEMES: Final = ("postgresql", "postgres")
_FORM: Final = "postgresql://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…]/DATABASE[?sslmode=verify-full&…]"
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]*)(?::([0-9]{1,5}))?")
_PARAMETERS: Final = frozenset(
    {
        "application_name",
        "channel_binding",
        "gssencmode",
        "require_auth",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslrootcert",
        "target_session_attrs",
    }
)


@dataclass(frozen=True)
class PostgresConfig:
    """Where a PostgreSQL is and how to enter it. Its repr holds no password.

    Attributes:
        host, port: several of them divided by commas. A part that is ``None`` is libpq's business: its environment
            variables, its password file, its defaults.
        parameters: libpq's, by name.
    """

    host: str | None
    port: str | None
    database: str | None
    user: str | None
    password: str | None = field(default=None, repr=False)
    parameters: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Hosts, ports and database."""
        hosts = (self.host or "localhost").split(",")
        ports = (self.port or "").split(",")
        if len(ports) < len(hosts):
            ports = ports * len(hosts)
        places = [f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=True)]
        return f"{','.join(places)}/{self.database or ''}"


def parse_postgres_url(url: str, argument: str = "kv") -> PostgresConfig:
    """Reads ``postgresql://[user[:password]@]host[:port][,…]/database[?name=value&…]``.

    Args:
        url: parts are percent-encoded. The parameters are libpq's: ``sslmode``, ``sslrootcert``, ``sslcert``,
            ``sslkey``, ``sslcrl``, ``channel_binding``, ``gssencmode``, ``require_auth``, ``target_session_attrs`` and
            ``application_name``. Over a network use ``sslmode=verify-full``: libpq does not verify servers
            by default.
        argument: what the caller calls it, for the text of errors.

    Raises:
        ConfigError: another form. The text never holds the URL, which may hold a password.
    """
    parts = _split(url)
    if parts is None:
        raise ConfigError(f"{argument}: the URL cannot be read; the form is {_FORM}")
    if parts.scheme not in _SCHEMES:
        raise ConfigError(f"{argument}: not a PostgreSQL URL; the form is {_FORM}")
    if parts.fragment:
        raise ConfigError(f"{argument}: the URL holds a '#'; in a user name or password write it as %23")
    if "\0" in unquote(url):
        raise ConfigError(f"{argument}: the URL holds a NUL character")
    who, _, where = parts.netloc.rpartition("@")
    user, _, password = who.partition(":")
    found = [_HOST.fullmatch(place) for place in where.split(",")]
    places = [match.groups() for match in found if match is not None]
    if len(places) < len(found):
        raise ConfigError(f"{argument}: a host or port of the URL cannot be read; the form is {_FORM}")
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in parameters:
        if name not in _PARAMETERS:
            raise ConfigError(
                f"{argument}: unknown parameter {name[:32]!r}; there are {', '.join(sorted(_PARAMETERS))}"
            )
    return PostgresConfig(
        host=",".join(unquote(host.strip("[]")) for host, _ in places) or None,
        port=",".join(port or "5432" for _, port in places) if where else None,
        database=unquote(parts.path.removeprefix("/")) or None,
        user=unquote(user) or None,
        password=unquote(password) or None,
        parameters=parameters,
    )


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        # Told by None, not by an error: urllib's text quotes what it could not read, and that may be a password.
        return None
