"""Where an Apache Iggy server is and how to log in to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from laser.errors import ConfigError

__all__ = ["IggyConfig", "split_address"]

_MAX_PORT: Final = 65_535


@dataclass(frozen=True, kw_only=True, slots=True)
class IggyConfig:
    """The addresses and credentials of one server or cluster. Its repr holds no secret.

    Args:
        addresses: ``host:port`` each, IPv6 hosts in brackets; one node, or any nodes of one cluster. They are tried
            in this order, and the nodes of a cluster that they name are found by themselves.
        username, password: the login.
        token: a personal access token; give it or the login.
        tls: encrypt the connection. tls_domain: the name that the server's certificate must hold, empty for the
            address's host. tls_ca_file: PEM file of the authorities to trust; ``None`` for the well-known ones.
        tls_validate: ``False`` accepts any certificate; for tests only.
        connections: the most connections that one log opens; each carries one call at a time.

    Raises:
        ConfigError: a value that cannot be; the text names it and holds no secret.
    """

    addresses: tuple[str, ...]
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_domain: str = ""
    tls_ca_file: str | None = None
    tls_validate: bool = True
    connections: int = 4

    def __post_init__(self) -> None:
        if not self.addresses:
            raise ConfigError("addresses: none given; give host:port")
        for number, address in enumerate(self.addresses, 1):
            split_address(address, f"address {number}")
        if self.token is not None:
            _check(self.username is None and self.password is None, "token: give it or a login, not both")
            _check(bool(self.token), "token: is empty")
        else:
            _check(bool(self.username), "username: none given; the form is USER:PASSWORD@HOST:PORT")
            _check(bool(self.password), "password: none given; the form is USER:PASSWORD@HOST:PORT")
        _check(
            self.tls or (not self.tls_domain and self.tls_ca_file is None and self.tls_validate),
            "tls_domain, tls_ca_file and tls_validate mean nothing without tls=true",
        )
        _check(1 <= self.connections <= 64, f"connections: {self.connections} is not from 1 to 64")

    @property
    def location(self) -> str:
        """The addresses, for people; without credentials."""
        return ",".join(self.addresses)


def split_address(address: str, which: str = "address") -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``.

    Raises:
        ConfigError: it has another form. The text does not repeat it: a slip in a URL can put a password there.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or host == "[]":
        raise ConfigError(f"{which}: no port or no host; the form is HOST:PORT")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= _MAX_PORT):
        raise ConfigError(f"{which}: the port is not a number from 1 to {_MAX_PORT}")
    bracketed = host.startswith("[") and host.endswith("]")
    marks = ":.%" if bracketed else ".-_"
    if not all(character.isalnum() or character in marks for character in (host[1:-1] if bracketed else host)):
        raise ConfigError(f"{which}: not a host name or address; put IPv6 addresses in brackets")
    return host, int(port)


def _check(good: bool, message: str) -> None:
    if not good:
        raise ConfigError(message)
