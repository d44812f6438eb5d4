"""A project of Django with the tables of django-celery-beat in memory, for the tests of one process."""

from __future__ import annotations

import django
from django.apps import apps
from django.conf import settings
from django.core.management import call_command


def set_up() -> None:
    """Configure Django and create the tables, once."""
    if not settings.configured:
        settings.configure(
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
            INSTALLED_APPS=["django_celery_beat"],
            DEFAULT_AUTO_FIELD="django.db.models.AutoField",
            USE_TZ=True,
            TIME_ZONE="UTC",
        )
    if not apps.ready:
        django.setup()
        call_command("migrate", verbosity=0)
