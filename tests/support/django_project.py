"""A project of Django with users, sessions and the tables of django-celery-beat, for the tests of one process."""

from __future__ import annotations

import os

import django
from django.apps import apps
from django.conf import settings
from django.core.management import call_command


def set_up() -> None:
    """Configure Django and create the tables, once."""
    # The browser of an earlier test of this process leaves a running event loop, in which Django refuses to work.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    if not settings.configured:
        settings.configure(
            # Shared by the threads of this process: the web page asks in one of its own.
            DATABASES={
                "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "file:tests?mode=memory&cache=shared"}
            },
            INSTALLED_APPS=[
                "django.contrib.admin",
                "django.contrib.contenttypes",
                "django.contrib.auth",
                "django.contrib.messages",
                "django.contrib.sessions",
                "django_celery_beat",
                "redisbeater.contrib.django",
            ],
            MIDDLEWARE=[
                "django.contrib.sessions.middleware.SessionMiddleware",
                "django.middleware.csrf.CsrfViewMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.messages.middleware.MessageMiddleware",
            ],
            TEMPLATES=[
                {
                    "BACKEND": "django.template.backends.django.DjangoTemplates",
                    "APP_DIRS": True,
                    "OPTIONS": {
                        "context_processors": [
                            "django.template.context_processors.request",
                            "django.contrib.auth.context_processors.auth",
                            "django.contrib.messages.context_processors.messages",
                        ]
                    },
                }
            ],
            STATIC_URL="static/",
            PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
            DEFAULT_AUTO_FIELD="django.db.models.AutoField",
            SECRET_KEY="of the tests",
            ALLOWED_HOSTS=["jobs.example.com"],
            ROOT_URLCONF="support.django_urls",
            LOGIN_URL="login",
            USE_TZ=True,
            TIME_ZONE="UTC",
        )
    if not apps.ready:
        django.setup()
        call_command("migrate", verbosity=0)


def empty_tables() -> None:
    """Delete the periodic tasks, and when they run."""
    from django_celery_beat import models

    kinds = (models.CrontabSchedule, models.IntervalSchedule, models.ClockedSchedule, models.SolarSchedule)
    for model in (models.PeriodicTask, *kinds):
        model.objects.all().delete()
