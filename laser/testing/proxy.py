"""A TCP proxy for tests that lets connections go wrong: cut, stalled, delayed, answers lost.

::

    async with TcpProxy("127.0.0.1", server.port) as proxy:
        log = await open_iggy_log(IggyConfig(addresses=(proxy.address,), ...), timeout=10)
        proxy.lose_answer(to=b"payload")    # the server gets the request, the client never hears of it
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream, TaskGroup

__all__ = ["TcpProxy"]

_CHUNK: Final = 65_536


class TcpProxy:
    """Forwards connections from a free port of 127.0.0.1 to a server. Works on asyncio and trio.

    Attributes:
        delay: seconds that every chunk waits, in both directions.
        accepting: ``False`` closes each new connection at once.
        connections: how many were accepted so far. to_server, to_client: bytes forwarded so far.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self.delay = 0.0
        self.accepting = True
        self.connections = 0
        self.to_server = 0
        self.to_client = 0
        self._port = 0
        self._open: set[_Pair] = set()
        self._flowing = anyio.Event()
        self._flowing.set()
        self._lose: list[bytes] = []
        self._cut_at: tuple[int | None, int | None] = (None, None)
        self._group: TaskGroup | None = None

    @property
    def address(self) -> str:
        """``127.0.0.1:port``."""
        return f"127.0.0.1:{self._port}"

    def cut(self) -> None:
        """Closes every connection now. New ones are accepted."""
        for pair in list(self._open):
            pair.scope.cancel()

    def stall(self) -> None:
        """Stops forwarding: connections stay open, and nothing comes through until ``resume``."""
        self._flowing = anyio.Event()

    def resume(self) -> None:
        """Forwards again, what was held back first."""
        self._flowing.set()

    def lose_answer(self, *, to: bytes = b"") -> None:
        """Cuts the connection at the first answer to the next request that holds these bytes.

        The server gets the whole request. Called again it adds another such loss.
        """
        self._lose.append(to)

    def cut_after(self, *, to_server: int | None = None, to_client: int | None = None) -> None:
        """Cuts the connection that carries a byte, once: so many bytes from now on, in that direction.

        The bytes before it are forwarded.
        """
        self._cut_at = (
            None if to_server is None else self.to_server + to_server,
            None if to_client is None else self.to_client + to_client,
        )

    async def repeat_answers(self) -> None:
        """Sends the last answer of each open connection to its client again, as a server with a fault might."""
        for pair in list(self._open):
            if pair.last_answer:
                await _send(pair.client, pair.last_answer)

    async def __aenter__(self) -> Self:
        self._listener = listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
        self._port = listener.extra(SocketAttribute.local_port)
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(listener.serve, self._serve)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        self._group.cancel_scope.cancel()
        # Without the caller's error: the group would wrap it into one of its own.
        await self._group.__aexit__(None, None, None)
        with anyio.CancelScope(shield=True):
            await self._listener.aclose()

    async def _serve(self, client: ByteStream) -> None:
        self.connections += 1
        if not self.accepting:
            await client.aclose()
            return
        try:
            server: SocketStream = await anyio.connect_tcp(*self._target)
        except OSError:
            # The server is away: the client finds its connection closed, as it would without a proxy.
            await client.aclose()
            return
        pair = _Pair(client, server)
        self._open.add(pair)
        try:
            with pair.scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._upwards, pair)
                    group.start_soon(self._downwards, pair)
        finally:
            self._open.discard(pair)
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(client)
                await anyio.aclose_forcefully(server)

    async def _upwards(self, pair: _Pair) -> None:
        before = b""
        while (data := await _receive(pair.client)) is not None:
            await self._pass()
            for marker in self._lose:
                # It may lie across two chunks: how a request is cut into them is the machine's choice.
                if marker in before[len(before) - len(marker) + 1 :] + data:
                    self._lose.remove(marker)
                    pair.loses_answer = True
                    break
            before = data
            data, cut = _until(data, self.to_server, self._cut_at[0])
            self.to_server += len(data)
            await _send(pair.server, data)
            if cut:
                self._cut_at = (None, self._cut_at[1])
                break
        pair.scope.cancel()

    async def _downwards(self, pair: _Pair) -> None:
        while (data := await _receive(pair.server)) is not None:
            await self._pass()
            if pair.loses_answer:
                break
            data, cut = _until(data, self.to_client, self._cut_at[1])
            self.to_client += len(data)
            pair.last_answer = data
            await _send(pair.client, data)
            if cut:
                self._cut_at = (self._cut_at[0], None)
                break
        pair.scope.cancel()

    async def _pass(self) -> None:
        await self._flowing.wait()
        if self.delay:
            await anyio.sleep(self.delay)


class _Pair:
    def __init__(self, client: ByteStream, server: ByteStream) -> None:
        self.client = client
        self.server = server
        self.scope = anyio.CancelScope()
        self.loses_answer = False
        self.last_answer = b""


def _until(data: bytes, passed: int, end: int | None) -> tuple[bytes, bool]:
    if end is None or passed + len(data) < end:
        return data, False
    return data[: end - passed], True


async def _receive(stream: ByteStream) -> bytes | None:
    try:
        return await stream.receive(_CHUNK)
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        return None


async def _send(stream: ByteStream, data: bytes) -> None:
    try:
        await stream.send(data)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # the other direction finds the connection closed, and ends it
