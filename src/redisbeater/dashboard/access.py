"""Who may see a page: a request is read, its person recognised, its form checked, its answer rendered."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from redisbeater.dashboard.address import address_of, client_of, has_stream, here, is_live, network_of, root_of
from redisbeater.dashboard.auth import Login, Right, User, credentials
from redisbeater.dashboard.page_store import PageStore
from redisbeater.dashboard.pages import Action, Page, PageRequest, delete_flash, read_flash
from redisbeater.dashboard.site import Counts, JSONAnswer, Site
from redisbeater.exceptions import StoreError
from redisbeater.health.status import Status, read_overview
from redisbeater.management.future import HeldRuns
from redisbeater.management.place import count_late
from redisbeater.management.search import LATE
from redisbeater.management.why.facts import lead_ended

#: The largest body, and the most fields in it.
MOST_BYTES, MOST_FIELDS = 256 * 1024, 1_200

#: How long a body may take to come.
BODY_SECONDS = 30.0


class Form:
    """The fields of a form; one that is not there is an empty text."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def __getitem__(self, name: str) -> str:
        return next((value for field, value in self._fields if field == name), "")

    def __contains__(self, name: str) -> bool:
        return any(field == name for field, _ in self._fields)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """All fields with their values, in their order."""
        return self._fields

    @property
    def flat(self) -> dict[str, str]:
        """The first value of each field."""
        return dict(reversed(self._fields))

    def all(self, name: str) -> list[str]:
        """Return all values of a field, in their order."""
        return [value for field, value in self._fields if field == name]


async def read_form(request: Request) -> Form:
    """Read the form of a request.

    Raises:
        HTTPException: 408 for a body that does not come within 30 seconds, 413 for one of more than 256 KB or too many
            fields, 415 for one of another kind.
    """
    kind = request.headers.get("content-type", "application/x-www-form-urlencoded").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "expected a form: application/x-www-form-urlencoded")
    try:
        body = await asyncio.wait_for(_body(request), BODY_SECONDS)
    except ClientDisconnect as exc:
        raise HTTPException(400, "the form is not whole") from exc
    except asyncio.TimeoutError as exc:
        raise HTTPException(408, f"the form did not come within {BODY_SECONDS:g} s") from exc
    try:
        text = body.decode()
        form = Form(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except UnicodeDecodeError as exc:
        raise HTTPException(400, "the form is not UTF-8") from exc
    except ValueError as exc:
        raise HTTPException(413, f"the form has more than {MOST_FIELDS} fields") from exc
    request.state.form = form
    return form


async def form_to_repeat(request: Request) -> Form | None:
    """Return the form of a person that was not taken, so that the answer carries it, or None if no person sent one.

    The defences have let it in: no other site has sent it. One with a password or a token is never repeated.
    """
    headers = request.headers
    is_person = not ("Authorization" in headers or "X-Redisbeater" in headers or headers.get("HX-Request") == "true")
    form: Form | None = getattr(request.state, "form", None)
    if form is None and is_person and request.method == "POST":
        with suppress(HTTPException):  # it is none
            form = await read_form(request)
    return form if form and is_person and "secret" not in form else None


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"the form has more than {MOST_BYTES // 1024} KB")
    return bytes(body)


#: Lines of the schedule's log that may say since when nobody leads.
LINES = 50


#: Among so many entries the disabled and the broken ones are counted at once.
FEW = 1_000


@dataclass(frozen=True, kw_only=True)
class Head:
    """What the head of a page says.

    Attributes:
        status: the status of the schedule.
        lead_ended: since when nobody leads; None: somebody does, or the log does not say.
        late: how many entries are late; while the schedule is paused, they wait.
        disabled: how many entries are disabled, as far as is known.
        held: the fire times that wait for the end of a pause; None: the schedule is not paused.
    """

    status: Status
    lead_ended: datetime | None
    late: int
    disabled: int
    held: HeldRuns | None


async def read_head(req: PageRequest) -> Head:
    """Read what the head of a page says."""
    status = req.status
    ended = None if status.is_led else lead_ended(await req.store.log(limit=LINES))
    held, late = None, 0
    if status.pause:
        held = await req.site.held.get(status.due, status.pause.since)
    elif status.oldest >= LATE:
        late = await req.store.ask(count_late, LATE)
    key, counter = (status.entries, status.dormant, status.broken), req.site.counts
    counts = (await counter.get(*key) if status.entries <= FEW else counter.known(*key)) or Counts(0, 0)
    status = replace(status, broken=max(status.broken, counts.broken))
    return Head(status=status, lead_ended=ended, late=late, disabled=counts.disabled, held=held)


Endpoint = Callable[[Request], Awaitable[Response]]


def endpoint(site: Site, action: Action, *, as_json: bool = False) -> Endpoint:
    """Return the handler of a route, for users who have its right."""

    async def answer(request: Request) -> Response:
        user = request.state.user = await _user_within_attempts(site, request)
        if user is None:
            return _ask_to_log_in(site, request, as_json=as_json)
        if action.right not in user.rights:
            why = "this page is read-only" if site.read_only else f"the right to {action.right.value} is missing"
            raise HTTPException(403, why)
        if action.is_heavy(request.query_params):
            return await site.heavy_reads.read(request, user, partial(respond, request, user))
        mark = await _mark(site, request, as_json=as_json)
        make = partial(respond, request, user, site.store, mark)
        if mark and request.method == "GET" and is_live(request) and not as_json:
            return await site.shared_answers.get(_shared_by(site, request, user, mark), make)
        return await make()

    async def respond(request: Request, user: User, store: PageStore, mark: str | None = None) -> Response:
        mark = await _mark(site, request, as_json=as_json) if mark is None else mark  # before what may change is read
        req = await _page_request(site, store, request, user)
        page = await action.answer(req)
        if action.method == "POST":
            site.counts.expire()
            site.shared_answers.expire()
        if not isinstance(page, Page):
            return page
        if as_json or (request.method == "POST" and req.wants_json):
            return JSONAnswer(page.data, page.status)
        flash = await read_flash(req)
        values = {"req": req, "clock": req.clock, "head": await read_head(req), "mark": mark, "flash": flash}
        drawn = site.render(
            request, page.template, {**values, **page.values}, status=page.status, fragment=page.fragment
        )
        if flash:
            delete_flash(req, drawn)
        return drawn

    return answer


def _shared_by(site: Site, request: Request, user: User, mark: str) -> Hashable:
    """Return the key of the answer that a request of an open page shares with others."""
    return mark, address_of(request), request.headers.get("HX-Request"), user.name, user.rights, site.choices(request)


async def _page_request(site: Site, store: PageStore, request: Request, user: User) -> PageRequest:
    status, zone = await site.store.ask(read_overview)
    clock = site.clock(request, status.now.astimezone(zone))
    return PageRequest(site=site, store=store, request=request, user=user, status=status, clock=clock)


async def head_of_error(site: Site, request: Request) -> dict[str, Any]:
    """Return the values of head and navigation for the page of an error; none for strangers, or without Redis."""
    user = getattr(request.state, "user", None)
    with suppress(StoreError):
        if user is None and "Authorization" not in request.headers:  # these count as an attempt to log in
            user = await site.user(request)
        if user is not None and Right.VIEW in user.rights:
            mark = await _mark(site, request, as_json=False)
            req = await _page_request(site, site.store, request, user)
            return {"req": req, "clock": req.clock, "head": await read_head(req), "mark": mark}
    return {}


async def _mark(site: Site, request: Request, *, as_json: bool) -> str:
    """Return the mark that a page opens its stream with; browsers say by a header that they open one."""
    is_opened = request.headers.get("Sec-Fetch-Mode") == "navigate" and not as_json and has_stream(request)
    return await site.hub.mark(is_opened=is_opened)


async def _user_within_attempts(site: Site, request: Request) -> User | None:
    """Return the user who sent a request; credentials in a header count as an attempt to log in."""
    given = request.headers.get("Authorization")
    if given is None:
        return await site.user(request)
    name, secret = credentials(given) or ("", given)
    return await _attempt(site, request, name, secret, partial(site.user, request))


def login_of(site: Site, request: Request) -> str:
    """Return where a person logs in and comes back from, or an empty text if it is not known."""
    login = f"{root_of(request)}/login" if isinstance(site.auth, Login) else getattr(site.auth, "login_url", "")
    return login and f"{login}{'&' if '?' in login else '?'}{urlencode({'next': here(request)})}"


def _ask_to_log_in(site: Site, request: Request, *, as_json: bool) -> Response:
    login = login_of(site, request)
    wants_page = request.method in ("GET", "HEAD") and not as_json and request.headers.get("HX-Request") != "true"
    if login and wants_page and "Authorization" not in request.headers:
        return RedirectResponse(login, 303)
    if isinstance(site.auth, Login):
        raise HTTPException(401, "log in, or send Authorization: Bearer with the token")
    raise HTTPException(401, "nobody is logged in; log in where this page is embedded")


async def show_login(
    site: Site, request: Request, *, failed: bool = False, status: int = 200, target: str = ""
) -> Response:
    """Return the page that asks for a token, or for name and password; ``target`` is where the person wants to go."""
    assert isinstance(site.auth, Login), "the route exists only with one"
    target = target or request.query_params.get("next", "")
    is_opened = request.headers.get("Sec-Fetch-Site") == "none"  # by the person: no other site leads here
    values = {"asks_name": site.auth.asks_name, "failed": failed, "next": target, "is_opened": is_opened}
    return site.render(request, "login.html", values, status=status)


async def log_in(site: Site, request: Request) -> Response:
    """Check what was entered; begin a session and go on where the person wanted to go, or ask again."""
    assert isinstance(site.auth, Login), "the route exists only with one"
    assert site.sessions, "they begin here"
    form = await read_form(request)
    name, secret = form["name"], form["secret"]
    user = await _attempt(site, request, name, secret, partial(site.auth.check, name, secret))
    if user is None:
        return await show_login(site, request, failed=True, status=403, target=form["next"])
    answer = RedirectResponse(local_path(request, form["next"]), 303)
    site.sessions.begin(request, answer, name or user.name)
    return answer


async def log_out(site: Site, request: Request) -> Response:
    """End the session in every process, with the streams of its open pages.

    Raises:
        HTTPException: 503, Redis does not keep that it has ended; the browser forgets it all the same.
    """
    assert site.sessions, "the route exists only where people log in"
    answer = RedirectResponse(local_path(request, "") + "login", 303)
    site.sessions.forget(request, answer)
    session = site.sessions.of(request)
    if session is None:
        return answer
    site.hub.end(session.id)
    try:
        await site.sessions.end(session)
    except StoreError as exc:
        why = "you are logged out in this browser, but whoever has copied its cookie can go on for up to 12 hours"
        headers = {"Set-Cookie": answer.headers["Set-Cookie"]}
        raise HTTPException(503, f"{why}: Redis did not keep that the session has ended, {exc}", headers) from exc
    return answer


def local_path(request: Request, target: str) -> str:
    """Return a target of a redirect: a path of this site, or its first page for anything else."""
    is_ours = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if is_ours else f"{root_of(request)}/"


async def _attempt(
    site: Site, request: Request, name: str, secret: str, check: Callable[[], Awaitable[User | None]]
) -> User | None:
    """Return the user with these credentials, or None; count failures, and refuse after too many.

    A token is checked all the same: nobody can guess it, and a stranger keeps nobody out who has it.
    """
    # A digest, because the text may be of any length; a bearer has no name, only the token.
    who = hashlib.sha256((name or secret).encode()).hexdigest()
    address = network_of(client_of(request, site.trusted_proxies))
    async with site.attempts.one_by_one:
        wait = site.attempts.wait(who, address)
        is_checked = wait <= 0 or (isinstance(site.auth, Login) and site.auth.is_unguessable)
        user = await check() if is_checked else None
        if user is None and wait > 0:
            headers = {"Retry-After": str(int(wait) + 1)}
            raise HTTPException(429, "too many failed logins; wait a minute", headers=headers)
        if user is None:
            site.attempts.failed(who, address)
        elif name in ("", user.name):  # a request with a session may hold the name of somebody else
            site.attempts.succeeded(who, address)
    return user
