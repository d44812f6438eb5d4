"""Services on this machine that are told of incidents: one over HTTP that may do what it likes, and one for mail."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller

from support.ports import free_port

#: A piece of an answer without end.
PIECE = b"x" * 65_536


@dataclass(frozen=True)
class Told:
    """A message as a service got it."""

    title: str
    text: str
    type: str
    path: str


class Service(ThreadingHTTPServer):
    """A service over HTTP. Its mode says what it does: ``takes``, ``refuses``, ``redirects``, ``resets``, ``drips`` or
    ``floods`` an answer without end, or ``hangs``, which it does until :meth:`release`.
    """

    daemon_threads = True

    def __init__(self, mode: str = "takes") -> None:
        super().__init__(("127.0.0.1", free_port()), _Handler)
        self.mode, self.elsewhere = mode, ""
        #: What has arrived, whatever was answered.
        self.told: list[Told] = []
        self.released = threading.Event()

    @property
    def url(self) -> str:
        """Its URL for Apprise, with secrets in each part that may hold one."""
        query = "+X-Key=header-secret&-token=query-secret"
        return f"json://caller:login-secret@127.0.0.1:{self.server_port}/path-secret?{query}"

    def release(self) -> None:
        """Let requests that hang be answered."""
        self.released.set()


SECRETS = ("login-secret", "path-secret", "header-secret", "query-secret")


@contextmanager
def serving(mode: str = "takes") -> Iterator[Service]:
    """Run a service until the end of the block."""
    with Service(mode) as service:
        threading.Thread(target=service.serve_forever, args=(0.02,), daemon=True).start()
        yield service
        service.release()
        service.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        service = self.server
        body: Any = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        service.told.append(Told(body["title"], body["message"], body.get("type", ""), self.path))
        with suppress(OSError):  # whoever asked has gone
            getattr(self, f"_{service.mode}")()

    do_GET = do_POST  # noqa: N815

    def _takes(self) -> None:
        self._answer(200)

    def _refuses(self) -> None:
        self._answer(500, b"login-secret is wrong")

    def _redirects(self) -> None:
        self.send_response(307)
        self.send_header("Location", self.server.elsewhere)
        self.end_headers()

    def _resets(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _hangs(self) -> None:
        self.server.released.wait()
        self._answer(200)

    def _drips(self) -> None:
        """Send an answer byte by byte, so that no time-out of a read ends it."""
        self.send_response(200)
        self.end_headers()
        while not self.server.released.wait(0.5):
            self.wfile.write(b"x")

    def _floods(self) -> None:
        self.send_response(200)
        self.end_headers()
        while not self.server.released.is_set():
            self.wfile.write(PIECE)

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


class Mailbox:
    """What a mail server has taken."""

    def __init__(self) -> None:
        self.mails: list[str] = []
        self.url = ""

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.mails.append(envelope.content.decode())
        return "250 OK"


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    """Run a mail server until the end of the block."""
    mailbox, port = Mailbox(), free_port()
    mailbox.url = f"mailto://127.0.0.1:{port}/?from=beat@example.com&to=ops@example.com&mode=insecure&verify=no"
    server = Controller(mailbox, hostname="127.0.0.1", port=port)
    server.start()
    try:
        yield mailbox
    finally:
        server.stop()
