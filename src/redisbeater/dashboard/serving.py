"""Serve the page with uvicorn, and close connections whose client gets nowhere."""

from __future__ import annotations

import asyncio
import errno
import re
import secrets
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum

import uvicorn
from celery import Celery
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Mount, Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from redisbeater.config.urls import is_loopback
from redisbeater.dashboard.address import TRUSTED_PROXIES, network_of, read_networks
from redisbeater.dashboard.app import create_app
from redisbeater.dashboard.auth import ALL, Auth, User, basic, header, read_passwords, token
from redisbeater.dashboard.defences import Defences, check_hosts
from redisbeater.management.files.reading import read_text
from redisbeater.management.verbs import NO_APP
from redisbeater.schedules.english import join_words

#: How long the head of a request may take, from the begin of its connection, or from the answer before it, on.
HEAD_SECONDS = 10.0

#: How long a body may take, also one that nobody reads. A form that is late is answered before, with 408.
BODY_SECONDS = 40.0

#: In so many seconds a client takes so much of an answer, or all that is left of it.
READ_SECONDS, LEAST_BYTES = 30.0, 16 * 1024

#: Connections of one process: those of 200 streams and as many again. Systems allow a process 1,024 files by default.
MOST_CONNECTIONS = 500

#: Those of one address, so that others find room whatever its clients do.
MOST_OF_ADDRESS = 250

#: Bytes of a file with a token, or with names and passwords: those of 10,000 users.
MOST_FILE_BYTES = 2_000_000


class Owed(Enum):
    """What the page waits for a client to do."""

    NOTHING = "the page has to act"
    HEAD = "send the head of a request"
    BODY = "send the rest of its body"
    READING = "take the answer"


class BoundedProtocol(H11Protocol):
    """Closes connections whose client is waited for too long, and that one first where there are too many.

    Without it they stay for ever, and 1,000 of them leave no room for a new one.
    """

    _owed = Owed.NOTHING
    #: Ends the wait for what is owed, since when that lasts, and how much of an answer was left when it began.
    deadline: asyncio.TimerHandle | None = None
    _since = 0.0
    _left = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, and make room for it."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # tells of each answer that is not taken at once
        self._network = network_of(self.client[0] if self.client else "")
        self._look()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request, unless it is whole. Where another one is behind it, end after the answer.

        No browser sends that one so early; whoever does would have hundreds of answers for a few bytes, unread.
        """
        super().data_received(data)
        self._look()
        is_answered = self.cycle is None or self.cycle.response_complete
        if not is_answered and not self.cycle.more_body and self.conn.trailing_data[0]:
            self.cycle.keep_alive = False

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """Wait until the client has taken what is written."""
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        """Wait for what comes next."""
        super().resume_writing()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait(Owed.NOTHING)
        super().connection_lost(exc)

    def _look(self) -> None:
        """Begin to wait for what the client owes now, unless that is waited for already."""
        if self.flow.write_paused:
            owed = Owed.READING
        elif self.transport.is_closing():
            owed = Owed.NOTHING
        elif self.cycle is None or self.cycle.response_complete:
            owed = Owed.HEAD
        else:
            owed = Owed.BODY if self.cycle.more_body else Owed.NOTHING
        if owed is not self._owed:
            self._since = self.loop.time()
            self._wait(owed)

    def _wait(self, owed: Owed) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
        self._owed, self._left = owed, self.transport.get_write_buffer_size()
        seconds = {Owed.HEAD: HEAD_SECONDS, Owed.BODY: BODY_SECONDS, Owed.READING: READ_SECONDS}.get(owed)
        if seconds is not None:
            self.deadline = self.loop.call_later(seconds, self._end_wait)

    def _end_wait(self) -> None:
        """Close the connection, unless its client is reading, however slowly."""
        if self._owed is Owed.READING and self._left - self.transport.get_write_buffer_size() >= LEAST_BYTES:
            self._wait(Owed.READING)
        else:
            self._close()

    def _make_room(self) -> None:
        """Close the connection that is waited for longest, of this address or of all, where there are too many."""
        everybody = [each for each in self.connections if isinstance(each, BoundedProtocol)]
        own = [each for each in everybody if each._network == self._network]
        crowd = own if len(own) > MOST_OF_ADDRESS else everybody if len(everybody) > MOST_CONNECTIONS else []
        waiting = [each for each in crowd if each.deadline is not None]  # this one at least
        if waiting:
            min(waiting, key=lambda each: each._since)._close()

    def _close(self) -> None:
        """Close the connection at once, also one that has not taken its answer."""
        self._wait(Owed.NOTHING)
        self.transport.abort()


#: Seconds that open pages may take when the process ends: their streams end never by themselves.
SHUTDOWN_SECONDS = 2

#: Connections that are accepted at once, before one too many is closed.
BACKLOG = 128

#: How long a thread that computes may keep Python to itself while another one waits. A short read changes between
#: threads some thirty times, and waits so long each time while somebody searches; Python's default is 5 ms.
SWITCH_SECONDS = 0.001

#: Paths to serve the page below.
PATH = re.compile(r"(/[\w.~-]+)+")


@dataclass(frozen=True, kw_only=True)
class Serving:
    """The options of the command line for the web page.

    Attributes:
        bind, port: where it listens.
        token_file: a file with the token; empty: none.
        basic_file: a file of lines ``name:scrypt$...``; empty: none.
        auth_header, trusted: a header that a proxy sets, and the networks of that proxy.
        no_auth: nobody logs in; on loopback only.
        read_only: nobody changes anything.
        allowed_hosts: host names besides the address that it is bound to.
        trusted_proxies: addresses or networks of the proxies whose ``X-Forwarded-For`` counts; empty ones are none.
        path: what its addresses begin with, as ``/schedule``; empty: nothing.
        begin: what stands before the commands that it shows.
    """

    bind: str = "127.0.0.1"
    port: int = 5577
    token_file: str = ""
    basic_file: str = ""
    auth_header: str = ""
    trusted: Sequence[str] = ()
    no_auth: bool = False
    read_only: bool = False
    allow_any_task: bool = False
    title: str = ""
    allowed_hosts: Sequence[str] = ()
    trusted_proxies: Sequence[str] = TRUSTED_PROXIES
    path: str = ""
    begin: Sequence[str] = NO_APP
    #: The token that is made where no other way to log in is chosen.
    made_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.bind)

    @property
    def has_auth(self) -> bool:
        """Whether a way to log in is chosen."""
        return bool(self.token_file or self.basic_file or self.auth_header)

    def check(self) -> None:
        """Refuse options that would let anybody in, or that cannot work.

        Raises:
            ValueError: what is wrong, and what to pass instead.
        """
        ways = [name for name in ("token_file", "basic_file", "auth_header", "no_auth") if getattr(self, name)]
        if len(ways) > 1:
            raise ValueError(f"{join_words(['--' + name.replace('_', '-') for name in ways])}: give only one")
        if not self.is_loopback and not self.has_auth:
            raise ValueError(
                f"--bind {self.bind}: others reach it, and an edit can run any task: "
                "pass --token-file, --basic-file, or --auth-header with --trusted"
            )
        if bool(self.auth_header) != bool(self.trusted):
            raise ValueError("--auth-header and --trusted: pass both, the header and the network of the proxy")
        if self.path and not PATH.fullmatch(self.path):
            raise ValueError(f"--path {self.path}: expected a path such as /schedule")
        with _named("--allowed-host"):
            check_hosts(self.allowed_hosts)

    def auth(self) -> Auth:
        """Return the authenticator.

        Raises:
            ValueError: a file cannot be read, or has nothing of the kind, or a network is none; it names the option.
        """
        if self.no_auth:
            return _everybody
        if self.token_file:
            with _named(f"--token-file {self.token_file}"):
                return token(read_text(self.token_file, MOST_FILE_BYTES).strip())
        if self.basic_file:
            with _named(f"--basic-file {self.basic_file}"):
                return basic(read_passwords(read_text(self.basic_file, MOST_FILE_BYTES)))
        if self.auth_header:
            with _named("--trusted"):
                return header(self.auth_header, trusted=self.trusted, rights=ALL)
        return token(self.made_token)

    @property
    def link(self) -> str:
        """The address to open; with the token behind ``#``, which no server writes into a log."""
        host = f"[{self.bind}]" if ":" in self.bind else self.bind
        address = f"http://{host}:{self.port}{self.path}/"
        return address if self.has_auth or self.no_auth else f"{address}login#{self.made_token}"

    def app(self, celery_app: Celery) -> Starlette:
        """Return the web page.

        Raises:
            OSError, ValueError: as for :meth:`auth`.
        """
        self.check()
        proxies = [proxy for proxy in self.trusted_proxies if proxy]
        with _named("--trusted-proxy"):
            read_networks(proxies)
        hosts = [self.bind, *self.allowed_hosts]
        page = create_app(
            celery_app,
            auth=self.auth(),
            read_only=self.read_only,
            allow_any_task=self.allow_any_task,
            title=self.title,
            allowed_hosts=hosts,
            trusted_proxies=proxies,
        )
        page.state.begin = self.begin
        if not self.path:
            return page
        routes = [Route(self.path, _to_first_page), Mount(self.path, page)]
        mounted = Starlette(routes=routes, middleware=[Middleware(Defences, allowed_hosts=hosts)])
        mounted.router.redirect_slashes = False  # as in the page itself
        return mounted


@contextmanager
def _named(option: str) -> Iterator[None]:
    """Put the option that is wrong in front of an error."""
    try:
        yield
    except OSError as exc:
        raise ValueError(f"{option}: {exc.strerror}") from exc
    except ValueError as exc:
        raise ValueError(f"{option}: {exc}") from exc


def serve(celery_app: Celery, serving: Serving, ready: Callable[[], object] = lambda: None) -> None:
    """Serve the page until the process gets a signal to end.

    Of the headers of proxies only ``X-Forwarded-For`` counts, for failed logins.
    ``ready`` is called once, as soon as it accepts connections.

    Raises:
        OSError, ValueError: as for :meth:`Serving.app`, or it cannot listen there.
    """
    server = _ReadyServer(configuration(serving.app(celery_app)), ready)
    sys.setswitchinterval(SWITCH_SECONDS)
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        server.run(sockets=_listeners(stack, serving.bind, serving.port))


def configuration(page: Starlette) -> uvicorn.Config:
    """Return uvicorn's configuration for the page."""
    return uvicorn.Config(
        page,
        http=BoundedProtocol,
        backlog=BACKLOG,
        log_level="warning",
        access_log=False,
        use_colors=None if sys.stdout else False,  # it asks sys.stdout whether to; closed by `>&-`, that is None
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


class _ReadyServer(uvicorn.Server):
    """uvicorn's server, with a callback for when it accepts connections."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def _listeners(stack: ExitStack, address: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on an address, or on all addresses of a name; the stack closes them.

    Raises:
        OSError: the port is taken, or this machine does not have the address.
    """
    listeners: list[socket.socket] = []
    problem = OSError(errno.EADDRNOTAVAIL, "no such address")
    try:
        for family, _, _, _, place in socket.getaddrinfo(address, port, type=socket.SOCK_STREAM):
            try:
                listeners.append(stack.enter_context(socket.create_server(place, family=family)))
            except OSError as exc:  # localhost may name an address of IPv6 that this machine does not have
                problem = exc
    except OSError as exc:
        problem = exc
    if listeners and problem.errno != errno.EADDRINUSE:
        return listeners
    reason = str(problem.strerror).partition(" (")[0]
    advice = "; pass another --port" if problem.errno == errno.EADDRINUSE else ""
    raise OSError(f"cannot listen on {address} port {port}: {reason}{advice}") from problem


async def _to_first_page(request: Request) -> RedirectResponse:
    query = request.url.query
    return RedirectResponse(f"{request.url.path}/{'?' if query else ''}{query}", 307)


async def _everybody(_: Request) -> User | None:
    return User("local", ALL)
