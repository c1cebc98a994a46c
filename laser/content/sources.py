"""What content can be put from."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import aclosing
from typing import Final

import anyio
import anyio.to_thread

from laser.content.hashing import Hasher, check_size
from laser.errors import InvalidError
from laser.limits import CONTENT_PART_BYTES, MAX_INLINE_BYTES
from laser.model.content import BYTES, TEXT

__all__ = ["ContentSource", "Source", "media_type_of", "open_source"]

ContentSource = bytes | bytearray | memoryview | str | os.PathLike[str] | AsyncIterable[bytes]
"""Bytes, text that becomes UTF-8, a path of a file, or an async iterator of bytes."""

# Hashing less than this costs less than handing it to a thread.
_INLINE_HASH: Final = 131_072


class Source:
    """Content on its way in: its beginning, and the rest as chunks.

    Attributes:
        head: the first bytes, all of them where there are at most ``MAX_INLINE_BYTES``.
        whole: whether ``head`` is all. again: whether ``chunks`` can be called more than once.
    """

    def __init__(self, head: bytes, rest: AsyncGenerator[bytes, None] | None, path: str | None = None) -> None:
        self.head = head
        self._rest = rest
        self._path = path

    @property
    def whole(self) -> bool:
        """Whether the head is all there is."""
        return self._rest is None and self._path is None

    @property
    def again(self) -> bool:
        """Whether the content can be read more than once."""
        return self._rest is None

    async def chunks(self, hasher: Hasher) -> AsyncGenerator[bytes, None]:
        """All of it, each chunk hashed before it is given out."""
        if self._path is not None:
            async with aclosing(_read_file(self._path)) as file:
                async for chunk in file:
                    await _hash(hasher, chunk)
                    yield chunk
            return
        view = memoryview(self.head)
        for at in range(0, len(view), CONTENT_PART_BYTES):
            piece = view[at : at + CONTENT_PART_BYTES]
            await _hash(hasher, piece)
            yield piece  # type: ignore[misc] # every store takes a view where it takes bytes
        if self._rest is not None:
            async for chunk in self._rest:
                await _hash(hasher, chunk)
                yield chunk

    async def hashed(self) -> Hasher:
        """The hashes of all of it, for content that can be read again."""
        hasher = Hasher()
        if self._path is None:
            await _hash(hasher, self.head)
        else:
            async with aclosing(_read_file(self._path)) as file:
                async for chunk in file:
                    await _hash(hasher, chunk)
        return hasher

    async def aclose(self) -> None:
        """Lets go of what is read from."""
        if self._rest is not None:
            await self._rest.aclose()


def media_type_of(data: object) -> str:
    """The media type of what nothing more is known of."""
    return TEXT if isinstance(data, str) else BYTES


async def open_source(data: ContentSource) -> Source:
    """Looks at what was given, and reads its beginning.

    Raises:
        InvalidError: it cannot be content, or a file cannot be read. LimitError: too large, where the size is known.
    """
    if isinstance(data, str):
        try:
            return _of_bytes(data.encode())
        except UnicodeEncodeError as error:
            raise InvalidError(
                f"data: holds a lone surrogate at character {error.start}, which UTF-8 cannot", argument="data"
            ) from error
    if isinstance(data, bytes):
        return _of_bytes(data)
    if isinstance(data, bytearray | memoryview):
        # Copied: the caller may change it while it is on its way.
        return _of_bytes(bytes(data))
    if isinstance(data, os.PathLike):
        return await _of_file(os.fspath(data))
    if isinstance(data, AsyncIterable):
        return await _of_stream(data)
    hint = "; wrap it in an async generator" if isinstance(data, Iterable) or inspect.isawaitable(data) else ""
    raise InvalidError(
        f"data: expected bytes, text, a path or an async iterator of bytes, got {type(data).__name__}{hint}",
        argument="data",
    )


def _of_bytes(data: bytes) -> Source:
    check_size(len(data))
    return Source(data, None)


async def _of_file(path: str) -> Source:
    if not isinstance(path, str):
        raise InvalidError("data: expected a path of text", argument="data")
    try:
        size = (await anyio.to_thread.run_sync(os.stat, path)).st_size
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValueError as error:
        raise InvalidError(f"data: {path!r:.80} is no path: {error}", argument="data") from error
    check_size(size)
    if size > MAX_INLINE_BYTES:
        return Source(b"", None, path)
    # Read as a stream: it may grow meanwhile.
    return await _of_stream(_read_file(path))


async def _of_stream(data: AsyncIterable[bytes]) -> Source:
    chunks = _checked(data)
    head = bytearray()
    try:
        async for chunk in chunks:
            head += chunk
            if len(head) > MAX_INLINE_BYTES:
                return Source(bytes(head), chunks)
    except BaseException:
        await chunks.aclose()
        raise
    return Source(bytes(head), None)


async def _checked(data: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in data:
            if not isinstance(chunk, bytes | bytearray | memoryview):
                raise InvalidError(f"data: gave a {type(chunk).__name__}, not bytes", argument="data")
            view = memoryview(chunk).cast("B")
            # In pieces of bounded size, whatever the source gives; a view of something that may change is copied.
            for at in range(0, len(view), CONTENT_PART_BYTES):
                yield bytes(view[at : at + CONTENT_PART_BYTES])
    finally:
        if isinstance(data, AsyncGenerator):
            await data.aclose()


async def _read_file(path: str) -> AsyncGenerator[bytes, None]:
    try:
        file = await anyio.to_thread.run_sync(lambda: open(path, "rb", buffering=0))  # noqa: SIM115 - closed below
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        while True:
            try:
                chunk = await anyio.to_thread.run_sync(file.read, CONTENT_PART_BYTES)
            except OSError as error:
                raise _unreadable(path, error) from error
            if not chunk:
                return
            yield chunk
    finally:
        file.close()


def _unreadable(path: str, error: OSError) -> InvalidError:
    return InvalidError(f"data: {path}: {error.strerror or error}", argument="data")


async def _hash(hasher: Hasher, chunk: bytes | memoryview) -> None:
    if len(chunk) <= _INLINE_HASH:
        hasher.update(chunk)
    else:
        await anyio.to_thread.run_sync(hasher.update, chunk)
