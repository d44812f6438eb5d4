"""The command simulate: how many runs there will be, drawn as bars."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import click
from celery import Celery

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.files import read_export
from redisbeater.cli.group import (
    MOMENT,
    TASK,
    Moment,
    Times,
    as_json,
    command,
    complete_file,
    print_lines,
    times,
)
from redisbeater.cli.terminal import Progress
from redisbeater.context import Context
from redisbeater.display import did_you_mean, json_form, printable_json, shown
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.moved import Moved, moved_by_words
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.management.simulation import Peak, Simulation
from redisbeater.model.fields import WORDS
from redisbeater.schedules.english import zone_text
from redisbeater.schedules.kinds import SCHEDULE_WORDS
from redisbeater.times import clock_words, date_words, duration_words

_BARS, _ASCII_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*#%@"

#: How many bars a line has, and what the first and the last are labelled with.
_LINES = {"minute": (60, "%H:%M"), "hour": (24, "%H"), "day": (31, "%d %b")}

#: What --set may change.
CHANGEABLE = ("task", *SCHEDULE_WORDS, *WORDS)

#: How many families of entries are named at the peak.
_MOST_FAMILIES = 5

#: Runs in one second that lint calls a herd.
_HERD = 100


@redisbeater.command()
@click.option("--from", "start", type=MOMENT, default="now", show_default=True, help="When it begins.")
@click.option(
    "--to", "end", type=MOMENT, default="+24h", show_default=True, help="When it ends; +24h counts from --from."
)
@click.option(
    "--per",
    type=click.Choice(["minute", "hour", "day"]),
    default="hour",
    show_default=True,
    help="What each bar of the drawing stands for.",
)
@click.option("--prefix", default="", help="Only entries whose name begins with this text.")
@TASK(help="Only entries of this task.")
@click.option(
    "--file",
    metavar="FILE",
    shell_complete=complete_file,
    help="The entries of this file, in place of those of the schedule.",
)
@click.option(
    "--set",
    "changes",
    nargs=2,
    multiple=True,
    metavar="NAME FIELD=VALUE",
    help="Say also what changing this field of an entry would move; may be repeated. The fields are options of update.",
)
@as_json
@times
@command
def simulate(
    app: Celery,
    *,
    start: Moment,
    end: Moment,
    per: str,
    prefix: str,
    task: str | None,
    file: str | None,
    changes: Sequence[tuple[str, str]],
    as_json: bool,
    times: Times,
) -> None:
    """Count future runs, and find the busiest minute.

    \b
    Examples:
      celery -A proj redisbeater simulate
      celery -A proj redisbeater simulate --from "tomorrow 00:00" --to +7d --per day
      celery -A proj redisbeater simulate --file schedule.yaml
      celery -A proj redisbeater simulate --set report "cron=H 3 * * *"
    """
    if changes and file is not None:
        raise BadInput("--set: changes entries of the schedule; leave out --file")
    wanted = _wanted(changes)
    view = times.view()
    begin = start.read(view.now, view.zone)
    until = end.read(begin, view.zone)
    if until <= begin:
        raise BadInput(f"--to {end.text!r}: expected a time after --from {start.text!r}")
    try:
        entries = None if file is None else read_export(file)
        with Progress("looked at") as progress:
            found = ScheduleStore(app).simulate(
                begin, until, entries=entries, prefix=prefix, task=task, progress=progress
            )
    except ValueError as exc:
        raise BadInput(str(exc)) from exc
    moved = _moved(app, wanted, found) if wanted else None
    if as_json:
        more = {"moves": moved.as_dict()} if moved else {}
        click.echo(printable_json({**_as_dict(found, per), **json_form(more)}, indent=2))
    else:
        print_lines(_simulation_lines(found, per, view.now.astimezone(view.zone)))
        if moved:
            print_lines([f"with --set: {moved.words}"])


def _moved(app: Celery, wanted: Mapping[str, Mapping[str, str]], found: Simulation) -> Moved:
    try:
        return moved_by_words(Context.of(app), wanted, found.per_second, found.start, found.end)
    except InvalidEntry as exc:
        raise BadInput(f"--set: {shown(str(exc).removeprefix('$.'))}") from exc


def _wanted(changes: Sequence[tuple[str, str]]) -> dict[str, dict[str, str]]:
    """Return the fields to change and their texts, by the names of the entries.

    Raises:
        BadInput: a change is not written as ``FIELD=VALUE``, or there is no such field.
    """
    found: dict[str, dict[str, str]] = {}
    for name, text in changes:
        field, is_field, value = text.partition("=")
        word = field.strip().replace("-", "_")
        if not is_field or word not in CHANGEABLE:
            hint = "" if word in CHANGEABLE else did_you_mean(word, CHANGEABLE)
            raise BadInput(f"--set {shown(name)} {text!r}: expected FIELD=VALUE with an option of update{hint}")
        found.setdefault(name, {})[word] = value.strip()
    return found


def _as_dict(found: Simulation, per: str) -> dict[str, Any]:
    names = ("start", "end", "runs", "is_at_least", "entries", "busiest_minute", "busiest_second", "peak")
    return json_form({**{name: getattr(found, name) for name in names}, "per": per, "counts": found.counts(per)})


def _simulation_lines(found: Simulation, per: str, now: datetime) -> Iterator[str]:
    start = found.start.astimezone(found.zone)
    hours, rest = divmod(found.end - found.start, timedelta(hours=1))
    length = f"{hours} h" if hours <= 48 and not rest else duration_words(found.end - found.start, units=2)
    begin = clock_words(start, now.astimezone(found.zone)).removesuffix(":00")
    runs = f"{'at least ' if found.is_at_least else ''}{found.runs:,} {'run' if found.runs == 1 else 'runs'}"
    entries = f"{found.entries:,} {'entry' if found.entries == 1 else 'entries'}"
    minute, second = found.busiest_minute, found.busiest_second
    head = f"{length} from {begin} {zone_text(found.zone)}: {runs} of {entries}"
    if minute is None or second is None:
        yield head
        return
    minute, second = _local(minute, found), _local(second, found)
    busiest = (
        f"busiest minute {minute.at:%H:%M} ({minute.runs:,}), busiest second {second.at:%H:%M:%S} ({second.runs:,})"
    )
    yield f"{head}; {busiest}"
    families = [f"{shown(name)} {count:,}" for name, count in list(found.peak.items())[:_MOST_FAMILIES]]
    more = len(found.peak) - len(families)
    names = ", ".join([*families, *([f"{more:,} more"] if more else [])])
    herd = "    lint: herd" if second.runs > _HERD else ""
    *drawn, last = _bars(found.counts(per), per)
    yield from drawn
    day = "" if found.end - found.start <= timedelta(days=1) else f" on {date_words(minute.at)}"
    yield f"{last}     {minute.runs:,} at {minute.at:%H:%M}{day}: {names}{herd}"


def _bars(counts: Sequence[Peak], per: str) -> list[str]:
    size, label = _LINES[per]
    if per == "hour" and len(counts) > size:
        label = "%a %H"
    if len(counts) == size + 1:  # a day from 20:18 on touches 25 hours: no line for the last one alone
        size += 1
    most = max(count.runs for count in counts)
    bars = _BARS if _has_bars() else _ASCII_BARS
    lines = []
    for start in range(0, len(counts), size):
        part = counts[start : start + size]
        drawn = "".join(bars[-(-each.runs * (len(bars) - 1) // most)] for each in part)
        lines.append(f"{part[0].at.strftime(label)} {drawn} {part[-1].at.strftime(label)}")
    return lines


def _has_bars() -> bool:
    try:
        return codecs.lookup(getattr(sys.stdout, "encoding", None) or "ascii").name.startswith("utf")
    except LookupError:
        return False


def _local(peak: Peak, found: Simulation) -> Peak:
    return Peak(peak.at.astimezone(found.zone), peak.runs)
