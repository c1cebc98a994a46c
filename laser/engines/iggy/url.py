"""``iggy://`` URLs."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from laser.engines.iggy.config import IggyConfig, split_address
from laser.errors import ConfigError

__all__ = ["parse_iggy_url"]

_SCHEME: Final = "iggy://"
_FORM: Final = "iggy://USER:PASSWORD@HOST:PORT[,HOST:PORT...][/STREAM][?tls=true&...]"
_TOKEN_PREFIX: Final = "iggypat-"  # noqa: S105 -- what Iggy's tokens begin with, no secret
_DRIVER_OPTIONS: Final = frozenset(
    {"reconnection_retries", "reconnection_interval", "reestablish_after", "heartbeat_interval", "nodelay"}
)
_BOOLEANS: Final = {"true": True, "false": False}


def parse_iggy_url(url: str) -> tuple[IggyConfig, str | None]:
    """The configuration in a URL, and the stream that it names.

    Args:
        url: ``iggy://user:password@host:port[,host:port…][/stream][?option=value&…]``, or the short form
            ``user:password@host:port``. Percent signs escape in user, password, stream and option values;
            ``iggy://iggypat-…@host:port`` logs in with a personal access token. The options are ``tls``,
            ``tls_domain``, ``tls_ca_file``, ``tls_validate`` and ``connections`` (see ``IggyConfig``).

    Raises:
        ConfigError: anything else. The text never holds what stands before the ``@``.
    """
    login, at, place = url.removeprefix(_SCHEME).rpartition("@")
    if not at or not login:
        raise ConfigError(f"url: no login; the form is {_FORM}")
    place, question, query = place.partition("?")
    hosts, slash, stream = place.partition("/")
    if (slash or question) and not url.startswith(_SCHEME):
        raise ConfigError(f"url: the short form ends after the port; the long one is {_FORM}")
    addresses = tuple(hosts.split(","))
    for number, address in enumerate(addresses, 1):
        split_address(address, f"url, address {number}")
    options = _options(query) if question else {}
    if slash and (not stream or "/" in stream):
        raise ConfigError("url: after the / one stream's name is expected; escape a / in it as %2F")
    user, colon, password = login.partition(":")
    if not colon and user.startswith(_TOKEN_PREFIX):
        config = IggyConfig(addresses=addresses, token=unquote(user), **options)  # type: ignore[arg-type]
    elif not user or not password:
        raise ConfigError(f"url: {'no password' if user else 'no user'} before the @; the form is {_FORM}")
    else:
        config = IggyConfig(
            addresses=addresses,
            username=unquote(user),
            password=unquote(password),
            **options,  # type: ignore[arg-type]
        )
    return config, unquote(stream) if slash else None


def _options(query: str) -> dict[str, bool | str | int]:
    options: dict[str, bool | str | int] = {}
    for number, part in enumerate(query.split("&"), 1):
        name, equals, value = part.partition("=")
        value = unquote(value)
        if name in _DRIVER_OPTIONS:
            raise ConfigError(f"url: leave {name} out: laser keeps its connections up by itself, within the timeout")
        if name not in ("tls", "tls_domain", "tls_ca_file", "tls_validate", "connections"):
            # Values stay out of every text, and so does what stands alone: somebody may have put a secret there.
            shown = f"unknown option {name[:40]!r}" if equals else f"unknown option, the one at place {number}"
            raise ConfigError(f"url: {shown}; known are tls, tls_domain, tls_ca_file, tls_validate, connections")
        if not equals or not value:
            raise ConfigError(f"url: option {name} has no value")
        if name in options:
            raise ConfigError(f"url: option {name} stands twice")
        if name in ("tls", "tls_validate"):
            if value not in _BOOLEANS:
                raise ConfigError(f"url: option {name} takes true or false")
            options[name] = _BOOLEANS[value]
        elif name == "connections":
            if not (value.isascii() and value.isdigit() and len(value) <= 3):
                raise ConfigError("url: option connections takes a number")
            options[name] = int(value)
        else:
            options[name] = value
    return options
