"""The command that sends runs for fire times in the past: backfill."""

from __future__ import annotations

from datetime import datetime, tzinfo

import click
from celery import Celery
from celery.utils.time import rate as runs_per_second

from redisbeater.cli.completion import NAME
from redisbeater.cli.group import BadInput, as_json, command, redisbeater, times, view_of
from redisbeater.cli.options import authored
from redisbeater.cli.progress import Progress
from redisbeater.cli.runs import OVERLAP
from redisbeater.cli.table import View
from redisbeater.cli.why import zone_of
from redisbeater.context import Context
from redisbeater.display import printable_json, shown
from redisbeater.exceptions import SendFailed
from redisbeater.management.runs.backfill import Backfill
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.model.policies import OverlapWord
from redisbeater.times import clock_words, read_time

__all__ = ("backfill",)


@redisbeater.command()
@NAME
@click.option("--from", "start", metavar="TIME", required=True, help="The first time: mon 00:00, 2026-11-20.")
@click.option("--to", "end", metavar="TIME", required=True, help="The last time, included: now, yesterday 12:00.")
@click.option("--rate", "rate_text", metavar="RATE", help="So many runs at most: 10/s, 100/m, 1000/h.")
@OVERLAP
@click.option("--yes", is_flag=True, help="Send them; without it nothing is sent.")
@authored
@as_json
@times
@command
def backfill(
    app: Celery,
    name: str,
    *,
    start: str,
    end: str,
    rate_text: str | None,
    overlap: OverlapWord | None,
    yes: bool,
    note: str,
    by: str,
    as_json: bool,
    now: str | None,
    is_utc: bool,
) -> None:
    """Send a run for each fire time of a span in the past that has not succeeded; without --yes only show which.

    \b
    Examples:
      celery -A proj redisbeater backfill report --from "mon 00:00" --to now
      celery -A proj redisbeater backfill report --from 2026-11-01 --to 2026-11-08 --rate 10/s --yes
    """
    rate, zone = _rate(rate_text), zone_of(app, name)
    view = view_of(Context.of(app), now, is_utc)
    first, last = _time("--from", start, view.now, zone), _time("--to", end, view.now, zone)
    try:
        with Progress("sent", "runs") as progress:
            found = ScheduleStore(app).backfill(
                name, first, last, rate=rate, overlap=overlap, dry_run=not yes, progress=progress, by=by, note=note
            )
    except ValueError as exc:
        if type(exc) is not ValueError:
            raise
        raise BadInput(str(exc).replace("start, end", "--from, --to")) from exc
    except SendFailed as exc:
        raise click.ClickException(str(exc)) from exc
    click.echo(printable_json(found.as_dict(), indent=2) if as_json else _words(found, view, zone, is_sent=yes))


def _words(found: Backfill, view: View, zone: tzinfo, *, is_sent: bool) -> str:
    times = "1 fire time" if len(found.fire_times) == 1 else f"{len(found.fire_times):,} fire times"
    head = f"{shown(found.name)}: {times}, {len(found.done):,} ran already"
    if not found.missing:
        return f"{head}; nothing is missing"
    if is_sent:
        return f"{head}, {len(found.sent):,} sent"
    first, last = (clock_words(view.local(each, zone), view.now_in(zone)) for each in _ends(found))
    return f"{head}; {len(found.missing):,} missing, from {first} to {last}; --yes sends them"


def _ends(found: Backfill) -> tuple[datetime, datetime]:
    return found.missing[0], found.missing[-1]


def _time(option: str, text: str, now: datetime, zone: tzinfo) -> datetime:
    try:
        return read_time(text, now=now, zone=zone, is_past=True)
    except ValueError as exc:
        raise BadInput(f"{option} {exc}") from exc


def _rate(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        found = float(runs_per_second(text))
    except (ValueError, KeyError, TypeError):
        found = 0.0
    if not found > 0:
        raise BadInput(f"--rate {text!r}: expected a number of runs and a unit, such as 10/s, 100/m or 1000/h")
    return found
