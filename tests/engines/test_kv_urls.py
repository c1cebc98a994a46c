"""URLs of key-value stores, and drivers that are not installed."""

from __future__ import annotations

import sys

import pytest

from laser.engines.postgres import open_postgres_kv
from laser.engines.postgres.config import PostgresConfig, parse_postgres_url
from laser.engines.redis import open_redis_kv
from laser.engines.redis.config import RedisConfig, parse_redis_url
from laser.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "config"),
    [
        ("redis://host", RedisConfig("host", 6379)),
        ("redis://host:1/", RedisConfig("host", 1)),
        ("redis://host:1/15", RedisConfig("host", 1, 15)),
        ("valkey://host:1/2", RedisConfig("host", 1, 2)),
        ("redis://:secret@host", RedisConfig("host", 6379, password="secret")),
        ("redis://user:a%40b%3A%2F%23@host", RedisConfig("host", 6379, username="user", password="a@b:/#")),
        ("redis://[::1]:1/0", RedisConfig("::1", 1)),
        ("rediss://host", RedisConfig("host", 6379, tls=True)),
        ("valkeys://host", RedisConfig("host", 6379, tls=True)),
        ("rediss://host/?tls_ca_file=%2Fa%20b.pem", RedisConfig("host", 6379, tls=True, tls_ca_file="/a b.pem")),
    ],
)
def test_redis_urls(url: str, config: RedisConfig) -> None:
    assert parse_redis_url(url) == config


@pytest.mark.parametrize(
    "url",
    [
        *("", "redis:", "redis://", "redis:///0", "http://host", "host:6379", "redis://host:x", "redis://host:65536"),
        *("redis://host/a", "redis://host/-1", "redis://host/1/2", "redis://host/²", "redis://[::1/0"),
        *("redis://host#a", "redis://host?db=1", "redis://host?tls_ca_file=a", "rediss://host?ssl_cert_reqs=none"),
    ],
)
def test_bad_redis_urls(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^kv: "):
        parse_redis_url(url)


@pytest.mark.parametrize(
    ("url", "config"),
    [
        ("postgresql://host/db", PostgresConfig("host", "5432", "db", None, None)),
        ("postgres://host:1/db", PostgresConfig("host", "1", "db", None, None)),
        ("postgresql://u:p%40%3A%2F%23@host/d%20b", PostgresConfig("host", "5432", "d b", "u", "p@:/#")),
        ("postgresql://u@a,b:2,[::1]:3/db", PostgresConfig("a,b,::1", "5432,2,3", "db", "u", None)),
        ("postgresql:///db", PostgresConfig(None, None, "db", None, None)),
        ("postgresql://", PostgresConfig(None, None, None, None, None)),
        ("postgresql://%2Frun%2Fpg/db", PostgresConfig("/run/pg", "5432", "db", None, None)),
        ("postgresql://h/d?sslmode=require", PostgresConfig("h", "5432", "d", None, None, {"sslmode": "require"})),
    ],
)
def test_postgres_urls(url: str, config: PostgresConfig) -> None:
    assert parse_postgres_url(url) == config


@pytest.mark.parametrize(
    "url",
    [
        *("", "mysql://host/db", "postgresql://host:x/db", "postgresql://a:1:2/db", "postgresql://[::1/db"),
        *("postgresql://host/db#a", "postgresql://host/db?options=-c", "postgresql://host/db?password=a"),
        *("postgresql://ho%00st/db", "postgresql://u:p%00@host/db"),
    ],
)
def test_bad_postgres_urls(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^kv: "):
        parse_postgres_url(url)


def test_configs_show_no_password() -> None:
    assert "secret" not in repr(parse_redis_url("redis://user:secret@host"))
    assert "secret" not in repr(parse_postgres_url("postgresql://user:secret@host/db"))


@pytest.mark.anyio
@pytest.mark.parametrize("driver", ["redis", "psycopg"])
async def test_a_driver_that_is_not_installed_is_named(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = {"redis": "redis", "psycopg": "postgres"}[driver]
    for name in list(sys.modules):
        # Whatever imported the driver already is imported anew.
        if name.startswith(f"laser.engines.{engine}.") and name.rpartition(".")[2] not in ("config", "opening"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(ConfigError, match=rf"pip install 'laser-context\[{engine}\]'"):
        if engine == "redis":
            await open_redis_kv("redis://host")
        else:
            await open_postgres_kv("postgresql://host/db")
