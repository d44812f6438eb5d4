"""``celery -A proj redisbeater ...``: look at a schedule and change it."""

from redisbeater.cli.commands import redisbeater

__all__ = ("redisbeater",)
