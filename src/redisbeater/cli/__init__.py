"""The command line, ``celery -A proj redisbeater ...``. Each of these modules adds its commands to the group."""

from redisbeater.cli import (  # noqa: F401
    changing,
    dashboard,
    files,
    history,
    importing,
    incidents,
    runs,
    showing,
    simulating,
    status,
    upcoming,
    writing,
)
from redisbeater.cli.group import redisbeater
from redisbeater.management.verbs import VERBS

__all__ = ("redisbeater",)

for verb in VERBS.values():
    if verb.name not in redisbeater.commands:
        redisbeater.add_command(runs.command_of(verb) if verb.of == "runs" else changing.command_of(verb))
