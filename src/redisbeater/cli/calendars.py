"""The commands about calendars: which days count, for entries with ``calendar``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import click
from celery import Celery

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.group import Times, as_json, as_json_lines, authored, command, print_lines, standard_input, times
from redisbeater.cli.table import View, aligned
from redisbeater.context import Context
from redisbeater.display import printable_json, shown
from redisbeater.editing.edit import Author
from redisbeater.management import calendar_sources as sources
from redisbeater.management.calendars import (
    CalendarPreview,
    MovedRuns,
    delete_calendar,
    list_calendars,
    preview_calendar,
    read_calendar,
    store_calendar,
)
from redisbeater.management.moved import in_words
from redisbeater.schedules.calendar import Calendar, check_calendar_name
from redisbeater.schedules.english import day_text

#: How many days, entries, and runs of an entry are shown one by one.
SHOWN_DAYS, SHOWN_ENTRIES, SHOWN_RUNS = 10, 20, 5


@redisbeater.group()
def calendar() -> None:
    """Import calendars, list and delete them. Entries with ``calendar`` fire on their days.

    \b
    Examples:
      celery -A proj redisbeater calendar import at --country AT
      celery -A proj redisbeater calendar list
    """


@calendar.command("import")
@click.argument("name")
@click.option("--country", metavar="CODE", help="The working days of this country: AT. Needs the package holidays.")
@click.option("--subdivision", metavar="CODE", help="Of this part of the country.")
@click.option("--market", metavar="CODE", help="The trading days of this market: XNYS. Needs the package holidays.")
@click.option("--file", "path", metavar="FILE", help="Dates, one a line, perhaps with names; - is standard input.")
@click.option("--counting", is_flag=True, help="Only the dates of the file count; else all but these.")
@click.option("--years", metavar="FIRST-LAST", help="What it covers; default: ten years from this one on.")
@click.option("--weekend", metavar="DAYS", help="Weekdays that do not count: sat,sun, or none. Default: the country's.")
@click.option("--dry-run", is_flag=True, help="Only show which days, and which runs of the next year, change.")
@as_json
@authored
@command
@times
def import_calendar(
    app: Celery,
    name: str,
    country: str | None,
    subdivision: str | None,
    market: str | None,
    path: str | None,
    counting: bool,
    years: str | None,
    weekend: str | None,
    dry_run: bool,
    as_json: bool,
    note: str,
    by: str,
    times: Times,
) -> None:
    """Store a calendar, or another version of it. Beat plans the entries that name it again.

    \b
    Examples:
      celery -A proj redisbeater calendar import at --country AT --years 2026-2035 --dry-run
      celery -A proj redisbeater calendar import nyse --market XNYS
      celery -A proj redisbeater calendar import closing --file days.txt --counting
    """
    check_calendar_name(name, "$.name")
    if sum(each is not None for each in (country, market, path)) != 1:
        raise BadInput("expected one of --country, --market and --file")
    if (subdivision is not None and country is None) or (counting and path is None):
        raise BadInput("--subdivision is for --country, --counting for --file")
    view, context, author = times.view(), Context.of(app), Author.of(by, note)
    this_year = view.now_in(view.zone).year
    covered = (this_year, this_year + sources.USUAL_YEARS - 1) if years is None else sources.read_years(years)
    off = None if weekend is None else sources.read_weekend(weekend)
    if country is not None:
        made = sources.of_country(name, country, subdivision, covered, off)
    elif market is not None:
        made = sources.of_market(name, market, covered, off)
    else:
        source = "standard input" if path == "-" else f"file {Path(str(path)).name}"
        made = sources.of_file(name, _lines(str(path)), covered, off, counting=counting, source=source)
    preview = preview_calendar(context, made.calendar, with_runs=dry_run)
    is_stored = not dry_run and store_calendar(context, made.calendar, author)
    if as_json:
        click.echo(printable_json(_as_dict(preview, made.estimated, is_stored=is_stored), indent=2))
        return
    print_lines(_words(preview, made.estimated, view))
    if dry_run and preview.before is not None:
        print_lines(_words_of_runs(preview))
    if not dry_run and not is_stored:
        click.echo("nothing changes: it is stored like this already")


def _lines(path: str) -> list[str]:
    try:
        text = standard_input().read() if path == "-" else Path(path).read_bytes()
        return text.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as exc:
        raise BadInput(f"--file: {path} is no text in UTF-8: {exc.reason}") from exc
    except OSError as exc:
        raise BadInput(f"--file: {path}: {exc.strerror}") from exc


def _as_dict(preview: CalendarPreview, estimated: int, *, is_stored: bool) -> dict[str, object]:
    days = preview.calendar.days
    return {
        **preview.calendar.as_dict(),
        "estimated": estimated,
        "is_new": preview.before is None,
        "days": {day.isoformat(): days.counts(day) for day in preview.days},
        "others": preview.others,
        "moved": [moved.as_dict() for moved in preview.moved],
        "stored": is_stored,
    }


def _words(preview: CalendarPreview, estimated: int, view: View) -> Iterator[str]:
    new, before = preview.calendar, preview.before
    yield f"{new.name}: {_summary(new)}, {shown(new.source)}"
    if estimated:
        yield f"{estimated:,} dates are estimated: import it again when they are known"
    if before is not None and before.days.first < new.days.first:
        yield f"it covers no more what is before {new.days.first}"
    if before is not None and before.days.last > new.days.last:
        yield f"it covers no more what is after {new.days.last}"
    days = [day for day in preview.days if day >= view.now_in(view.zone).date()]
    for day in days[:SHOWN_DAYS]:
        named = f" ({_name(preview, day)})" if _name(preview, day) else ""
        yield f"{day_text(day)} {_verb(new, day)}{named}"
    if len(days) > SHOWN_DAYS:
        yield f"and {len(days) - SHOWN_DAYS:,} more days change"


def _words_of_runs(preview: CalendarPreview) -> Iterator[str]:
    pairs = [(len(each.away), len(each.added)) for each in preview.moved]
    moved = sum(map(min, pairs))
    vanish, more = (sum(numbers) - moved for numbers in zip(*pairs)) if pairs else (0, 0)
    entries = "1 entry" if len(pairs) == 1 else f"{len(pairs):,} entries"
    yield f"within a year: {in_words(moved=moved, vanish=vanish, more=more)}; of {entries}"
    for each in preview.moved[:SHOWN_ENTRIES]:
        yield from _moves(each)
    if len(preview.moved) > SHOWN_ENTRIES:
        yield f"  and {len(preview.moved) - SHOWN_ENTRIES:,} more entries"
    if preview.others:
        yield f"{preview.others:,} entries were not compared: too many have schedules of their own"


def _moves(moved: MovedRuns) -> Iterator[str]:
    at_least = " at least" if moved.is_at_least else ""
    yield f"  {shown(moved.name)}:{at_least} {len(moved.away):,} away, {len(moved.added):,} added"
    marked = sorted([*((each, "-") for each in moved.away), *((each, "+") for each in moved.added)])
    for moment, mark in marked[:SHOWN_RUNS]:
        yield f"    {mark} {moment:%a %Y-%m-%d %H:%M %Z}"
    if len(marked) > SHOWN_RUNS:
        yield f"    and {len(marked) - SHOWN_RUNS:,} more"


def _name(preview: CalendarPreview, day: date) -> str:
    names = [calendar.names.get(day.isoformat()) for calendar in (preview.calendar, preview.before) if calendar]
    return shown(next(filter(None, names), ""))


def _verb(stored: Calendar, day: date) -> str:
    return "counts" if stored.days.counts(day) else "does not count"


def _summary(stored: Calendar) -> str:
    days = stored.days
    return f"{days.first} to {days.last}, {days.count:,} of {days.length:,} days count"


@calendar.command("list")
@as_json_lines
@command
@times
def list_all(app: Celery, as_json: bool, times: Times) -> None:
    """List calendars: what they cover, and how many entries name each.

    The last column says of what each was made.

    \b
    Example:
      celery -A proj redisbeater calendar list --json | jq -r 'select(.last < "2027") | .name'
    """
    found = list_calendars(Context.of(app))
    if as_json:
        print_lines(printable_json(each.as_dict()) for each in found)
        return
    heads = ("NAME", "FIRST", "LAST", "COUNT", "ENTRIES", "MADE OF")
    rows = [
        (
            each.calendar.name,
            str(each.calendar.days.first),
            str(each.calendar.days.last),
            f"{each.calendar.days.count:,}",
            f"{len(each.users):,}",
            shown(each.calendar.source),
        )
        for each in found
    ]
    print_lines(aligned([heads, *rows], times.view().width) if rows else ["no calendars"])


@calendar.command("show")
@click.argument("name")
@click.option("--year", type=click.IntRange(1900, 2199), help="Whose days are shown; default: this year.")
@as_json
@command
@times
def show_calendar(app: Celery, name: str, year: int | None, as_json: bool, times: Times) -> None:
    """Show a calendar, the entries that name it, and its named days.

    \b
    Example:
      celery -A proj redisbeater calendar show at --year 2027
    """
    stored, view = read_calendar(Context.of(app), name), times.view()
    if as_json:
        click.echo(printable_json({**stored.as_dict(), "names": dict(stored.calendar.names)}, indent=2))
        return
    new, year = stored.calendar, year or view.now_in(view.zone).year
    by = " by ".join(filter(None, (stored.at, stored.by)))
    facts = {"covers": _summary(new), "made of": new.source, "stored": by, "entries": ", ".join(stored.users)}
    print_lines(f"{label:<9} {shown(text, None)}" for label, text in facts.items() if text)
    for text, words in new.names.items():
        if text.startswith(f"{year}-"):
            day = date.fromisoformat(text)
            click.echo(f"{text} {_verb(new, day)}: {shown(words)}")


@calendar.command("delete")
@click.argument("name")
@authored
@command
def delete(app: Celery, name: str, note: str, by: str) -> None:
    """Delete a calendar that no entry names.

    \b
    Example:
      celery -A proj redisbeater calendar delete xetr
    """
    delete_calendar(Context.of(app), name, Author.of(by, note))
    click.echo(f"{name}: deleted")
