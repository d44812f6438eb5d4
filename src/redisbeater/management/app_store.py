"""What every part of ``ScheduleStore`` needs: an app, and the schedule of that app."""

from __future__ import annotations

from datetime import datetime

from celery import Celery
from celery.app import app_or_default

from redisbeater.context import Context, with_prefix
from redisbeater.model.passed_values import checked_instant

__all__ = ("AppStore",)


class AppStore:
    """The schedule of an app, which may be the current app at each call."""

    def __init__(self, app: Celery | None = None, *, prefix: str | None = None) -> None:
        self._given_app, self._prefix = app, prefix

    @property
    def _app(self) -> Celery:
        return with_prefix(app_or_default(self._given_app), self._prefix)

    @property
    def _context(self) -> Context:
        return Context.of(self._app)

    def _instant(self, name: str, given: datetime | None) -> datetime | None:
        """Return the instant of a passed time; a naive one is in the app's zone."""
        return None if given is None else checked_instant(given, self._context.zone, name)
