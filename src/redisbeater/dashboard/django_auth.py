"""Recognize the users of a Django project by their session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from redisbeater.dashboard.auth import ALL, VIEW, Auth, Right, User

#: What Django itself allows where DEBUG is on and ALLOWED_HOSTS is empty.
_DEBUG_HOSTS = (".localhost", "localhost")


#: The rights of a user of Django, by permissions, groups or whatever the project has.
RightsOf = Callable[[Any], frozenset[Right]]


class Django:
    """An ``auth`` of ``create_app``: who has logged in to the Django project may use the page.

    Arguments:
        rights: returns the rights of a user.
    """

    def __init__(self, rights: RightsOf) -> None:
        self._rights = rights

    @property
    def allowed_hosts(self) -> Sequence[str]:
        """The setting ALLOWED_HOSTS."""
        from django.conf import settings

        return tuple(settings.ALLOWED_HOSTS) or (_DEBUG_HOSTS if settings.DEBUG else ())

    @property
    def login_url(self) -> str:
        """The log-in page: by the setting LOGIN_URL, or that of the admin if the project serves no such path."""
        from django.conf import settings
        from django.shortcuts import resolve_url
        from django.urls import NoReverseMatch

        try:
            wanted = str(resolve_url(settings.LOGIN_URL))
        except NoReverseMatch:
            wanted = ""
        if wanted and _is_served(wanted):
            return wanted
        try:
            return str(resolve_url("admin:login"))
        except NoReverseMatch:
            return wanted

    async def __call__(self, request: Request) -> User | None:
        """Return the user who sent a request, or None if nobody has logged in."""
        return await run_in_threadpool(self._user, request)

    def _user(self, request: Request) -> User | None:
        from django.db import close_old_connections

        close_old_connections()
        try:
            user: Any = request.scope.get("user")
            if not hasattr(user, "get_username"):  # another middleware's idea of a user
                user = _user_of_session(request.cookies)
            known = user.is_authenticated and user.is_active
            return User(user.get_username(), self._rights(user)) if known else None
        finally:
            close_old_connections()


def django(staff: frozenset[Right] = ALL, others: frozenset[Right] = VIEW, *, rights: RightsOf | None = None) -> Auth:
    """Recognize people by their session of the Django project that the page is mounted in.

    Who has not logged in is sent to the project's LOGIN_URL; who has, without the right to view, gets 403.

    Arguments:
        staff: the rights of staff and superusers.
        others: the rights of all other active users; an empty set: none of them gets in.
        rights: instead of both: a function of Django's user. It may read the database, as ``user.has_perm`` does.
    """

    def by_staff(user: Any) -> frozenset[Right]:
        return staff if user.is_staff or user.is_superuser else others

    return Django(rights or by_staff)


def _is_served(url: str) -> bool:
    """Return whether an address is that of another site, or of a view of the project."""
    from django.urls import Resolver404, get_script_prefix, resolve

    parts = urlsplit(url)
    try:
        return bool(parts.netloc) or bool(resolve("/" + parts.path.removeprefix(get_script_prefix())))
    except Resolver404:
        return False


def _user_of_session(cookies: dict[str, str]) -> Any:
    """Return the user of a session, as Django's own middlewares find it."""
    from django.conf import settings
    from django.contrib.auth import get_user

    session = import_module(settings.SESSION_ENGINE).SessionStore(cookies.get(settings.SESSION_COOKIE_NAME))
    found: Any = SimpleNamespace(session=session)
    return get_user(found)
