"""The command line, ``celery -A proj redisbeater ...``. Each of these modules adds its commands to the group."""

from redisbeater.cli import (
    changing,
    commands,
    files,
    importing,
    linting,
    pausing,
    renaming,
    simulating,
    status,
    triggering,
    upcoming,
    why,
    writing,
)
from redisbeater.cli.group import redisbeater

__all__ = (
    "changing",
    "commands",
    "files",
    "importing",
    "linting",
    "pausing",
    "redisbeater",
    "renaming",
    "simulating",
    "status",
    "triggering",
    "upcoming",
    "why",
    "writing",
)
