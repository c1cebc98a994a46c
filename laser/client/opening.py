"""Reading a URL and opening the engine behind it. The only module that knows which engines there are."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from laser.content.store import ContentStore
from laser.context.cache import CachedLog
from laser.errors import ConfigError, InvalidError
from laser.limits import DEFAULT_CACHE_BYTES, MAX_TIMEOUT_SECONDS
from laser.model.checks import check_name, shown
from laser.ports.kv import KeyValue
from laser.ports.log import Log
from laser.ports.objects import Objects
from laser.ports.view_store import Views

__all__ = ["Target", "read_target"]

_DEFAULT_URL: Final = "embedded:.laser"
_DEFAULT_STREAM: Final = "laser"
_SHORT_FORM: Final = re.compile(r"[^/@:]+:[^/@]*@[^/@]+")
_FORMS: Final = "memory:, embedded:DIRECTORY, iggy://USER:PASSWORD@HOST:PORT, USER:PASSWORD@HOST:PORT"
_CATALOG_FORMS: Final = "memory:, embedded:DIRECTORY, postgresql://HOST/DATABASE"
_OBJECTS_FORMS: Final = "memory:, embedded:DIRECTORY, s3://BUCKET[/PREFIX][?endpoint=https://HOST]"
_VIEWS_FORMS: Final = "memory:, embedded:DIRECTORY, postgresql://HOST/DATABASE"
_KV_FORMS: Final = "memory:, embedded:DIRECTORY, redis://HOST:PORT, postgresql://HOST/DATABASE"


class Target:
    """Where a client is to connect: URLs that were read and found good, not opened yet.

    Attributes:
        stream: the stream's name.
    """

    def __init__(
        self,
        url: str,
        kv: str | None,
        stream: str,
        cache: int | None,
        timeout: float,
        catalog: str | None = None,
        objects: str | None = None,
        views: str | None = None,
    ) -> None:
        self._url = url
        self._views = views
        self._kv = kv
        self._catalog = catalog
        self._objects = objects
        self._cache = cache
        self._timeout = timeout
        self.stream = stream

    async def open_log(self) -> Log:
        """Opens the log, with a cache in front where reads cross a network or one was asked for.

        Raises:
            As the engine says.
        """
        log = await self._open_engine()
        if self._cache == 0:
            return log
        try:
            info = await log.describe()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await log.aclose()
            raise
        if self._cache is None and not info.remote:
            # A log on this machine has an index by conversation; a cache would only cost memory.
            return log
        max_bytes = DEFAULT_CACHE_BYTES if self._cache is None else self._cache
        return CachedLog(log, max_bytes=max_bytes, steady_clock=info.steady_clock)

    async def _open_engine(self) -> Log:
        if self._url == "memory:":
            from laser.engines.memory import MemoryLog

            return MemoryLog()
        directory = _directory(self._url)
        if directory is not None:
            from laser.engines.sqlite import open_sqlite_log

            return await open_sqlite_log(directory, timeout=self._timeout)
        from laser.engines.iggy import open_iggy_log, parse_iggy_url

        config, _ = parse_iggy_url(self._url)
        return await open_iggy_log(config, timeout=self._timeout)

    async def open_kv(self) -> KeyValue:
        """Opens the key-value store: the one that was asked for, else the one beside a log of this machine.

        Raises:
            ConfigError: none was asked for, and the log is on a server. Others as the engine says.
        """
        url = self._kv if self._kv is not None else self._url
        if url == "memory:":
            from laser.engines.memory import MemoryKeyValue

            return MemoryKeyValue()
        directory = _directory(url)
        if directory is not None:
            from laser.engines.sqlite import open_sqlite_kv

            return await open_sqlite_kv(directory, timeout=self._timeout)
        if url.startswith(("redis://", "rediss://", "valkey://", "valkeys://")):
            from laser.engines.redis import open_redis_kv

            return await open_redis_kv(url, timeout=self._timeout)
        if url.startswith(("postgresql://", "postgres://")):
            from laser.engines.postgres import open_postgres_kv

            return await open_postgres_kv(url, timeout=self._timeout)
        if self._kv is None:
            raise ConfigError(f"kv: a log on a server has no key-value store beside it; give kv=, one of {_KV_FORMS}")
        raise ConfigError(f"kv: unknown form {_shown(url)}; the forms are {_KV_FORMS}")

    async def open_content(self) -> ContentStore:
        """Opens the content catalog and the object store: those that were asked for, else those beside the log.

        Raises:
            ConfigError: none was asked for, and the log is on a server. Others as the engines say.
        """
        url = self._catalog if self._catalog is not None else self._url
        objects = await self._open_objects(url)
        try:
            if url == "memory:":
                from laser.engines.memory import MemoryCatalog

                return ContentStore(MemoryCatalog(), objects)
            directory = _directory(url)
            if directory is not None:
                from laser.engines.sqlite import open_sqlite_catalog

                beside = await anyio.to_thread.run_sync(_same_directory, directory, _directory(self._url))
                catalog = await open_sqlite_catalog(directory, timeout=self._timeout)
                return ContentStore(catalog, objects, catalog if beside else None)
            if url.startswith(("postgresql://", "postgres://")):
                from laser.engines.postgres import open_postgres_catalog

                return ContentStore(await open_postgres_catalog(url, timeout=self._timeout), objects)
        except BaseException:
            if objects is not None:
                with anyio.CancelScope(shield=True):
                    await objects.aclose()
            raise
        if self._catalog is None:
            raise ConfigError(
                f"catalog: a log on a server has no content catalog beside it; give catalog=, one of {_CATALOG_FORMS}, "
                f"and objects=, one of {_OBJECTS_FORMS}"
            )
        raise ConfigError(f"catalog: unknown form {_shown(url)}; the forms are {_CATALOG_FORMS}")

    async def _open_objects(self, catalog: str) -> Objects | None:
        url = self._objects if self._objects is not None else catalog
        if url == "memory:":
            from laser.engines.memory import MemoryObjects

            return MemoryObjects()
        directory = _directory(url)
        if directory is not None:
            from laser.engines.objects import open_directory_objects

            return await open_directory_objects(directory / "objects")
        if url.startswith("s3://"):
            from laser.engines.objects import open_s3_objects

            return await open_s3_objects(url, timeout=self._timeout)
        if self._objects is None:
            # A directory of this machine would not be found by the catalog's other users.
            return None
        raise ConfigError(f"objects: unknown form {_shown(url)}; the forms are {_OBJECTS_FORMS}")

    async def open_views(self) -> Views:
        """Opens the read views: those that were asked for, else in the directory of an embedded log, else in memory.

        Raises:
            ConfigError: another form. Others as the engine says.
        """
        url = self._views if self._views is not None else self._url
        directory = _directory(url)
        if self._views is None or directory is not None or url == "memory:":
            from laser.engines.sqlite.views import open_sqlite_views

            return await open_sqlite_views(None if directory is None else str(directory), timeout=self._timeout)
        if url.startswith(("postgresql://", "postgres://")):
            from laser.engines.postgres.views import open_postgres_views

            return await open_postgres_views(url, timeout=self._timeout)
        raise ConfigError(f"views: unknown form {_shown(url)}; the forms are {_VIEWS_FORMS}")

    def __repr__(self) -> str:
        return f"Target({_shown(self._url)}, stream={self.stream!r})"


def read_target(
    url: str | None,
    kv: str | None,
    stream: str | None,
    cache: int | None,
    timeout: float,
    catalog: str | None = None,
    objects: str | None = None,
    views: str | None = None,
) -> Target:
    """Reads what ``Laser.connect`` was given, and the environment for what it was not.

    Raises:
        ConfigError: a URL of another form. InvalidError: a bad stream name or timeout.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= MAX_TIMEOUT_SECONDS:
        raise InvalidError(
            f"timeout: {shown(timeout)} is not a number of seconds above 0, at most {MAX_TIMEOUT_SECONDS:.0f}",
            argument="timeout",
        )
    if cache is not None and (type(cache) is not int or cache < 0):
        raise InvalidError(f"cache: {shown(cache)} is not a whole number of bytes from 0", argument="cache")
    if stream is not None:
        check_name(stream, "stream")
    if url is None:
        url = os.environ.get("LASER_CONNECTION_STRING") or _DEFAULT_URL
    for name, value in (("url", url), ("kv", kv), ("catalog", catalog), ("objects", objects), ("views", views)):
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{name}: expected text, got {type(value).__name__}")
    named = None
    if url.startswith("iggy://") or _SHORT_FORM.fullmatch(url):
        from laser.engines.iggy import parse_iggy_url

        _, named = parse_iggy_url(url)
    elif url != "memory:" and _directory(url) is None:
        raise ConfigError(f"url: unknown form {_shown(url)}; the forms are {_FORMS}")
    chosen = stream or named or os.environ.get("LASER_STREAM") or _DEFAULT_STREAM
    return Target(url, kv, check_name(chosen, "stream"), cache, timeout, catalog, objects, views)


def _directory(url: str) -> Path | None:
    """The directory of an embedded URL; ``None`` for another URL."""
    scheme, colon, rest = url.partition(":")
    if scheme != "embedded" or not colon:
        return None
    if not rest or "\0" in rest:
        raise ConfigError("url: embedded: needs a directory, as in embedded:./data")
    try:
        return Path(rest).expanduser()
    except RuntimeError as error:
        raise ConfigError("url: embedded: begins with ~ and a user whose home is not known; give the path") from error


def _same_directory(one: Path, other: Path | None) -> bool:
    if other is None:
        return False
    try:
        return one.samefile(other)
    except OSError:
        return one.absolute() == other.absolute()


def _shown(url: str) -> str:
    # The rest of the URL stays out of every text: it may hold a password.
    scheme, colon, _ = url.partition(":")
    return repr(f"{scheme[:16]}{colon}…") if colon and "@" not in scheme else "(without a scheme)"
