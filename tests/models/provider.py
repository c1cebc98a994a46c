"""A provider on this machine: checks each request against the official types and gives the answers it was told to."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.models.requests_of import request_complaints

__all__ = ["Provider", "Received", "run_provider"]


class Received:
    """A request as it arrived."""

    def __init__(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        self.path = path
        self.body = body
        self.headers = headers
        self.complaints = request_complaints(path, json.loads(body))


class Provider:
    """What was asked, and what will be answered, one after another: bytes; those of a stream may be cut short."""

    def __init__(self) -> None:
        self.url = ""
        self.received: list[Received] = []
        self._answers: deque[tuple[bytes, bool, int | None]] = deque()

    def will_answer(self, answer: bytes | dict[str, Any], *, stream: bool = False, cut: int | None = None) -> None:
        """Adds an answer; of a stream that is cut, only so many bytes are sent before the connection is."""
        data = answer if isinstance(answer, bytes) else json.dumps(answer, indent=1).encode()
        self._answers.append((data, stream, cut))

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Takes one request."""
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        path = handler.path.removeprefix("/openai")
        self.received.append(Received(path, body, {name.lower(): value for name, value in handler.headers.items()}))
        if self.received[-1].complaints:
            refusal = json.dumps(
                {"error": {"type": "invalid_request_error", "message": self.received[-1].complaints[0]}}
            )
            self._send(handler, 400, "application/json", refusal.encode())
            return
        data, stream, cut = self._answers.popleft()
        if not stream:
            self._send(handler, 200, "application/json", data)
            return
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for at in range(0, len(data[:cut]), 113):
            piece = data[:cut][at : at + 113]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if cut is None:
            handler.wfile.write(b"0\r\n\r\n")
        else:
            handler.close_connection = True

    def _send(self, handler: BaseHTTPRequestHandler, status: int, kind: str, data: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)


@contextmanager
def run_provider() -> Iterator[Provider]:
    """Runs a provider on a free loopback port."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10

        def do_POST(self) -> None:
            provider.serve(self)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
