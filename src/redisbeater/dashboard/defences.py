"""Defences of the page: headers, hosts and origins, and failed logins, counted by name and by address."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redisbeater.config.urls import is_rebindable, named_host

#: A failure counts for so many seconds.
SECONDS = 60.0

#: The failures of one name from one address that are answered; the next one gets 429.
MOST_FAILURES = 5

#: Those of one name from all addresses, and of one address with all names, for who has not logged in from there before.
MOST_IN_ALL = 20

#: How many failures, and logins, are remembered.
MOST_REMEMBERED = 10_000


class Attempts:
    """The failed logins of the last minute, in this process.

    A login forgets no failures: whoever has one of his own would have endless tries at the names of others. It keeps
    strangers from locking its person out: what they fail at elsewhere, or with other names, counts no more there.
    """

    def __init__(self) -> None:
        #: Held while credentials are checked: of many tries at the same time each sees the failures before it, and the
        #: memory that checking a password takes is taken once.
        self.one_by_one = asyncio.Lock()
        self._failures: deque[tuple[float, str, str]] = deque(maxlen=MOST_REMEMBERED)
        self._logins: OrderedDict[tuple[str, str], None] = OrderedDict()

    def failed(self, name: str, address: str) -> None:
        """Record a failed login."""
        self._failures.append((time.monotonic(), name, address))

    def succeeded(self, name: str, address: str) -> None:
        """Record that a person has logged in from an address."""
        self._logins[name, address] = None
        self._logins.move_to_end((name, address))
        if len(self._logins) > MOST_REMEMBERED:
            self._logins.popitem(last=False)

    def wait(self, name: str, address: str) -> float:
        """Return how many seconds a name must wait before it may be tried again from an address; 0 if it may now."""
        now = time.monotonic()
        while self._failures and self._failures[0][0] <= now - SECONDS:
            self._failures.popleft()
        of_name = [(at, other) for at, failed, other in self._failures if failed == name]
        counted = [([at for at, other in of_name if other == address], MOST_FAILURES)]
        if (name, address) not in self._logins:
            counted.append(([at for at, _ in of_name], MOST_IN_ALL))
            counted.append(([at for at, _, other in self._failures if other == address], MOST_IN_ALL))
        return max((times[-most] + SECONDS - now for times, most in counted if len(times) >= most), default=0.0)


#: No script, style or form but our own files. ``hx-*`` attributes pass this by: nothing of a user is put into them.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

#: What every response has, that of an unexpected error too.
PROTECTION = {**HEADERS, "Cache-Control": "no-store"}

_READING = frozenset({"GET", "HEAD"})


class Defences:
    """Refuses requests to a foreign host name and changes that another site makes; adds the headers.

    Arguments:
        app: what is defended.
        allowed_hosts: host names besides addresses and ``localhost``; ``.example.com`` has all below it, ``*`` any.
    """

    def __init__(self, app: ASGIApp, allowed_hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = tuple(host.lower() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not self._is_allowed(headers.get("host", "")):
            answer = PlainTextResponse("This host name is not in allowed_hosts of the dashboard.\n", 400)
        elif scope["method"] not in _READING and (reason := foreign(headers, scope["scheme"])):
            answer = PlainTextResponse(f"Refused: {reason}.\n", 403)
        else:
            await self._app(scope, receive, _with_headers(send))
            return
        await answer(scope, receive, _with_headers(send))

    def _is_allowed(self, host: str) -> bool:
        """Return whether the page may be served under a host name: another one may be a rebound name of an attacker."""
        name = named_host(host)
        return not is_rebindable(name) or any(_matches(name, allowed) for allowed in self._hosts)


def check_hosts(allowed: Iterable[object]) -> None:
    """Refuse what no request can name, and so would allow nothing.

    Raises:
        ValueError: naming the first that is neither a name, nor an address, nor all names below one, nor ``*``.
    """
    for host in allowed:
        name = host.removeprefix(".").strip("[]").lower() if isinstance(host, str) else ""
        if host != "*" and (not name or (is_rebindable(name) and named_host(name) != name)):
            raise ValueError(
                f"{host!r} is no name of a host; expected one such as jobs.example.com, without scheme and port, "
                ".example.com for all below it, or *"
            )


def foreign(headers: Headers, scheme: str) -> str:
    """Return why a change may come from another site; empty if it does not.

    Browsers set ``Sec-Fetch-Site``, and ``Origin`` where they do not, and no page can change them. A program without
    either says who it is by a header that no form can send.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return "" if site == "same-origin" else f"another site sent this form (Sec-Fetch-Site: {site})"
    if origin is not None:
        return "" if _is_origin(origin, headers.get("host", ""), scheme) else "another site sent this form (Origin)"
    if headers.get("authorization", "").lower().startswith("bearer ") or headers.get("x-redisbeater") == "1":
        return ""
    return "no Origin; a program sends the header X-Redisbeater: 1 or Authorization: Bearer"


def _is_origin(origin: str, host: str, scheme: str) -> bool:
    """Return whether an origin is that of the request. Behind a proxy that ends TLS only the hosts are the same."""
    try:
        parts = urlsplit(origin)
    except ValueError:  # brackets around what is no address
        return False
    if parts.scheme not in {scheme, "https"}:
        return False
    return _with_port(parts.netloc, parts.scheme) == _with_port(host, parts.scheme)


def _with_port(host: str, scheme: str) -> str:
    default = ":443" if scheme == "https" else ":80"
    return host.lower().removesuffix(default)


def _matches(name: str, allowed: str) -> bool:
    if allowed.startswith("."):
        return name == allowed[1:] or name.endswith(allowed)
    return bool(name) and allowed in {name, "*"}


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending
