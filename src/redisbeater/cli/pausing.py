"""The commands that pause and resume the whole schedule."""

from __future__ import annotations

from datetime import datetime

import click
from celery import Celery

from redisbeater.cli.group import BadInput, command, redisbeater, times, view_of
from redisbeater.cli.table import View
from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.model.beat_line import Pause
from redisbeater.times import clock_words, duration_words, read_time, relative_words

__all__ = ("pause", "pause_words", "resume")

#: What happens to what comes up during a pause.
POLICIES = "each by its misfire_grace_time and coalesce"

_note = click.option("--note", default="", help="Why; it is stored in the log of the schedule.")
_by = click.option("--by", default="", help="Who; default: user and host.")


@redisbeater.command()
@click.option(
    "--until",
    metavar="TIME",
    help="When the pause ends by itself: 2h, or 'mon 09:00'. Default: it lasts until resume.",
)
@_note
@_by
@times
@command
def pause(app: Celery, until: str | None, note: str, by: str, now: str | None, is_utc: bool) -> None:
    """Pause the whole schedule: no beat sends anything until it is resumed.

    Waits until what is being sent has been sent. Entries keep their states.

    \b
    Examples:
      celery -A proj redisbeater pause --note "database is moved"
      celery -A proj redisbeater pause --until 2h
    """
    context = Context.of(app)
    view = view_of(context, now, is_utc)
    end = None if until is None else _end(until, view_of(context, now, is_utc=False))
    begun = ScheduleStore(app).pause(note, by, end)
    click.echo(f"{pause_words(begun, view)}; what comes up meanwhile waits, and runs afterwards, {POLICIES}")
    if begun.still_claimed:
        entries = "1 entry is" if begun.still_claimed == 1 else f"{begun.still_claimed:,} entries are"
        click.echo(f"{entries} still being sent: status shows the beats", err=True)


def _end(until: str, view: View) -> datetime:
    try:
        return read_time(until, now=view.now, zone=view.zone)
    except ValueError as exc:
        raise BadInput(f"--until {exc}") from exc


@redisbeater.command()
@_note
@_by
@command
def resume(app: Celery, note: str, by: str) -> None:
    """End the pause of the whole schedule.

    \b
    Example:
      celery -A proj redisbeater resume --note "database is back"
    """
    ended = ScheduleStore(app).resume(note, by)
    if ended.pause is None:
        click.echo("the schedule is not paused")
    elif ended.held:
        entries = "1 entry has" if ended.held == 1 else f"{ended.held:,} entries have"
        waited = duration_words(ended.oldest)
        click.echo(f"resumed; {entries} come up meanwhile, the oldest {waited} ago: they run now, {POLICIES}")
    else:
        click.echo("resumed; no entry has come up meanwhile")


def pause_words(begun: Pause, view: View) -> str:
    """Return a pause in words: who, since when, until when and why."""
    words = "paused"
    if begun.since is not None and view.now > begun.since:
        words += f" since {clock_words(view.local(begun.since, view.zone), view.now_in(view.zone))}"
    words += f" by {shown(begun.by)}" if begun.by else ""
    if begun.until is not None:
        local = view.local(begun.until, view.zone)
        words += f" until {clock_words(local, view.now_in(view.zone))} {local:%Z}, {relative_words(local, view.now)}"
    return words + (f': "{shown(begun.note)}"' if begun.note else "")
