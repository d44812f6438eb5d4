"""A page: what it shows, as values of a template and as the same facts in JSON, and who may see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from redisbeater.dashboard.address import root_of
from redisbeater.dashboard.clock import Clock
from redisbeater.dashboard.users import Right, User
from redisbeater.management.async_store import AsyncScheduleStore

if TYPE_CHECKING:
    from redisbeater.dashboard.site import Site

__all__ = ("Action", "Page", "Visit")


@dataclass(frozen=True, kw_only=True)
class Page:
    """The answer to a request for a page.

    Attributes:
        template: draws it, for a browser.
        values: what the template is given. No setting with a password is ever among them.
        data: the JSON of the same path with ``.json``, as the command line prints it with ``--json``.
        fragment: draws the part of it that htmx asked for; empty: the whole page.
        status: of the answer.
    """

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    data: Any = None
    fragment: str = ""
    status: int = 200


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A request by somebody who may make it; ``store`` is the schedule, in threads for requests of its kind."""

    site: Site
    store: AsyncScheduleStore
    request: Request
    user: User
    clock: Clock

    @property
    def root(self) -> str:
        """The path that the page is mounted under, without the slash at its end."""
        return root_of(self.request)

    @property
    def wants_json(self) -> bool:
        """Whether the answer to a change is to be JSON, for programs."""
        return "application/json" in self.request.headers.get("Accept", "")

    def query(self, name: str) -> str:
        """Return a value of the query; empty if it has none of that name."""
        return self.request.query_params.get(name, "")

    def queries(self, name: str) -> list[str]:
        """Return all values of a name in the query."""
        return self.request.query_params.getlist(name)

    def may(self, right: str) -> bool:
        """Return whether the user has a right; templates show no button without it."""
        return Right(right) in self.user.rights


@dataclass(frozen=True, kw_only=True)
class Action:
    """A route: its path, its method, the right it needs, what answers it, and whether it has a twin in JSON.

    ``is_heavy`` tells from a query whether many entries are read for its answer, which waits for its turn then.
    """

    path: str
    answer: Callable[[Visit], Awaitable[Page | Response]]
    right: Right = Right.VIEW
    method: str = "GET"
    has_json: bool = True
    is_heavy: Callable[[QueryParams], bool] = lambda _: False
