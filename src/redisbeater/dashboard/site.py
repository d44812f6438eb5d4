"""The site: the store that its pages call, its settings, and the drawing of templates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from redisbeater.dashboard.address import Networks, here, root_of
from redisbeater.dashboard.assets import Assets
from redisbeater.dashboard.attempts import Attempts
from redisbeater.dashboard.auth import Login
from redisbeater.dashboard.choices import Choice
from redisbeater.dashboard.clock import CHOICES, Clock
from redisbeater.dashboard.forecasts import Forecasts
from redisbeater.dashboard.heavy_reads import HeavyReads
from redisbeater.dashboard.hub import Hub
from redisbeater.dashboard.recent_status import RecentHeld, RecentStatus
from redisbeater.dashboard.sessions import Session, Sessions
from redisbeater.dashboard.users import Auth, Right, User
from redisbeater.management.async_store import AsyncScheduleStore
from redisbeater.store.records import PageKeys

__all__ = ("THEME_COOKIE", "ZONE_COOKIE", "JSONAnswer", "Site")

#: The cookies of what a reader chose.
ZONE_COOKIE, THEME_COOKIE = "redisbeater_zone", "redisbeater_theme"

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
        allow_any_task: whether forms take tasks that the application does not know.
        choices: the options of each policy, for the form of an entry.
        inherited: what counts for fields of that form that are empty, in words.
    """

    store: AsyncScheduleStore
    heavy_reads: HeavyReads
    probe: AsyncScheduleStore
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
    held: RecentHeld
    choices: Mapping[str, list[Choice]]
    inherited: Mapping[str, str]

    async def user(self, request: Request) -> User | None:
        """Return who sent a request, with the rights that this site leaves."""
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
        """Return the session that the cookie of a request names, ended or not; None: it has none."""
        return None if self.sessions is None else self.sessions.of(request)

    @property
    def can_log_out(self) -> bool:
        """Whether people log in on a page of ours."""
        return self.sessions is not None

    async def clock(self, request: Request) -> Clock:
        """Return the present, in the zone that the reader of a page chose."""
        now = await self.store.clock()
        choice = request.cookies.get(ZONE_COOKIE, self.time_zone)
        fixed: tzinfo | None = timezone.utc if choice == "utc" else None
        if choice == "browser":
            fixed = _zone_named(request.cookies.get(BROWSER_ZONE_COOKIE, "UTC"))
        elif choice not in CHOICES:
            choice, fixed = ("entry", None) if choice != self.time_zone else (choice, ZoneInfo(choice))
        return Clock(now=now, choice=choice, fixed=fixed)

    def render(
        self, request: Request, template: str, values: Mapping[str, Any], *, status: int = 200, fragment: str = ""
    ) -> Response:
        """Draw a template; the fragment of it that htmx asked for, where it did."""
        root = root_of(request)
        common = {
            "site": self,
            "root": root,
            "static": f"{root}/static/{self.assets.version}",
            "request": request,
            "here": here(request),
            "flash": None,
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
        return json.dumps(content, default=_as_json, separators=(",", ":")).encode("utf-8", "backslashreplace")


def _as_json(value: Any) -> Any:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is no JSON")
