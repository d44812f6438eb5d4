"""``SECTIONS``: the commands by what people do with them, as help and the documentation show them."""

from __future__ import annotations

from redisbeater.management.verbs import VERBS

_LOOK, _CHANGE, _RUNS = "Look at entries", "Change entries", "Runs"

#: The commands below the heading of each section, both in the order in which people read of them.
SECTIONS: dict[str, list[str]] = {
    _LOOK: ["list", "show", "upcoming", "why", "broken"],
    _CHANGE: ["create", "update", "copy", "rename", "adopt"],
    _RUNS: ["history", "run", "failures", "trigger", "backfill"],
    "Delays and calendars": ["delays", "calendar"],
    "Incidents": ["incidents", "notify"],
    "Files, checks and other schedulers": ["export", "apply", "files", "lint", "simulate", "import"],
    "Operate": ["status", "health", "pause", "resume", "dashboard"],
}

_placed = {name for names in SECTIONS.values() for name in names}
for _verb in VERBS.values():
    if _verb.name not in _placed:
        SECTIONS[_RUNS if _verb.of == "runs" else _CHANGE].append(_verb.name)

#: The heading of each command.
HEADINGS = {name: heading for heading, names in SECTIONS.items() for name in names}


def check_section(command: str) -> None:
    """Refuse a command that help would not show.

    Raises:
        LookupError: it is in no section.
    """
    if command not in HEADINGS:
        raise LookupError(
            f"the command {command!r} is in no section of cli/sections.py; add it where people look for it"
        )
