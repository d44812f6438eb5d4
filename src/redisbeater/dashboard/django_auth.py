"""Recognize the users of a Django project by their session."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from redisbeater.dashboard.users import ALL, VIEW, Auth, Right, User

__all__ = ("Django", "django")

#: What Django itself allows where DEBUG is on and ALLOWED_HOSTS is empty.
_DEBUG_HOSTS = (".localhost", "localhost")


class Django:
    """An ``auth`` of ``create_app``: who has logged in to the Django project may use the page.

    Arguments:
        staff: the rights of staff and superusers.
        others: the rights of all other active users; an empty set: none of them gets in.
    """

    def __init__(self, staff: frozenset[Right], others: frozenset[Right]) -> None:
        self._staff, self._others = staff, others

    @property
    def allowed_hosts(self) -> Sequence[str]:
        """The setting ALLOWED_HOSTS."""
        from django.conf import settings

        return tuple(settings.ALLOWED_HOSTS) or (_DEBUG_HOSTS if settings.DEBUG else ())

    async def __call__(self, request: Request) -> User | None:
        """Return who sent a request; None: nobody who has logged in."""
        user: Any = request.scope.get("user")
        if user is None:
            user = await run_in_threadpool(_user_of_session, request.cookies)
        if not (user.is_authenticated and user.is_active):
            return None
        rights = self._staff if user.is_staff or user.is_superuser else self._others
        return User(user.get_username(), rights) if rights else None


def django(staff: frozenset[Right] = ALL, others: frozenset[Right] = VIEW) -> Auth:
    """Recognize people by their session of the Django project that the page is mounted in.

    Arguments:
        staff: the rights of staff and superusers.
        others: the rights of all other active users.
    """
    return Django(staff, others)


def _user_of_session(cookies: dict[str, str]) -> Any:
    """Return the user of a session, as Django's own middlewares find it."""
    from django.conf import settings
    from django.contrib.auth import get_user
    from django.db import close_old_connections

    close_old_connections()
    try:
        session = import_module(settings.SESSION_ENGINE).SessionStore(cookies.get(settings.SESSION_COOKIE_NAME))
        found: Any = SimpleNamespace(session=session)
        return get_user(found)
    finally:
        close_old_connections()
