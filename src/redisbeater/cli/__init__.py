"""The command line, ``celery -A proj redisbeater ...``. Each of these modules adds its commands to the group."""

from redisbeater.cli import (
    backfilling,
    changing,
    commands,
    dashboard,
    files,
    history,
    importing,
    linting,
    pausing,
    renaming,
    runs,
    simulating,
    status,
    triggering,
    upcoming,
    why,
    writing,
)
from redisbeater.cli.group import redisbeater

__all__ = (
    "backfilling",
    "changing",
    "commands",
    "dashboard",
    "files",
    "history",
    "importing",
    "linting",
    "pausing",
    "redisbeater",
    "renaming",
    "runs",
    "simulating",
    "status",
    "triggering",
    "upcoming",
    "why",
    "writing",
)
