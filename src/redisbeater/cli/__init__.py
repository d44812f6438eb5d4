"""The command line, ``celery -A proj redisbeater ...``: list and change the entries of a schedule."""

from redisbeater.cli.changing import adopt, delete, disable, enable
from redisbeater.cli.commands import broken, list_, show
from redisbeater.cli.group import redisbeater
from redisbeater.cli.triggering import trigger
from redisbeater.cli.upcoming import upcoming
from redisbeater.cli.why import why

__all__ = (
    "adopt",
    "broken",
    "delete",
    "disable",
    "enable",
    "list_",
    "redisbeater",
    "show",
    "trigger",
    "upcoming",
    "why",
)
