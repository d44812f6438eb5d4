"""The database of django-celery-beat, read by Django's own ORM in the configured project."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from celery import Celery

from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.management.migration.candidate import Candidate, SourceError


class DjangoSource:
    """The periodic tasks of a Django project."""

    name = "django-celery-beat"
    place = ()

    def __init__(self, app: Celery) -> None:
        self._app = app

    def read(self) -> Iterator[Candidate]:
        """Yield its entries; see :class:`Source`."""
        yield from self._tables().read(self._app)

    def check_switching(self) -> None:
        """Do nothing: it is always possible."""

    def switch(self, names: Sequence[str], *, enabled: bool) -> list[str]:
        """Store ``enabled`` and report the change to its beats; see :class:`Source`."""
        switched: list[str] = self._tables().switch(names, enabled=enabled)
        return switched

    def _tables(self) -> Any:
        """Return the module that knows the tables: it can be imported only in a project that is set up."""
        _set_up()
        from redisbeater.management.migration import django_tables

        return django_tables


def moved_from(scheduler: object) -> list[str]:
    """Return the tasks that an import has disabled in the database of a scheduler; none if it is another one's."""
    theirs = sys.modules.get("django_celery_beat.schedulers")
    if theirs is None or not isinstance(scheduler, theirs.DatabaseScheduler):
        return []
    from redisbeater.management.migration import django_tables

    try:
        return django_tables.moved()
    except SourceError:  # that scheduler reports its database itself
        return []


def _set_up() -> None:
    """Set up Django.

    Raises:
        ImproperlyConfigured: Django, its settings or django-celery-beat are missing.
    """
    try:
        import django
        import django_celery_beat  # noqa: F401
        from django.apps import apps
        from django.conf import settings
    except ImportError as exc:
        raise ImproperlyConfigured(f"{exc.name} is not installed here: pip install django-celery-beat") from exc
    if not settings.configured and not os.environ.get("DJANGO_SETTINGS_MODULE"):
        raise ImproperlyConfigured("Django is not configured: set DJANGO_SETTINGS_MODULE to the project's settings")
    try:
        django.setup()
    except Exception as exc:  # the project's own code runs here
        raise ImproperlyConfigured(f"Django cannot be set up: {type(exc).__name__}: {exc}") from exc
    if not apps.is_installed("django_celery_beat"):
        raise ImproperlyConfigured("'django_celery_beat' is missing in INSTALLED_APPS of the project")
