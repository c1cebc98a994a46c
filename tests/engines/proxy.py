"""A TCP proxy on loopback that misbehaves on request."""

from __future__ import annotations

import select
import socket
import struct
import threading
from types import TracebackType


class Proxy:
    """Passes bytes on to a port of 127.0.0.1, until told otherwise. Used with ``with``; its threads end with it.

    Attributes:
        port: where it listens. answered: bytes that it has passed back so far.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.answered = 0
        self._moving = threading.Event()
        self._moving.set()
        self._stalled: list[threading.Event] = []
        self._ending = False
        self._budget: int | None = None
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def freeze(self) -> None:
        """Keeps connections open, takes new ones, and passes nothing on."""
        self._moving.clear()

    def thaw(self) -> None:
        """Goes on with what was held back."""
        self._moving.set()

    def stall(self) -> None:
        """Passes nothing on for the connections there are, ever again, and everything for new ones."""
        self._moving.clear()
        self._stalled.append(self._moving)
        self._moving = threading.Event()
        self._moving.set()

    def cut(self) -> None:
        """Ends all connections."""
        with self._lock:
            ends, self._open = self._open, set()
        for end in ends:
            _reset(end)

    def cut_after(self, answer_bytes: int | None) -> None:
        """Ends the connection that gets past so many bytes of answers from now on; ``None`` for none."""
        with self._lock:
            self._budget = answer_bytes

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending = True
        self._listener.close()
        self.cut()
        for gate in (self._moving, *self._stalled):
            gate.set()
        for thread in self._threads:
            thread.join()

    def _start(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._ending:
            try:
                readable, _, _ = select.select([self._listener], [], [], 0.05)
                if not readable:
                    continue
                client, _ = self._listener.accept()
            except (OSError, ValueError):
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            with self._lock:
                self._open |= {client, server}
            self._start(self._pump, client, server, False, self._moving)
            self._start(self._pump, server, client, True, self._moving)

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool, gate: threading.Event) -> None:
        try:
            while data := source.recv(65_536):
                gate.wait()
                if answers:
                    data, enough = self._spend(data)
                    sink.sendall(data)
                    if enough:
                        break
                else:
                    sink.sendall(data)
        except OSError:
            pass  # the other side is gone; what is left to do is the same
        for end in (source, sink):
            with self._lock:
                self._open.discard(end)
            _reset(end)

    def _spend(self, data: bytes) -> tuple[bytes, bool]:
        with self._lock:
            if self._budget is not None:
                if len(data) > self._budget:
                    data, self._budget = data[: self._budget], None
                    self.answered += len(data)
                    return data, True
                self._budget -= len(data)
            self.answered += len(data)
            return data, False


def _reset(end: socket.socket) -> None:
    try:
        # Linger of no seconds: the connection ends at once, with a reset.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended already
    end.close()
