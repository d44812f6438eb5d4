"""The site: the store that its pages call, its settings, and the drawing of templates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from redisbeater.dashboard.assets import Assets
from redisbeater.dashboard.attempts import Attempts
from redisbeater.dashboard.users import Auth, Right, User
from redisbeater.management.async_store import AsyncScheduleStore

__all__ = ("Site",)


@dataclass(frozen=True, kw_only=True)
class Site:
    """What the pages of one schedule share.

    Attributes:
        store: everything that they show and do goes through it.
        auth: recognizes who sent a request.
        prefix: that of the schedule's keys, shown in the head.
        title: shown in the head and in the browser's tab.
        time_zone: ``"entry"``, or the IANA name of the zone of all times.
        read_only: nobody has a right but to view.
        allow_any_task: whether forms take tasks that the application does not know.
    """

    store: AsyncScheduleStore
    auth: Auth
    assets: Assets
    attempts: Attempts
    templates: Environment
    prefix: str
    title: str
    time_zone: str
    read_only: bool
    allow_any_task: bool

    async def user(self, request: Request) -> User | None:
        """Return who sent a request, with the rights that this site leaves."""
        user = await self.auth(request)
        if user is None or not self.read_only:
            return user
        return User(user.name, user.rights & {Right.VIEW})

    def render(
        self, request: Request, template: str, values: Mapping[str, Any], *, status: int = 200, fragment: str = ""
    ) -> Response:
        """Draw a template; the fragment of it that htmx asked for, where it did."""
        root = request.scope.get("root_path", "").rstrip("/")
        common = {"site": self, "root": root, "static": f"{root}/static/{self.assets.version}", "request": request}
        drawn = self.templates.get_template(template)
        if fragment and request.headers.get("HX-Request") == "true":
            text = "".join(drawn.blocks[fragment](drawn.new_context({**common, **values})))
        else:
            text = drawn.render({**common, **values})
        return HTMLResponse(text, status, headers={"Vary": "HX-Request"})


def environment() -> Environment:
    """Return the templates: everything is escaped, and a value that is missing is an error."""
    return Environment(
        loader=PackageLoader("redisbeater.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


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
