"""The command that answers why an entry did or did not run: why."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo

import click
from celery import Celery

from redisbeater.cli.completion import NAME
from redisbeater.cli.group import BadInput, as_json, command, print_lines, redisbeater, times, view_of
from redisbeater.cli.table import View
from redisbeater.context import Context
from redisbeater.display import printable_json, shown
from redisbeater.entry_name import check_name
from redisbeater.management.why.answer import Answer
from redisbeater.management.why.explain import explain
from redisbeater.management.why.facts import zone_of_entry
from redisbeater.times import clock_words, read_time

__all__ = ("read_past", "why", "zone_of")


@redisbeater.command()
@NAME
@click.option("--at", "at", metavar="TIME", help="The time that is asked about; default: now.")
@as_json
@times
@command
def why(app: Celery, name: str, at: str | None, as_json: bool, now: str | None, is_utc: bool) -> None:
    """Say why an entry does not run now, or why it did or did not run at a time, and what proves it.

    \b
    Examples:
      celery -A proj redisbeater why report
      celery -A proj redisbeater why report --at "fri 09:00"
    """
    context = Context.of(app)
    view, zone = view_of(context, now, is_utc), zone_of(app, name)
    moment = None if at is None else read_past(at, view.now, zone)
    longest, shown_in = app.conf.beat_max_loop_interval or 0, view.zone if is_utc else None
    answer = explain(context, check_name(name), moment, now=view.now, max_interval=longest, shown_in=shown_in)
    if as_json:
        click.echo(printable_json(answer.as_dict(), indent=2))
    else:
        print_lines(_lines(answer, view, zone))


def zone_of(app: Celery, name: str) -> tzinfo:
    """Return the zone in which times of an entry are written."""
    return zone_of_entry(Context.of(app), check_name(name))


def read_past(text: str, now: datetime, zone: tzinfo) -> datetime:
    """Return the time that an option means, the newest that has passed where it may mean several.

    Raises:
        BadInput: it is no time.
    """
    try:
        return read_time(text, now=now, zone=zone, is_past=True)
    except ValueError as exc:
        raise BadInput(f"--at {exc}") from exc


def _lines(answer: Answer, view: View, zone: tzinfo) -> Iterator[str]:
    yield shown(answer.sentence, None)
    for fact in answer.evidence:
        when = clock_words(view.local(fact.at, zone), view.now_in(zone)) if fact.at else "now"
        yield f"  {when:<14}  {shown(fact.text)}"
    if answer.advice:
        yield f"  {shown(answer.advice)}"
