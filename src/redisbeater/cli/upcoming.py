"""The commands that answer when an entry runs, and why it did or did not: upcoming and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta, tzinfo

import click
from celery import Celery

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.group import (
    DURATION,
    MOMENT,
    OPTIONAL_NAME,
    Moment,
    Times,
    as_json,
    as_json_lines,
    command,
    complete_delay,
    print_lines,
    times,
)
from redisbeater.cli.table import View, aligned
from redisbeater.cli.terminal import Progress
from redisbeater.context import Context
from redisbeater.display import printable_json, shown
from redisbeater.editing.upcoming import MOST_RUNS, UpcomingRun
from redisbeater.entry_name import check_name
from redisbeater.management.future import NEXT_OF_ENTRY, NEXT_OF_SCHEDULE, next_runs, next_runs_of
from redisbeater.management.why.delays import explain_delay
from redisbeater.management.why.facts import Answer, zone_of_entry
from redisbeater.management.why.past import explain
from redisbeater.model.passed_values import MOST_LISTED
from redisbeater.times import clock_words, date_words, relative_words


@redisbeater.command()
@OPTIONAL_NAME
@click.option("--id", "delay_id", shell_complete=complete_delay, help="A task that waits for its eta, by its id.")
@click.option("--at", type=MOMENT, help="The time that is asked about, such as 24h for 24h ago; default: now.")
@as_json
@times
@command
def why(app: Celery, name: str | None, delay_id: str | None, at: Moment | None, as_json: bool, times: Times) -> None:
    """Say why an entry did or did not run, and what proves it.

    Without --at it says why the entry does not run now. The id of a task that waits for its eta is taken as well,
    unless an entry has that name.

    \b
    Examples:
      celery -A proj redisbeater why report
      celery -A proj redisbeater why report --at "fri 09:00"
      celery -A proj redisbeater why report --at 24h
      celery -A proj redisbeater why --id reminder-42
    """
    if (name is None) == (delay_id is None) or (delay_id is not None and at is not None):
        raise BadInput("expected NAME, perhaps with --at, or --id ID")
    context, view = Context.of(app), times.view()
    if name is None or delay_id is not None:
        answer = explain_delay(context, str(delay_id), now=view.now, shown_in=view.zone)
        _print_answer(answer, view, view.zone, as_json=as_json)
        return
    zone = zone_of(app, name)
    moment = None if at is None else at.read(view.now, zone, is_past=True)
    answer = explain(context, name, moment, now=view.now, shown_in=view.zone if view.is_utc else None)
    _print_answer(answer, view, zone, as_json=as_json)


def _print_answer(answer: Answer, view: View, zone: tzinfo, *, as_json: bool) -> None:
    if as_json:
        click.echo(printable_json(answer.as_dict(), indent=2))
    else:
        print_lines(_answer_lines(answer, view, zone))


def zone_of(app: Celery, name: str) -> tzinfo:
    """Return the zone in which times of an entry are written."""
    return zone_of_entry(Context.of(app), check_name(name))


def _answer_lines(answer: Answer, view: View, zone: tzinfo) -> Iterator[str]:
    told = shown(answer.sentence, None)
    yield told
    for fact in answer.evidence:
        when = clock_words(view.local(fact.at, zone), view.now_in(zone)) if fact.at else "now"
        yield f"  {when:<14}  {shown(_untold(fact.text, told))}"
        told += f"\n{shown(fact.text, None)}"
    if answer.advice:
        yield f"  {shown(answer.advice)}"


#: An error with fewer characters is told again in each line.
LEAST_REPEATED = 60


def _untold(text: str, told: str) -> str:
    """Return a line of evidence without the error at its end, if that has been told before."""
    for colon in re.finditer(": ", text):
        error = shown(text[colon.end() :]).removesuffix("...")
        if len(error) >= LEAST_REPEATED and error in told:
            return f"{text[: colon.start()]}: as above"
    return text


@redisbeater.command()
@OPTIONAL_NAME
@click.option(
    "-n",
    "count",
    type=click.IntRange(1, MOST_LISTED),
    help=f"Number of runs: {NEXT_OF_ENTRY} of an entry, {NEXT_OF_SCHEDULE} of the schedule; with --within all, "
    "up to 10,000.",
)
@click.option("--within", type=DURATION, help="Only runs within this time: 24h, 90m.")
@click.option("--at", type=MOMENT, help="Only runs from this time on: tomorrow 09:00.")
@as_json_lines
@times
@command
def upcoming(
    app: Celery,
    name: str | None,
    count: int | None,
    within: timedelta | None,
    at: Moment | None,
    as_json: bool,
    times: Times,
) -> None:
    """Show the next runs of an entry, or of the whole schedule.

    Without NAME it shows those of the whole schedule. A run that a change of the clocks affects has a note.

    \b
    Examples:
      celery -A proj redisbeater upcoming report -n 20
      celery -A proj redisbeater upcoming --within 24h
      celery -A proj redisbeater upcoming --at "tomorrow 02:00" --within 1h
    """
    context = Context.of(app)
    view = times.view()
    start = None if at is None else at.read(view.now, view.zone if name is None else zone_of(app, name))
    if name is not None and count is not None and count > MOST_RUNS:
        raise BadInput(f"-n: expected 1 to {MOST_RUNS} runs of one entry, got {count}")
    limit = count or (MOST_LISTED if within is not None else NEXT_OF_ENTRY if name else NEXT_OF_SCHEDULE)
    runs: Sequence[UpcomingRun]
    if name is None:
        with Progress("read") as progress:
            runs = next_runs(context, within=within, limit=limit, start=start, progress=progress)
    else:
        runs = next_runs_of(context, check_name(name), within=within, limit=limit, start=start)
    if not runs:
        click.echo(_none(name, within is not None or at is not None), err=as_json)
    elif as_json:
        print_lines(printable_json(run.as_dict()) for run in runs)
    else:
        print_lines(_run_lines(runs, view, is_of_all=name is None))
    if count is None and within is not None and len(runs) == limit:
        click.echo(f"only the first {limit:,} runs are shown: shorten --within", err=True)


def _none(name: str | None, is_bounded: bool) -> str:
    """Return the message for an empty list of runs."""
    if is_bounded:
        return "none in that time"
    return "none: no entry is enabled and has a fire time left" if name is None else _NONE_OF_ENTRY


_NONE_OF_ENTRY = "none: the entry is disabled or has finished"


def _run_lines(runs: Sequence[UpcomingRun], view: View, *, is_of_all: bool) -> list[str]:
    lines = [("FIRE TIME (UTC)", "LOCAL", "IN", "NAME", "SENT", "NOTE"), *(_run_line(run, view) for run in runs)]
    noted = (place for place in (4, 5) if any(line[place] for line in lines[1:]))
    columns = [0, 1, 2, *([3] if is_of_all else []), *noted]
    return aligned([[line[place] for place in columns] for line in lines], view.width)


def _run_line(run: UpcomingRun, view: View) -> tuple[str, str, str, str, str, str]:
    local = run.fire_time if view.is_utc else run.local
    return (
        f"{run.fire_time:%Y-%m-%d %H:%M:%S}",
        f"{date_words(local)} {local:%H:%M:%S %Z}",
        relative_words(run.fire_time, view.now).removeprefix("in "),
        run.name,
        delay_words(run),
        run.note,
    )


def delay_words(run: UpcomingRun) -> str:
    """Return how long after its fire time a run is sent, by its jitter; an empty text without one."""
    return "" if run.due_at == run.fire_time else f"{(run.due_at - run.fire_time).total_seconds():.1f} s later"
