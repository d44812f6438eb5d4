"""The command line, ``celery -A proj redisbeater ...``: list and change the entries of a schedule."""

from redisbeater.cli.commands import redisbeater

__all__ = ("redisbeater",)
