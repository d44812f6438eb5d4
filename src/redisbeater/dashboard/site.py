"""What all pages of a process share: assets, clock, choices, and what was read lately."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone, tzinfo
from importlib.resources import files
from typing import Any, Generic, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from jinja2 import Environment
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from redisbeater.config.settings import Config
from redisbeater.dashboard.address import Networks, begin_of_commands, has_stream, here, root_of
from redisbeater.dashboard.auth import Auth, Login, Right, User
from redisbeater.dashboard.defences import Attempts
from redisbeater.dashboard.hub import Hub
from redisbeater.dashboard.page_store import PageStore
from redisbeater.dashboard.pictures import Forecasts
from redisbeater.dashboard.sessions import Session, Sessions
from redisbeater.display import json_form
from redisbeater.exceptions import RedisBeaterError
from redisbeater.health.status import Status
from redisbeater.management.future import HeldRuns
from redisbeater.model.fields import JSON, WORDS, Field, Flag, Group, Labels, Word, Zone
from redisbeater.model.policies import INHERIT
from redisbeater.schedules.english import zone_text
from redisbeater.store.records import PageKeys
from redisbeater.times import clock_words, date_words, relative_words

_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Assets:
    """The files of ``static``. No path of a request reaches a disk."""

    def __init__(self) -> None:
        folder = files("redisbeater.dashboard").joinpath("static")
        self._files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name.endswith(tuple(_KINDS))}
        #: The hash of all files, a part of their paths: a browser keeps them for ever.
        self.version = hashlib.sha256(b"".join(content for _, content in sorted(self._files.items()))).hexdigest()[:12]

    async def serve(self, request: Request) -> Response:
        """Return a file, or 404."""
        name = request.path_params["name"]
        if name not in self._files or request.path_params["version"] != self.version:
            return Response(status_code=404)
        kind = _KINDS[name.rpartition(".")[2]]
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(self._files[name], media_type=kind, headers=headers)


#: The zones to choose from: each entry's own; UTC; that of the browser, whose script names it.
CHOICES = ("entry", "utc", "browser")


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The present, and the zone of the times on a page.

    Attributes:
        now: the time of the Redis server, in the zone of entries without their own.
        choice: one of ``CHOICES``, or an IANA name.
        fixed: the zone of all times; None: each entry's own.
        is_relative: whether a list shows how far its times are from now, and not the times.
    """

    now: datetime
    choice: str
    fixed: tzinfo | None
    is_relative: bool = True

    def local(self, moment: datetime, zone: tzinfo | None = None) -> datetime:
        """Return an instant in the zone of the page; ``zone`` is that of its entry."""
        return moment.astimezone(self.fixed or zone or self.now.tzinfo)

    def words(self, moment: datetime, zone: tzinfo | None = None) -> str:
        """Return a time as ``Mon 09:00:00 CET``, farther away with its date."""
        local = self.local(moment, zone)
        return f"{clock_words(local, self.now.astimezone(local.tzinfo))} {local:%Z}"

    def long_words(self, moment: datetime, zone: tzinfo | None = None) -> str:
        """Return a time as ``Mon 23 Nov 2026 09:00:00 CET``."""
        local = self.local(moment, zone)
        return f"{date_words(local)} {local:%H:%M:%S %Z}"

    def distance(self, moment: datetime) -> str:
        """Return how far a time is from now: ``in 3 s``, ``7 s ago``."""
        return relative_words(moment, self.now)

    def utc(self, moment: datetime) -> str:
        """Return a time for machines, ISO 8601 in UTC."""
        return moment.astimezone(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")

    @property
    def zone_words(self) -> str:
        """The name of the zone of the page's own times."""
        return zone_text(self.fixed or self.now.tzinfo) or "UTC"


class FormChoice(NamedTuple):
    """An option of a field: its value in the form, empty for the default; its word; and a sentence."""

    value: str
    word: str
    sentence: str


class FormField(NamedTuple):
    """A field of the form of an entry; ``default`` is what a setting says, the first choice what counts without one."""

    word: str
    label: str
    heading: str
    hint: str
    default: str
    choices: list[FormChoice]
    has_lines: bool
    is_zone: bool


def form_fields(config: Config) -> dict[str, list[FormField]]:
    """Return the fields of the form by their groups."""
    return {
        group.value: [_form_field(field, config) for field in WORDS.values() if field.group is group] for group in Group
    }


def _form_field(field: Field, config: Config) -> FormField:
    kind, default, hint = field.kind, "", field.help
    if field.default is INHERIT:
        default = f"{kind.words(getattr(config, field.name))}, by the setting redisbeater_{field.name}."
    choices = _choices(field, default)
    if field.group is Group.PEOPLE:
        hint = ""
    elif isinstance(kind, Zone):
        hint = f"Such as {kind.example}, or a part of it."
    return FormField(
        word=field.word,
        label=_label(field),
        heading=field.group.sentence,
        hint=field.sentence if choices else hint,
        default=default,
        choices=choices,
        has_lines=isinstance(kind, (JSON, Labels)),
        is_zone=isinstance(kind, Zone),
    )


def _label(field: Field) -> str:
    if isinstance(field.kind, JSON):
        return f"{field.name} (JSON {field.kind.noun})"
    return "Time zone" if isinstance(field.kind, Zone) else field.name.replace("_", " ").capitalize()


def _choices(field: Field, inherited: str) -> list[FormChoice]:
    if isinstance(field.kind, Flag):
        return [FormChoice("", "no", ""), FormChoice("yes", "yes", "")]
    if not isinstance(field.kind, Word):
        return []
    words = [
        FormChoice("" if each is field.default else str(each), str(each), each.sentence) for each in field.kind.choices
    ]
    if field.default is None:
        return [FormChoice("", "none", ""), *words]
    return [FormChoice("", "default", inherited), *words] if inherited else words


R = TypeVar("R")

#: Heavy reads of one process at a time: they share a processor with each other and with all short reads.
MOST_AT_A_TIME = 2

#: Those of one person, with the one that has its turn: a browser sends six at a time.
MOST_OF_A_PERSON = 8

#: Seconds after which a program may ask again that has asked for too many.
RETRY_AFTER = 5


@dataclass
class _Queue:
    """The reads of one person."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0


class HeavyReads:
    """Reads that take long, of one schedule. Short ones never wait for them.

    Arguments:
        store: has the threads in which they run, and which nothing else uses.
    """

    def __init__(self, store: PageStore) -> None:
        self.store = store
        self._turns = asyncio.Semaphore(MOST_AT_A_TIME)
        self._queues: dict[str, _Queue] = {}

    async def read(self, request: Request, user: User, answer: Callable[[PageStore], Awaitable[R]]) -> R:
        """Return the answer to a request, once it is the person's turn; end it as soon as the client hangs up.

        Raises:
            HTTPException: 429, as many of the same person have not ended; 499, the client is gone.
        """
        reading = asyncio.ensure_future(self._in_turn(user.name, answer))
        hanging_up = asyncio.ensure_future(_hang_up(request))
        try:
            await asyncio.wait((reading, hanging_up), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                raise HTTPException(499, "the client has hung up")
            return await reading
        finally:
            reading.cancel()
            hanging_up.cancel()

    async def _in_turn(self, person: str, answer: Callable[[PageStore], Awaitable[R]]) -> R:
        async with self._turn(person):
            return await answer(self.store)

    @asynccontextmanager
    async def _turn(self, person: str) -> AsyncIterator[None]:
        """Wait for the other reads of a person, then for one of the turns that all people share."""
        queue = self._queues.setdefault(person, _Queue())
        if queue.length >= MOST_OF_A_PERSON:
            reason = f"{queue.length} searches of yours have not ended: wait for one of them, or close its page"
            raise HTTPException(429, reason, headers={"Retry-After": str(RETRY_AFTER)})
        queue.length += 1
        try:
            async with queue.turn, self._turns:
                yield
        finally:
            queue.length -= 1
            if not queue.length:
                del self._queues[person]


async def _hang_up(request: Request) -> None:
    """Wait until the client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


#: How old the last hour and the facts about the server may be: an open page asks again with each change.
FRESH_SECONDS = 5.0


class RecentStatus:
    """The status of one schedule."""

    def __init__(self, store: PageStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._found: Status | None = None
        self._read_at = 0.0

    async def get(self) -> Status:
        """Return the status as it is now, with details that are up to five seconds old."""
        async with self._lock:
            found = self._found
            if found is None or time.monotonic() - self._read_at >= FRESH_SECONDS:
                self._found = await self._store.status(details=True)
                self._read_at = time.monotonic()
                return self._found
        return replace(await self._store.status(), server=found.server, last_hour=found.last_hour)


class Recent(Generic[R]):
    """What was read lately of one schedule.

    Arguments:
        read: reads it.
        times: for how many times five seconds it is not read again.
    """

    def __init__(self, read: Callable[[], Awaitable[R]], times: int = 1) -> None:
        self._read = read
        self._times = times
        self._lock = asyncio.Lock()
        self._kept: tuple[R, object] | None = None
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def get(self, *key: object) -> R:
        """Return it, read again after that time, or with another key."""
        async with self._lock:
            if self._kept is None or not self._is_fresh(key):
                self._kept, self._read_at = (await self._read(), key), time.monotonic()
            return self._kept[0]

    def known(self, *key: object) -> R | None:
        """Return the last answer, or None, and read it again meanwhile: nobody waits for what takes long."""
        if not self._is_fresh(key) and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._refresh(key))
        return self._kept[0] if self._kept else None

    def expire(self) -> None:
        """Read it again the next time: somebody has changed something."""
        self._read_at = float("-inf")

    def _is_fresh(self, key: object) -> bool:
        is_new = time.monotonic() - self._read_at < self._times * FRESH_SECONDS
        return is_new and self._kept is not None and self._kept[1] == key

    async def _refresh(self, key: tuple[object, ...]) -> None:
        with suppress(RedisBeaterError):  # the page says so by itself
            await self.get(*key)


class Counts(NamedTuple):
    """How many entries are disabled, and how many are broken, with those that beat has not met yet where it is few."""

    disabled: int
    broken: int


#: How long an answer serves others who ask for the same: its times are as old.
SHARED_SECONDS = 1.0


class SharedAnswers:
    """Answers to open pages that ask by themselves: those that ask for the same at the same time share one."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[float, asyncio.Task[Response]]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[Response]]) -> Response:
        """Return the answer, made now unless another request with the same key has begun to, within a second.

        The key tells who asks for what, and how many changes were known then: what was read before one is not shared.
        """
        now = time.monotonic()
        for old in [old for old, (begun, _) in self._kept.items() if now - begun >= SHARED_SECONDS]:
            del self._kept[old]
        key = (asyncio.get_running_loop(), key)
        if key not in self._kept:
            self._kept[key] = now, asyncio.ensure_future(_of(make))
        made = await asyncio.shield(self._kept[key][1])  # who asked first may hang up
        return Response(made.body, made.status_code, dict(made.headers))

    def expire(self) -> None:
        """Make each answer again: somebody has changed something."""
        self._kept.clear()


async def _of(make: Callable[[], Awaitable[Response]]) -> Response:
    return await make()


#: The cookies with the preferences of a reader.
ZONE_COOKIE, THEME_COOKIE, TIMES_COOKIE = "redisbeater_zone", "redisbeater_theme", "redisbeater_times"

#: The cookie in which the script of the page names the zone of the browser.
BROWSER_ZONE_COOKIE = "redisbeater_browser_zone"


@dataclass(frozen=True, kw_only=True)
class Site:
    """What the pages of one schedule share.

    Attributes:
        store: what they show and do goes through it, but for heavy reads.
        heavy_reads: what takes many entries to answer, so that nothing else waits for it.
        probe: what load balancers ask, so that it waits for nothing else.
        auth: recognizes who sent a request.
        trusted_proxies: those whose ``X-Forwarded-For`` says whom a failed login counts for.
        sessions: those of people who have logged in on a page of ours.
        page_keys: what all processes that serve it keep in Redis.
        prefix: that of the schedule's keys, shown in the head.
        title: shown in the head and in the browser's tab.
        time_zone: ``"entry"``, or the IANA name of the zone of all times.
        read_only: nobody has a right but to view.
        forecasts: what the next 24 hours bring.
        hub: tells open pages what changes.
        status: the status of the schedule, with details.
        held: the fire times that wait while it is paused.
        counts: how many entries are disabled or broken, which Redis has no list of.
        shared_answers: what open pages that show the same are answered.
        allow_any_task: whether forms take tasks that the application does not know.
        runs_kept: how many runs of each entry are kept.
        form: the fields of the form of an entry, by their groups.
    """

    store: PageStore
    heavy_reads: HeavyReads
    probe: PageStore
    auth: Auth
    trusted_proxies: Networks
    sessions: Sessions | None
    page_keys: PageKeys
    assets: Assets
    attempts: Attempts
    templates: Environment
    prefix: str
    title: str
    time_zone: str
    read_only: bool
    allow_any_task: bool
    hub: Hub
    forecasts: Forecasts
    status: RecentStatus
    held: Recent[HeldRuns]
    counts: Recent[Counts]
    shared_answers: SharedAnswers
    runs_kept: int
    form: Mapping[str, list[FormField]]

    async def user(self, request: Request) -> User | None:
        """Return the user who sent a request, with the rights that this site leaves."""
        user = await self._recognized(request)
        if user is None or not self.read_only:
            return user
        return User(user.name, user.rights & {Right.VIEW})

    async def _recognized(self, request: Request) -> User | None:
        session = self.session(request)
        if session is None or self.sessions is None or await self.sessions.has_ended(session):
            return await self.auth(request)
        assert isinstance(self.auth, Login), "others have no sessions"
        return self.auth.user(session.name)

    def session(self, request: Request) -> Session | None:
        """Return the session that the cookie of a request names, ended or not, or None."""
        return None if self.sessions is None else self.sessions.of(request)

    def choices(self, request: Request) -> tuple[str | None, ...]:
        """Return the choices of a reader that change how a page is drawn."""
        cookies = (ZONE_COOKIE, BROWSER_ZONE_COOKIE, THEME_COOKIE, TIMES_COOKIE)
        return tuple(request.cookies.get(name) for name in cookies)

    @property
    def can_log_out(self) -> bool:
        """Whether people log in on a page of ours."""
        return self.sessions is not None

    def clock(self, request: Request, now: datetime) -> Clock:
        """Return the present, in the zone that the reader of a page chose."""
        choice = request.cookies.get(ZONE_COOKIE, self.time_zone)
        fixed: tzinfo | None = timezone.utc if choice == "utc" else None
        if choice == "browser":
            fixed = _zone_named(request.cookies.get(BROWSER_ZONE_COOKIE, "UTC"))
        elif choice not in CHOICES:
            choice, fixed = ("entry", None) if choice != self.time_zone else (choice, ZoneInfo(choice))
        is_relative = request.cookies.get(TIMES_COOKIE) != "clock"
        return Clock(now=now, choice=choice, fixed=fixed, is_relative=is_relative)

    def render(
        self, request: Request, template: str, values: Mapping[str, Any], *, status: int = 200, fragment: str = ""
    ) -> Response:
        """Render a template, or only the fragment that htmx asked for."""
        root = root_of(request)
        common = {
            "site": self,
            "root": root,
            "static": f"{root}/static/{self.assets.version}",
            "request": request,
            "here": here(request),
            "flash": None,
            "begin": begin_of_commands(request),
            "has_stream": has_stream(request),
        }
        theme = request.cookies.get(THEME_COOKIE, "")
        common["theme"] = theme if theme in ("light", "dark") else ""
        common["fragment"] = fragment if request.headers.get("HX-Request") == "true" else ""
        text = self.templates.get_template(template).render({**common, **values})
        content = text.encode("utf-8", "backslashreplace")  # names may hold bytes that are no unicode
        return HTMLResponse(content, status, headers={"Vary": "HX-Request"})


def _zone_named(name: str) -> tzinfo:
    """Return the zone of a browser; UTC where this host does not know it, for its script shows the times then."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, no such name, or that of a folder
        return timezone.utc


class JSONAnswer(Response):
    """JSON for programs; times are ISO 8601 in UTC."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the bytes of a value."""
        return json.dumps(content, default=json_form, separators=(",", ":")).encode("utf-8", "backslashreplace")
