"""URLs of Iggy servers: what they mean, what is refused, and that no secret comes out again."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
import traceback

import pytest

from laser.engines.iggy import IggyConfig, parse_iggy_url
from laser.errors import ConfigError

_CANARY = "canary7f3a"


@pytest.mark.parametrize(
    ("url", "addresses", "user", "password", "stream"),
    [
        ("iggy://iggy:secret@127.0.0.1:8090", ("127.0.0.1:8090",), "iggy", "secret", None),
        ("iggy:secret@127.0.0.1:8090", ("127.0.0.1:8090",), "iggy", "secret", None),
        (
            "iggy://iggy:secret@a.example:1,b-c.example:65535",
            ("a.example:1", "b-c.example:65535"),
            "iggy",
            "secret",
            None,
        ),
        ("iggy://iggy:secret@host:8090/app", ("host:8090",), "iggy", "secret", "app"),
        ("iggy://iggy:secret@host:8090/a%2Fb%20c", ("host:8090",), "iggy", "secret", "a/b c"),
        ("iggy://iggy:secret@[::1]:8090", ("[::1]:8090",), "iggy", "secret", None),
        ("iggy://i%40b:p%3Aw%25@host:1", ("host:1",), "i@b", "p:w%", None),
        ("iggy://iggy:p@ss:w/o?rd@host:1/s", ("host:1",), "iggy", "p@ss:w/o?rd", "s"),
        ("iggy://iggy:100%@host:1", ("host:1",), "iggy", "100%", None),
    ],
)
def test_a_url_says_where_and_who(
    url: str, addresses: tuple[str, ...], user: str, password: str, stream: str | None
) -> None:
    config, named = parse_iggy_url(url)
    assert (config.addresses, config.username, config.password, named) == (addresses, user, password, stream)
    assert config.token is None
    assert not config.tls


def test_options_of_a_url() -> None:
    config, stream = parse_iggy_url(
        "iggy://u:p@h:1/s?tls=true&tls_domain=iggy.example&tls_ca_file=%2Fca.pem&tls_validate=false&connections=2"
    )
    assert stream == "s"
    assert (config.tls, config.tls_domain, config.tls_ca_file) == (True, "iggy.example", "/ca.pem")
    assert (config.tls_validate, config.connections) == (False, 2)


def test_a_token_stands_for_the_login() -> None:
    config, _ = parse_iggy_url(f"iggy://iggypat-{_CANARY}@host:1")
    assert config.token == f"iggypat-{_CANARY}"
    assert config.username is None
    assert _CANARY not in repr(config)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("iggy://127.0.0.1:8090", "no login"),
        ("iggy://@127.0.0.1:8090", "no login"),
        (f"iggy://{_CANARY}@127.0.0.1:8090", "no password"),
        (f"iggy://{_CANARY}:@127.0.0.1:8090", "no password"),
        (f"iggy://:{_CANARY}@127.0.0.1:8090", "no user"),
        (f"iggy://u:{_CANARY}@", "address 1: no port or no host"),
        (f"iggy://u:{_CANARY}@host", "address 1: no port"),
        (f"iggy://u:{_CANARY}@host:", "the port is not a number"),
        (f"iggy://u:{_CANARY}@:8090", "no port or no host"),
        (f"iggy://u:{_CANARY}@host:0", "the port is not a number from 1 to 65535"),
        (f"iggy://u:{_CANARY}@host:65536", "the port is not a number from 1 to 65535"),
        (f"iggy://u:{_CANARY}@host:80٣", "the port is not a number"),
        (f"iggy://u:{_CANARY}@host:-1", "the port is not a number"),
        (f"iggy://u:{_CANARY}@host:1,", "address 2: no port"),
        (f"iggy://u:{_CANARY}@host:1,,b:2", "address 2: no port"),
        (f"iggy://u:{_CANARY}@a b:1", "not a host name"),
        (f"iggy://u:{_CANARY}@::1:8090", "brackets"),
        (f"iggy://u:{_CANARY}@[]:8090", "no port or no host"),
        (f"iggy://u:{_CANARY}@host:1/", "one stream's name"),
        (f"iggy://u:{_CANARY}@host:1/a/b", "one stream's name"),
        (f"iggy://u:{_CANARY}@host:1?", "unknown option"),
        (f"iggy://u:{_CANARY}@host:1?tsl=true", "unknown option 'tsl'"),
        (f"iggy://u:{_CANARY}@host:1?tls", "tls has no value"),
        (f"iggy://u:{_CANARY}@host:1?tls=yes", "true or false"),
        (f"iggy://u:{_CANARY}@host:1?tls=true&tls=false", "twice"),
        (f"iggy://u:{_CANARY}@host:1?tls_domain=x", "without tls=true"),
        (f"iggy://u:{_CANARY}@host:1?connections=0", "not from 1 to 64"),
        (f"iggy://u:{_CANARY}@host:1?connections=many", "takes a number"),
        (f"iggy://u:{_CANARY}@host:1?reconnection_retries=unlimited", "leave reconnection_retries out"),
        (f"u:{_CANARY}@host:1/stream", "short form"),
        (f"u:{_CANARY}@host:1?tls=true", "short form"),
    ],
)
def test_a_wrong_url_is_told_in_one_line_without_the_secret(url: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=r"^[^\n]*$") as caught:
        parse_iggy_url(url)
    assert reason in str(caught.value)
    shown = io.StringIO()
    traceback.print_exception(caught.value, file=shown)
    for text in (str(caught.value), repr(caught.value), shown.getvalue()):
        assert _CANARY not in text


def test_a_configuration_shows_no_secret() -> None:
    config = IggyConfig(addresses=("host:1",), username="u", password=_CANARY)
    for text in (repr(config), str(config), f"{config}", config.location):
        assert _CANARY not in text
    assert "username='u'" in repr(config)
    assert all(not field.repr for field in dataclasses.fields(config) if field.name in ("password", "token"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"addresses": ()},
        {"username": None},
        {"password": None},
        {"password": ""},
        {"token": "t"},
        {"username": None, "password": None, "token": ""},
        {"addresses": ("host",)},
        {"connections": 65},
        {"tls_ca_file": "/ca.pem"},
        {"tls_validate": False},
    ],
)
def test_a_configuration_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    good: dict[str, object] = {"addresses": ("host:1",), "username": "u", "password": "p"}
    IggyConfig(**good)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        IggyConfig(**(good | wrong))  # type: ignore[arg-type]


def test_a_url_is_parsed_without_loading_the_driver() -> None:
    code = (
        "import sys; from laser.engines.iggy import parse_iggy_url; parse_iggy_url('iggy://u:p@h:1'); "
        "sys.exit('apache_iggy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=250).returncode == 0
