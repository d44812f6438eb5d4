"""The options that ``create`` and ``update`` share: what an entry runs, and when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from redisbeater.cli.group import BadInput

__all__ = ("definition_options", "read_at", "words_of")

#: Bytes of a file at most: more than one entry may have.
MOST_BYTES = 10_000_000

_SCHEDULES = (
    ("every", "DURATION", "Run every 10s, 1h30m or 2d."),
    ("cron", "TEXT", 'Run at the times of a cron text: "0 9 * * mon-fri".'),
    ("rrule", "TEXT", 'Run by a recurrence rule: "FREQ=MONTHLY;BYDAY=1MO".'),
    ("at", "TIME", 'Run once: 2027-01-03T09:00, "tomorrow 09:00", +2h.'),
    ("solar", "EVENT,LAT,LON", "Run at an event of the sun: sunset,48.2,16.4."),
)

_FIELDS = (
    ("timezone", "ZONE", "Zone of local times: Europe/Vienna."),
    ("args", "JSON", "Arguments of the task: '[1, 2]'; or @file."),
    ("kwargs", "JSON", "Arguments by name: '{\"pages\": 3}'; or @file."),
    ("options", "JSON", "Options of apply_async: '{\"expires\": 60}'; or @file."),
    ("queue", "QUEUE", "Queue of the runs."),
    ("priority", "NUMBER", "Priority of the runs."),
    ("start_at", "TIME", "No run before."),
    ("end_at", "TIME", "No run after."),
    ("max_runs", "NUMBER", "End after so many runs."),
    ("on_finish", "WORD", "At its end: keep, disable or delete."),
    ("grace", "DURATION", "Skip runs that are later than this; none: run them however late."),
    ("coalesce", "WORD", "Of several missed runs send: latest, earliest or all."),
    ("jitter", "DURATION", "Delay each run by up to this."),
    ("overlap", "WORD", "While a run is active: allow, skip, buffer_one or cancel_other."),
    ("requeue_lost", "NUMBER", "Send a run whose worker died up to so many times more."),
    ("anchor", "WORD", "An interval counts from: fire_time or execution."),
    ("deadline", "DURATION", "A run that nobody has started by then expires: 1h."),
    ("disable_after_failures", "NUMBER", "Disable it after so many failures in a row."),
    ("description", "TEXT", "For people."),
)

#: Options whose text may stand in a file.
_FROM_FILE = ("args", "kwargs", "options")

_OTHERS = (
    click.option("--once", is_flag=True, default=None, help="Never execute a run twice; its task needs OnceTask."),
    click.option("--disabled", is_flag=True, help="Do not run until it is enabled."),
    click.option("--dry-run", is_flag=True, help="Check it, show what would be done, and write nothing."),
    click.option("--note", default="", help="Why, for the log of the entry."),
)


def definition_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command; their texts come as keyword arguments, None for one that was not passed."""
    for option in reversed(_OTHERS):
        function = option(function)
    for name, metavar, help_ in reversed((*_SCHEDULES, *_FIELDS)):
        function = click.option(f"--{name.replace('_', '-')}", name, metavar=metavar, help=help_)(function)
    return function


def words_of(options: dict[str, Any], *, disabled: bool) -> dict[str, Any]:
    """Return the words of the options, with the contents of the files that they name.

    Raises:
        BadInput: a file cannot be read.
    """
    words = dict(options)
    for name in _FROM_FILE:
        text = words.get(name)
        if text is not None and text.startswith("@"):
            words[name] = read_at(text[1:], f"--{name}")
    return {**words, "enabled": False} if disabled else words


def read_at(path: str, option: str) -> str:
    """Return the text of a file; ``-`` is the standard input.

    Raises:
        BadInput: it cannot be read, or is too long.
    """
    try:
        with click.open_file(path, "rb") if path == "-" else Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise BadInput(f"{option} {path}: has more than {MOST_BYTES:,} bytes")
        return content.decode()
    except OSError as exc:
        raise BadInput(f"{option} {path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise BadInput(f"{option} {path}: is no UTF-8 text: {exc}") from exc
