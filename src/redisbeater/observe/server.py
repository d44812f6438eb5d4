"""The HTTP server of a beat (``/live``, ``/health``, ``/metrics``), its verdict, and the dead man's switch."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import socketserver
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import IO, Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

from redisbeater.config.urls import is_loopback, is_rebindable, named_host
from redisbeater.config.values import address_of
from redisbeater.health.status import longest_pass
from redisbeater.health.verdict import HANDOVER, LONGEST_BROKER_OUTAGE, Health, HealthLimits, check_health
from redisbeater.log_lines import get_logger
from redisbeater.parts import BeatParts
from redisbeater.times import duration_words

logger = get_logger(__name__)


#: Seconds that Redis has for its answer.
REDIS_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether all is well, and if not, why.

    Attributes:
        problems: the checks that failed, each with what is wrong; empty: all is well.
        checks: the checks that were made.
        facts: what a healthy beat tells about itself.
    """

    problems: Mapping[str, str]
    checks: tuple[str, ...]
    facts: str

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def sentence(self) -> str:
        """The answer in one line."""
        return f"unhealthy: {'; '.join(self.problems.values())}" if self.problems else f"ok: {self.facts}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object: each check with ``ok`` or its problem."""
        return {
            "healthy": self.is_good,
            "answer": self.sentence,
            "checks": {check: self.problems.get(check, "ok") for check in self.checks},
        }


class Verdicts:
    """The verdicts on one beat."""

    def __init__(self, beat: BeatParts) -> None:
        self._beat = beat
        #: How long a pass may take, and a wait.
        self._limit = longest_pass(beat.max_interval)
        #: Since when nobody leads, on the monotonic clock; None: somebody does, or nobody asked.
        self._unled_since: float | None = None

    def live(self) -> Verdict:
        """Return whether beat makes passes. Asks neither Redis nor the broker: a restart would not bring them back."""
        age, limit = time.monotonic() - self._beat.counts.passed_at, self._limit.total_seconds()
        problem = f"no pass for {duration_words(timedelta(seconds=age))} (limit {limit:g} s)"
        problems = {"pass": problem} if age > limit else {}
        return Verdict(problems=problems, checks=("pass",), facts=f"last pass {age:.1f} s ago")

    def health(self, *, strict: bool = False, max_failed: int = 0) -> Verdict:
        """Return whether this beat and its schedule are healthy; waits for Redis, two seconds at most.

        Arguments:
            strict: whether broken and failing entries, workers that report nothing, and entries of which the last run
                failed are unhealthy.
            max_failed: how many of the latter there may be.
        """
        live = self.live()
        problems = {**live.problems, **self._problems_of_broker()}
        terms = HealthLimits(strict=strict, max_failed=max_failed, longest_pass=self._limit)
        found = check_health(self._beat.context, terms, REDIS_SECONDS)
        for check, problem in zip(found.failed, found.problems):
            if check != "lead" or self._is_unled_for(self._grace):
                problems.setdefault(check, problem)
        if "lead" not in found.failed:
            self._unled_since = None
        always = ("pass", "lead", "late", "redis", "broker", "notices", "incidents")
        checks = (*always, *(("entries", "workers", "results") if strict else ()))
        return Verdict(problems=problems, checks=checks, facts=_facts(self._beat, found, live))

    def _problems_of_broker(self) -> dict[str, str]:
        away = timedelta(seconds=self._beat.broker.away_seconds)
        return {"broker": f"no broker for {duration_words(away)}"} if away > LONGEST_BROKER_OUTAGE else {}

    @property
    def _grace(self) -> float:
        """Seconds for which nobody may lead: a lock has to expire, and another beat to take it."""
        return self._beat.context.config.lock_timeout + HANDOVER.total_seconds()

    def _is_unled_for(self, seconds: float) -> bool:
        """Return whether nobody has led for this long, since this was first asked."""
        if self._unled_since is None:
            self._unled_since = time.monotonic()
        return time.monotonic() - self._unled_since > seconds


def _facts(beat: BeatParts, found: Health, live: Verdict) -> str:
    role = [] if beat.heartbeat.role == "leader" else [beat.heartbeat.role]
    facts = [fact for fact in found.facts if not fact.startswith("last pass")]
    return ", ".join([*role, live.facts, *facts])


#: Seconds that the service has for its answer.
ANSWER_SECONDS = 5.0


class Ping:
    """Asks for a URL at intervals, from a thread of its own.

    Arguments:
        url: the URL.
        interval: seconds from one request to the next.
        leads: returns whether this beat leads; only that one asks.
        health: returns the verdict on the schedule.
    """

    def __init__(self, url: str, interval: float, leads: Callable[[], bool], health: Callable[[], Verdict]) -> None:
        self._url = url
        self._interval = interval
        self._leads = leads
        self._health = health
        self._ended = threading.Event()
        self._was_good = True
        self._problem = ""

    def start(self) -> None:
        """Begin to ask."""
        threading.Thread(target=self._run, name="redisbeater-ping", daemon=True).start()

    def end(self) -> None:
        """Stop asking; does not wait for a request that is under way."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._interval):
            try:
                self.step()
            except Exception:  # it would end the thread, and with it the requests to the URL
                logger.exception("the ping failed; this is a bug")

    def step(self) -> None:
        """Ask once, if this beat leads: for the URL while all is well, for ``/fail`` below it once when it is not."""
        if not self._leads():
            self._was_good = True
            return
        verdict = self._health()
        if verdict.is_good:
            self._was_good = True
            self._send(self._url, None)
        elif self._was_good:
            self._was_good = not self._send(_fail_url(self._url), verdict.sentence.encode("utf-8", "backslashreplace"))

    def _send(self, url: str, body: bytes | None) -> bool:
        """Send a request: GET, or POST with a body. Return whether it was answered well; log a new problem once."""
        request = urllib.request.Request(url, data=body, headers={"User-Agent": "redisbeater"})
        try:
            with _OPENER.open(request, timeout=ANSWER_SECONDS):
                self._problem = ""
                return True
        except (OSError, http.client.HTTPException, ValueError) as exc:
            self._report(exc)
            return False

    def _report(self, error: Exception) -> None:
        # Log only the host: whoever knows the path can silence the alarm.
        problem = f"{type(error).__name__}: {error}"
        if problem != self._problem:
            self._problem = problem
            logger.warning("redisbeater_ping_url at %s does not answer: %s", urlsplit(self._url).hostname, problem)


def _fail_url(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/fail"))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for an error: the settings say where the request goes."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Any:
        """Follow nothing."""
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


#: A client that sends nothing for this long is disconnected: it would keep its thread.
CLIENT_SECONDS = 5

#: Connections at a time. Of more, the oldest is ended: clients that send byte by byte must not use up beat's files.
MOST_CLIENTS = 64

PLAIN, JSON = "text/plain; charset=utf-8", "application/json"


@dataclass(frozen=True, kw_only=True)
class HTTPAnswer:
    """An answer to a request: its status, its type and its body."""

    status: int
    body: bytes
    content_type: str = PLAIN


_FOREIGN = HTTPAnswer(
    status=400, body=b"not served by this host name: beat is on loopback; ask localhost or 127.0.0.1\n"
)

#: Answers a request whose query has these parameters: the last of each name.
Route = Callable[[Mapping[str, str]], HTTPAnswer]


def answer_of(verdict: Verdict, query: Mapping[str, str]) -> HTTPAnswer:
    """Return a verdict as an answer: 200 or 503, one line, or JSON with ``?format=json``."""
    status = HTTPStatus.OK if verdict.is_good else HTTPStatus.SERVICE_UNAVAILABLE
    if query.get("format") == "json":
        return HTTPAnswer(status=status, body=json.dumps(verdict.as_dict()).encode() + b"\n", content_type=JSON)
    return HTTPAnswer(status=status, body=f"{verdict.sentence}\n".encode("utf-8", "backslashreplace"))


#: Seconds from one try to have the address of the server to the next.
TRY_SECONDS = 1.0


class ProbeServer:
    """Serves routes at an address.

    Arguments:
        address: ``host:port``, or ``:port`` for all addresses of the host.
        routes: path -> what answers it.
    """

    def __init__(self, address: str, routes: Mapping[str, Route]) -> None:
        self._address = address
        self._routes = routes
        self._server: _ProbeHTTPServer | None = None
        self._ended = threading.Event()
        self._problem = ""

    def start(self) -> None:
        """Begin to serve; a port that another program has is tried again until it is free, by a thread."""
        if not self._begin():
            threading.Thread(target=self._try_again, name="redisbeater-http-again", daemon=True).start()

    def _try_again(self) -> None:
        while not self._ended.wait(TRY_SECONDS) and not self._begin():
            pass

    def _begin(self) -> bool:
        """Begin to serve, and return whether that was possible. What keeps it from that is logged once."""
        host, port = address_of(self._address)
        try:
            self._server = _ProbeHTTPServer(host, port, self._routes)
        except OSError as exc:
            self._report(str(exc))
            return False
        threading.Thread(target=self._server.serve, name="redisbeater-http", daemon=True).start()
        logger.info("serving %s at %s", ", ".join(self._routes), self._address)
        if self._ended.is_set():  # meanwhile
            self.end()
        return True

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            logger.error(
                "cannot serve probes and metrics at redisbeater_http = %r: %s; beat runs without them and tries again; "
                "set another port or end the program that has it",
                self._address,
                problem,
            )

    def end(self) -> None:
        """Stop serving, within half a second; does not wait for that."""
        self._ended.set()
        server, self._server = self._server, None
        if server is not None:
            threading.Thread(target=server.shutdown, name="redisbeater-http-end", daemon=True).start()


class _ProbeHTTPServer(socketserver.ThreadingMixIn, HTTPServer):
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
    server: _ProbeHTTPServer

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


def _not_found(routes: Mapping[str, Route]) -> HTTPAnswer:
    return HTTPAnswer(status=HTTPStatus.NOT_FOUND, body=f"not found; there are {', '.join(routes)}\n".encode())
