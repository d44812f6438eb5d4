"""The command line, ``celery -A proj redisbeater ...``: list and change the entries of a schedule."""

from redisbeater.cli.changing import adopt, delete, disable, enable, skip_next
from redisbeater.cli.commands import broken, list_, show, upcoming
from redisbeater.cli.group import redisbeater
from redisbeater.cli.renaming import copy, rename, restore

__all__ = (
    "adopt",
    "broken",
    "copy",
    "delete",
    "disable",
    "enable",
    "list_",
    "redisbeater",
    "rename",
    "restore",
    "show",
    "skip_next",
    "upcoming",
)
