"""The commands: each of these modules adds its own to the group, and the table of verbs those that need no module."""

from redisbeater.cli import (  # noqa: F401
    calendars,
    changing,
    dashboard,
    delays,
    files,
    history,
    importing,
    incidents,
    notify,
    redisbeater,
    runs,
    showing,
    simulating,
    status,
    upcoming,
    writing,
)
from redisbeater.management.verbs import VERBS

for verb in VERBS.values():
    if verb.name not in redisbeater.commands:
        redisbeater.add_command(runs.command_of(verb) if verb.of == "runs" else changing.command_of(verb))
