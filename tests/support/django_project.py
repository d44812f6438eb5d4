"""A project of Django with users, sessions and the tables of django-celery-beat, for the tests of one process."""

from __future__ import annotations

import os

import django
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse
from django.urls import path


def _login_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"log in to go on to {request.GET.get('next')}")


urlpatterns = [path("accounts/login/", _login_page, name="login")]


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
                "django.contrib.contenttypes",
                "django.contrib.auth",
                "django.contrib.sessions",
                "django_celery_beat",
            ],
            MIDDLEWARE=[
                "django.contrib.sessions.middleware.SessionMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware",
            ],
            PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
            DEFAULT_AUTO_FIELD="django.db.models.AutoField",
            SECRET_KEY="of the tests",
            ALLOWED_HOSTS=["jobs.example.com"],
            ROOT_URLCONF=__name__,
            LOGIN_URL="login",
            USE_TZ=True,
            TIME_ZONE="UTC",
        )
    if not apps.ready:
        django.setup()
        call_command("migrate", verbosity=0)
