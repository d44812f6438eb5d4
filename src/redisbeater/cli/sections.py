"""``SECTIONS``: the commands by what people do with them, and ``OPTION_SECTIONS``: the options of long commands."""

from __future__ import annotations

from typing import Any

import click

from redisbeater.management.verbs import VERBS
from redisbeater.model.fields import WORDS, Group
from redisbeater.schedules.kinds import SCHEDULE_WORDS

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


def _fields(*groups: Group) -> list[str]:
    return [word for word, field in WORDS.items() if field.group in groups]


#: The heading of the last section, which has the option that click adds, too: ``--help``.
_OTHER = "Other options"

#: The options of commands that write an entry, by the names of their parameters, below what they are about: the fields
#: below the headings that the form of the web page has.
OPTION_SECTIONS: dict[str, list[str]] = {
    "When it runs": [*SCHEDULE_WORDS, *_fields(Group.TIMES)],
    "What it runs": ["task", *_fields(Group.ARGUMENTS)],
    **{
        group.sentence: _fields(group)
        for group in (Group.BOUNDS, Group.SENDING, Group.LATE, Group.RUNS, Group.PROMISES)
    },
    _OTHER: [
        "json_file", "if_missing", "unset", "if_version", "disabled", "dry_run", "yes", "note", "by", "as_json",
        "times", "no_color",
    ],
}  # fmt: skip
OPTION_SECTIONS[Group.SENDING.sentence] += ["queue", "priority", *_fields(Group.PEOPLE)]

#: The heading of each option.
OPTION_HEADINGS = {name: heading for heading, names in OPTION_SECTIONS.items() for name in names}


class SectionedCommand(click.Command):
    """A command whose help has its options in sections.

    Raises:
        LookupError: an option is in none.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for each in self.params:
            if isinstance(each, click.Option) and not each.hidden and each.name not in OPTION_HEADINGS:
                raise LookupError(
                    f"the option {each.name!r} is in no section of cli/sections.py; add it where people look for it"
                )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options below their headings."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        shown = [(each.name, each.get_help_record(ctx)) for each in options]
        for heading in OPTION_SECTIONS:
            found = [each for name, each in shown if each and OPTION_HEADINGS.get(str(name), _OTHER) == heading]
            if found:
                with formatter.section(heading):
                    formatter.write_dl(found)
