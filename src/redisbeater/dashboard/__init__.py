"""The web page: see the schedule, change it, and know what will run."""

from redisbeater.dashboard.app import create_app
from redisbeater.dashboard.auth import basic, header, token
from redisbeater.dashboard.django_auth import django
from redisbeater.dashboard.passwords import hash_password
from redisbeater.dashboard.users import ALL, OPERATE, VIEW, Right, User

__all__ = (
    "ALL",
    "OPERATE",
    "VIEW",
    "Right",
    "User",
    "basic",
    "create_app",
    "django",
    "hash_password",
    "header",
    "token",
)
