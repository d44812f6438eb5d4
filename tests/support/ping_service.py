"""A monitoring service on this machine, for the dead man's switch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from support.ports import free_port


@contextmanager
def served() -> Iterator[Service]:
    """Run a service until the end of the block."""
    with Service() as service:
        threading.Thread(target=service.serve_forever, args=(0.02,), daemon=True).start()
        yield service
        service.shutdown()


class Service(HTTPServer):
    """A monitoring service that records what it is asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", free_port()), _Handler)
        self.asked: list[tuple[str, str, str]] = []
        #: What it answers, and where it redirects to.
        self.status, self.location = 200, ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/ping/secret"


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.server.asked.append((self.command, self.path, body))
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.end_headers()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None: ...
