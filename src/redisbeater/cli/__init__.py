"""The command line, ``celery -A proj redisbeater ...``: list and change the entries of a schedule."""

from redisbeater.cli.changing import adopt, delete, disable, enable
from redisbeater.cli.commands import broken, list_, show, upcoming
from redisbeater.cli.group import redisbeater
from redisbeater.cli.writing import create, update

__all__ = (
    "adopt",
    "broken",
    "create",
    "delete",
    "disable",
    "enable",
    "list_",
    "redisbeater",
    "show",
    "upcoming",
    "update",
)
