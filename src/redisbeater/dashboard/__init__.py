"""The web page: see the schedule, change it, and know what will run."""

from redisbeater.dashboard.app import create_app
from redisbeater.dashboard.auth import ALL, OPERATE, VIEW, Right, User, basic, hash_password, header, token
from redisbeater.dashboard.django_auth import django

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
