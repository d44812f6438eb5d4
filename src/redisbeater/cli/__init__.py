"""The command line, ``celery -A proj redisbeater ...``. Each of these modules adds its commands to the group."""

from redisbeater.cli import changing, dashboard, files, history, importing, runs, simulating, status, upcoming, writing
from redisbeater.cli import changing as renaming
from redisbeater.cli import files as linting
from redisbeater.cli import runs as backfilling
from redisbeater.cli import runs as triggering
from redisbeater.cli import showing as commands
from redisbeater.cli import status as pausing
from redisbeater.cli import upcoming as why
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
