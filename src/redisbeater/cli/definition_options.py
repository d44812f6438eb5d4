"""The options that ``create``, ``update`` and ``copy`` share: what an entry runs, and when."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from celery import Celery

from redisbeater.cli.group import BadInput, as_json, standard_input, times, view_of
from redisbeater.cli.options import authored, read_label_changes
from redisbeater.cli.table import View
from redisbeater.context import Context
from redisbeater.display import shown

__all__ = ("Given", "definition_options", "read_at")

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
    click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="K=V",
        callback=read_label_changes,
        help="Label; it can be repeated. update and copy keep the others, and K= removes one.",
    ),
    click.option("--once", is_flag=True, default=None, help="Never execute a run twice; its task needs OnceTask."),
    click.option("--disabled", is_flag=True, help="Do not run until it is enabled."),
    click.option("--dry-run", is_flag=True, help="Check it, show what would be done, and write nothing."),
    authored,
    as_json,
    times,
)


@dataclass(frozen=True, kw_only=True)
class Given:
    """What was passed of the shared options.

    Attributes:
        options: the texts of the definition by the names of their options; None for one that was not passed.
        dry_run: whether nothing is written.
        author: ``note`` and ``by`` of the change.
        as_json: whether JSON is printed.
        now, is_utc: how times are shown.
    """

    options: dict[str, Any]
    dry_run: bool
    author: dict[str, Any]
    as_json: bool
    now: str | None
    is_utc: bool

    @property
    def words(self) -> dict[str, Any]:
        """The words of the definition, with the contents of the files that they name.

        Raises:
            BadInput: a file cannot be read.
        """
        words = dict(self.options)
        for name in _FROM_FILE:
            text = words.get(name)
            if text is not None and text.startswith("@"):
                words[name] = read_at(text[1:], f"--{name}")
        return words

    def view(self, app: Celery) -> View:
        """Return how times are shown."""
        return view_of(Context.of(app), self.now, self.is_utc)


def definition_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets what was passed as :class:`Given` after the app."""

    @functools.wraps(function)
    def run(app: Celery, **passed: Any) -> None:
        options = {name: passed.pop(name) for name, _, _ in (*_SCHEDULES, *_FIELDS)}
        options.update(
            once=passed.pop("once"),
            labels=passed.pop("labels") or None,
            enabled=False if passed.pop("disabled") else None,
        )
        author = {name: passed.pop(name) for name in ("note", "by")}
        shared = {name: passed.pop(name) for name in ("dry_run", "as_json", "now", "is_utc")}
        function(app, Given(options=options, author=author, **shared), **passed)

    for option in reversed(_OTHERS):
        run = option(run)
    for name, metavar, help_ in reversed((*_SCHEDULES, *_FIELDS)):
        run = click.option(f"--{name.replace('_', '-')}", name, metavar=metavar, help=help_)(run)
    return run


def read_at(path: str, option: str) -> str:
    """Return the text of a file; ``-`` is the standard input.

    Raises:
        BadInput: it cannot be read, or is too long.
    """
    try:
        with nullcontext(standard_input()) if path == "-" else Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise BadInput(f"{option} {shown(path)}: has more than {MOST_BYTES:,} bytes")
        return content.decode()
    except OSError as exc:
        raise BadInput(f"{option} {shown(path)}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise BadInput(f"{option} {shown(path)}: is no UTF-8 text: {exc}") from exc
