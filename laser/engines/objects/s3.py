"""Objects in a bucket of an S3-compatible service."""

from __future__ import annotations

import queue
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import obstore
from anyio.lowlevel import checkpoint_if_cancelled
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from laser.engines._loop import HomeLoop
from laser.engines._objects import absent, check_key
from laser.engines.objects.config import S3Config
from laser.errors import (
    AuthenticationError,
    ClosedError,
    ConfigError,
    DeadlineError,
    DisconnectedError,
    LaserError,
    TransportError,
)

__all__ = ["S3Objects"]

T = TypeVar("T")

_PART_BYTES: Final = 8 << 20
_PARTS_AT_ONCE: Final = 2
_WAITING_CHUNKS: Final = 2
_MOST_CALLS: Final = 8
_CONNECT_SECONDS: Final = 5.0
_BATCH: Final = 500
# The driver's text goes on with its own structures; the first line says what a user can use.
_DETAIL: Final = re.compile(r"\n\s*Debug source:.*", re.DOTALL)
_STATUS: Final = re.compile(r"status code: (\d{3})")


class S3Objects:
    """An ``Objects`` in a bucket. Made by ``open_s3_objects``.

    Objects of more than 8 MiB are uploaded in parts. Where a process dies during such an upload, its parts stay in the
    bucket, invisible but not free of charge: give the bucket a lifecycle rule that aborts incomplete multipart uploads.
    """

    def __init__(self, config: S3Config, *, timeout: float) -> None:
        self._address = config.address
        self._home = HomeLoop(f"the objects in {config.address}")
        self._timeout = timeout
        self._closed = False
        self._threads = anyio.CapacityLimiter(_MOST_CALLS)
        self._uploads = anyio.CapacityLimiter(_MOST_CALLS)
        self._store = _make_store(config, timeout)

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """See ``Objects.put``."""
        self._check()
        check_key(key)
        feed = _Feed(self._home)
        done = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._feed, feed, chunks)
            done = await self._upload(key, feed)
            tasks.cancel_scope.cancel()
        if feed.error is not None:
            # Raised out here: inside it would come out in a group.
            raise feed.error
        if not done:
            # The group takes a cancellation from outside for its own; here it comes out.
            await checkpoint_if_cancelled()
            raise DisconnectedError(f"{self._address}: the upload of {key} stopped; put the content again")

    async def get(self, key: str, start: int, stop: int) -> bytes:
        """See ``Objects.get``."""
        check_key(key)

        def run() -> bytes:
            return bytes(obstore.get_range(self._store, key, start=start, end=stop))

        try:
            return await self._call(run)
        except _AbsentError as error:
            raise absent(self._address, key) from error.__cause__

    async def delete(self, keys: Sequence[str]) -> None:
        """See ``Objects.delete``."""
        names = [check_key(key) for key in keys]
        for at in range(0, len(names), _BATCH):
            batch = names[at : at + _BATCH]
            try:
                await self._call(lambda batch=batch: obstore.delete(self._store, batch))  # type: ignore[misc]
            except _AbsentError:
                continue

    async def aclose(self) -> None:
        """See ``Objects.aclose``."""
        self._home.check()
        self._closed = True

    def __repr__(self) -> str:
        return f"<S3Objects {self._address!r}{' closed' if self._closed else ''}>"

    async def _upload(self, key: str, feed: _Feed) -> bool:
        """Writes what the feed gives, until its end. Returns whether the object is there."""

        def run() -> None:
            obstore.put(
                self._store, key, feed, use_multipart=True, chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
            )

        try:
            # Not abandoned when cancelled: the feed ends, and the driver then gives the upload up by itself.
            await anyio.to_thread.run_sync(run, limiter=self._uploads)
        except _StopUpload:
            return False
        except (BaseError, OSError) as error:
            if feed.error is None:
                feed.error = self._translate(error)
                feed.error.__cause__ = error
            return False
        return True

    async def _feed(self, feed: _Feed, chunks: AsyncIterator[bytes]) -> None:
        try:
            async for chunk in chunks:
                with anyio.move_on_after(self._timeout) as scope:
                    await feed.give(chunk)
                if scope.cancelled_caught:
                    raise self._late()
        except BaseException as error:
            # A cancelled task tells the thread too, or that would wait for ever.
            feed.end(error)
            if not isinstance(error, Exception):
                raise
        else:
            feed.end(None)

    async def _call(self, run: Callable[[], T]) -> T:
        self._check()
        with anyio.move_on_after(self._timeout):
            try:
                return await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=self._threads)
            except (BaseError, OSError) as error:
                raise self._translate(error) from error
        raise self._late()

    def _check(self) -> None:
        self._home.check()
        if self._closed:
            raise ClosedError(f"{self._address} was closed; open it again")

    def _late(self) -> DeadlineError:
        return DeadlineError(f"{self._address} did not answer within {self._timeout:g} s", seconds=self._timeout)

    def _translate(self, error: Exception) -> LaserError:
        text = _DETAIL.sub("", str(error)).strip()[:500]
        if "NoSuchBucket" in text:
            return ConfigError(f"objects: {self._address}: the bucket does not exist; create it, or name another one")
        if isinstance(error, FileNotFoundError):
            return _AbsentError(f"{self._address}: {text}")
        if isinstance(error, PermissionDeniedError | UnauthenticatedError):
            return AuthenticationError(
                f"{self._address}: the key id and secret are wrong or missing, or may not do this ({text})"
            )
        if "timed out" in str(error).lower():
            return DeadlineError(f"{self._address}: did not answer in time ({text})", seconds=self._timeout)
        status = _STATUS.search(text)
        kind = TransportError if status is not None else DisconnectedError
        what = "refused the call" if status is not None else "cannot be reached or closed the connection"
        return kind(f"{self._address}: {what} ({text})")


class _AbsentError(TransportError):
    """The object is not there; for ``get`` and ``delete`` to tell in their own words."""


class _StopUpload(Exception):
    """The source of an upload failed or was cancelled: the driver is to give up."""


class _Feed(Iterator[bytes]):
    """Chunks on their way from a task to the driver's thread, a few at a time.

    Attributes:
        error: why the upload failed; the source's own error comes first.
    """

    def __init__(self, home: HomeLoop) -> None:
        self.error: Exception | None = None
        self._home = home
        self._slots = anyio.Semaphore(_WAITING_CHUNKS)
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._failed = False

    async def give(self, chunk: bytes) -> None:
        """Hands a chunk over as soon as there is room."""
        await self._slots.acquire()
        self._queue.put(chunk)

    def end(self, error: BaseException | None) -> None:
        """No more chunks, or why not."""
        if self.error is None and isinstance(error, Exception):
            self.error = error
        self._failed = error is not None
        self._queue.put(None)

    def __next__(self) -> bytes:
        chunk = self._queue.get()
        if chunk is None:
            if self._failed:
                raise _StopUpload
            raise StopIteration
        self._home.post(self._slots.release)
        return chunk


def _make_store(config: S3Config, timeout: float) -> S3Store:
    limit = timedelta(seconds=timeout)
    settings: dict[str, Any] = {
        "client_options": {
            "timeout": limit,
            "connect_timeout": timedelta(seconds=min(timeout, _CONNECT_SECONDS)),
            "allow_http": config.endpoint is not None and config.endpoint.startswith("http://"),
        },
        "retry_config": {"retry_timeout": limit},
        "virtual_hosted_style_request": config.virtual_hosted,
    }
    given = {
        "prefix": config.prefix,
        "endpoint": config.endpoint,
        "region": config.region,
        "access_key_id": config.key_id,
        "secret_access_key": config.secret,
    }
    # What is absent is for the environment to tell.
    settings |= {name: value for name, value in given.items() if value}
    failed: str
    try:
        return S3Store(config.bucket, **settings)
    except (BaseError, ValueError) as error:
        failed = type(error).__name__
    # Raised out here, without the driver's error: it quotes settings, and one of them is a secret.
    raise ConfigError(f"objects: {config.address} cannot be used ({failed}); check the endpoint and the AWS_ variables")
