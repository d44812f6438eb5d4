"""The HTTP server of a beat: ``/live``, ``/health`` and ``/metrics``, from daemon threads."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from redisbeater.config.values import address_of
from redisbeater.host_name import is_loopback, is_rebindable, named_host
from redisbeater.log_lines import get_logger
from redisbeater.observe.verdict import Verdict

__all__ = ("Answer", "ProbeServer", "Route", "answer_of")

logger = get_logger(__name__)

#: A client that sends nothing for this long is disconnected: it would keep its thread.
CLIENT_SECONDS = 5

#: Connections at a time. Of more, the oldest is ended: clients that send byte by byte must not use up beat's files.
MOST_CLIENTS = 64

PLAIN, JSON = "text/plain; charset=utf-8", "application/json"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer to a request: its status, its type and its body."""

    status: int
    body: bytes
    content_type: str = PLAIN


_FOREIGN = Answer(status=400, body=b"not served by this host name: beat is on loopback; ask localhost or 127.0.0.1\n")

#: Answers a request whose query has these parameters: the last of each name.
Route = Callable[[Mapping[str, str]], Answer]


def answer_of(verdict: Verdict, query: Mapping[str, str]) -> Answer:
    """Return a verdict as an answer: 200 or 503, one line, or JSON with ``?format=json``."""
    status = HTTPStatus.OK if verdict.is_good else HTTPStatus.SERVICE_UNAVAILABLE
    if query.get("format") == "json":
        return Answer(status=status, body=json.dumps(verdict.as_dict()).encode() + b"\n", content_type=JSON)
    return Answer(status=status, body=f"{verdict.sentence}\n".encode("utf-8", "backslashreplace"))


class ProbeServer:
    """Serves routes at an address.

    Arguments:
        address: ``host:port``, or ``:port`` for all addresses of the host.
        routes: path -> what answers it.
    """

    def __init__(self, address: str, routes: Mapping[str, Route]) -> None:
        self._address = address
        self._routes = routes
        self._server: _Server | None = None

    def start(self) -> None:
        """Begin to serve. A port that is taken is logged, and beat goes on without the server."""
        host, port = address_of(self._address)
        try:
            self._server = _Server(host, port, self._routes)
        except OSError as exc:
            logger.error(
                "cannot serve probes and metrics at redisbeater_http = %r: %s; beat goes on without them, "
                "set another port or end the program that has it",
                self._address,
                exc,
            )
            return
        Thread(target=self._server.serve, name="redisbeater-http", daemon=True).start()
        logger.info("serving %s at %s", ", ".join(self._routes), self._address)

    def end(self) -> None:
        """Stop serving, within half a second; does not wait for that."""
        server, self._server = self._server, None
        if server is not None:
            Thread(target=server.shutdown, name="redisbeater-http-end", daemon=True).start()


class _Server(socketserver.ThreadingMixIn, HTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        self.routes = routes
        self._clients: dict[socket.socket, None] = {}
        is_dual = not host and socket.has_dualstack_ipv6()
        if ":" in host or is_dual:
            self.address_family = socket.AF_INET6
        self._is_dual, self._host = is_dual, host.lower()
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind the socket, for IPv4 and IPv6 where the host is empty. Unlike HTTPServer, ask no DNS for its name."""
        if self._is_dual:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)

    def is_meant(self, header: str | None) -> bool:
        """Return whether a request is for this server by its header ``Host``, which probes of HTTP/1.0 lack.

        On loopback another name is that of a page in a browser, whose DNS leads here: it would read what only programs
        of this host may. Elsewhere monitors ask by any name.
        """
        if header is None or not is_loopback(str(self.server_address[0])):
            return True
        name = named_host(header)
        return name == self._host or not is_rebindable(name)

    def serve(self) -> None:
        """Serve until :meth:`shutdown`."""
        try:
            self.serve_forever()
        finally:
            self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread; where there are too many, end the connection that is open for longest."""
        self._clients[request] = None
        if len(self._clients) > MOST_CLIENTS:
            oldest = list(self._clients)[0]  # noqa: RUF015 - at once, as other threads remove theirs
            self._clients.pop(oldest, None)
            with contextlib.suppress(OSError):  # it has ended by itself
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._clients.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error of a connection where few look: a client that hangs up is one."""
        logger.debug("a request to the probes failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = CLIENT_SECONDS
    server: _Server

    def do_GET(self) -> None:
        """Answer a request."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Answer a request without the body."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        try:
            url = urlsplit(self.path)
        except ValueError:  # http://[
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        route = self.server.routes.get(url.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if not self.server.is_meant(self.headers.get("Host")):
            answer = _FOREIGN
        else:
            answer = _not_found(self.server.routes) if route is None else route(query)
        self.send_response_only(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests: probes ask every few seconds."""


def _not_found(routes: Mapping[str, Route]) -> Answer:
    return Answer(status=HTTPStatus.NOT_FOUND, body=f"not found; there are {', '.join(routes)}\n".encode())
