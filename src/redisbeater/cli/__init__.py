"""The command line, ``celery -A proj redisbeater ...``: list and change the entries of a schedule."""

from redisbeater.cli.changing import adopt, delete, disable, enable
from redisbeater.cli.commands import broken, list_, show, upcoming
from redisbeater.cli.files import apply, export
from redisbeater.cli.group import redisbeater
from redisbeater.cli.linting import lint
from redisbeater.cli.simulating import simulate

__all__ = (
    "adopt",
    "apply",
    "broken",
    "delete",
    "disable",
    "enable",
    "export",
    "lint",
    "list_",
    "redisbeater",
    "show",
    "simulate",
    "upcoming",
)
