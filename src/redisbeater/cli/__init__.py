"""The command line, ``celery -A proj redisbeater ...``: list and change the entries of a schedule."""

from redisbeater.cli.changing import adopt, delete, disable, enable
from redisbeater.cli.commands import broken, list_, show, upcoming
from redisbeater.cli.group import redisbeater
from redisbeater.cli.pausing import pause, resume
from redisbeater.cli.status import health, status

__all__ = (
    "adopt", "broken", "delete", "disable", "enable", "health", "list_", "pause", "redisbeater", "resume", "show",
    "status", "upcoming",
)  # fmt: skip
