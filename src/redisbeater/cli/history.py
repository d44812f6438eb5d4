"""The commands that show what became of runs: history, run and failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, tzinfo

import click
from celery import Celery

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.group import (
    MOMENT,
    OPTIONAL_NAME,
    RUN,
    WORDS,
    Moment,
    Times,
    as_json,
    as_json_lines,
    command,
    print_lines,
    times,
)
from redisbeater.cli.table import View, aligned
from redisbeater.cli.terminal import Progress, coloured, draw_again
from redisbeater.cli.upcoming import zone_of
from redisbeater.context import Context
from redisbeater.display import printable_json, shown
from redisbeater.exceptions import StoreError
from redisbeater.management.runs.history import (
    LEAST_BEGIN,
    RunDetails,
    check_tracked,
    end_of_history,
    end_words,
    item_dict,
    lateness,
    note_words,
    read_history,
    run_events,
    running_time,
    wait_for_event,
)
from redisbeater.management.runs.results import MOST_FAILURES
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.management.why.facts import line_words
from redisbeater.model.log_line import LogLine
from redisbeater.model.passed_values import MOST_LISTED
from redisbeater.model.run import STATES, Run
from redisbeater.times import clock_words, date_words, relative_words, span_words

#: The longest time between two looks with ``--follow``: lines of a log come without an event.
LOOK_SECONDS = 2.0

_COLUMNS = ("FIRE TIME", "NAME", "STATE", "LATE", "TOOK", "WORKER", "TRY", "ID", "NOTE")


@redisbeater.command()
@OPTIONAL_NAME
@click.option("-n", "count", type=click.IntRange(1, MOST_LISTED), default=20, show_default=True, help="How many.")
@click.option(
    "--state",
    "states",
    type=WORDS,
    default="",
    help="Only runs in these states, with commas: FAILURE,LOST; or skipped.",
)
@click.option("--since", type=MOMENT, help="Only from this time on: 2h ago, 09:00, mon.")
@click.option("--long", "is_long", is_flag=True, help="With the ids of runs; do not cut lines to the terminal.")
@click.option("--follow", is_flag=True, help="Draw it again whenever a run changes, until Ctrl-C.")
@as_json_lines
@times
@command
def history(
    app: Celery,
    name: str | None,
    *,
    count: int,
    states: list[str],
    since: Moment | None,
    is_long: bool,
    follow: bool,
    as_json: bool,
    times: Times,
) -> None:
    """Show the runs of an entry and its log, the newest first. Without NAME it shows those of the schedule.

    \b
    Examples:
      celery -A proj redisbeater history report -n 5
      celery -A proj redisbeater history --state FAILURE,LOST --since 24h
      celery -A proj redisbeater history report --long --follow
    """
    context = Context.of(app)
    view = times.view(is_long=is_long)
    zone = view.zone if name is None else zone_of(app, name)
    start = None if since is None else since.read(view.now, zone, is_past=True, may_come=False)
    states = [word.lower() if word.lower() == "skipped" else word.upper() for word in states]

    def draw() -> None:
        with Progress("read the runs of") as progress:
            page = read_history(context, name, limit=count, since=start, states=states, progress=progress)
        items = page.items[:count]
        if as_json:
            print_lines(printable_json(item_dict(item)) for item in items)
            return
        drawn = times.view(is_long=is_long)
        results = {} if name is None else ScheduleStore(app).runs.results([name])
        print_lines(result.usual_words for result in results.values() if result.usual)
        if items:
            print_lines(table_of_runs(items, drawn, zone, has_names=name is None, has_ids=is_long))
            if name is not None and page.before is None and not (states or start):
                print_lines(_end_of(context, name, items, drawn, zone))
        else:
            print_lines([_nothing(name, is_filtered=bool(states or start))])
        if not context.config.track_runs:
            click.echo("runs are not recorded: redisbeater_track_runs is off", err=True)

    try:
        _followed(app, draw) if follow else draw()
    except ValueError as exc:
        raise BadInput(f"--{exc}") from exc


def _end_of(context: Context, name: str, items: Sequence[Run | LogLine], view: View, zone: tzinfo) -> Iterator[str]:
    """Yield why a history ends there, if older runs were removed, and which incident began before."""
    words, begun = end_of_history(context, name, items)
    if words:
        yield f"{words}; incident {begun.id} began {_clock(begun.opened, view, zone)}, before them" if begun else words


def _nothing(name: str | None, *, is_filtered: bool) -> str:
    """Return the message for an empty history."""
    if is_filtered:
        return "nothing is kept that --state and --since select; without them all that is kept is shown"
    return "nothing is kept of the runs of any entry" if name is None else "nothing is kept of its runs"


def table_of_runs(
    items: Sequence[Run | LogLine], view: View, zone: tzinfo, *, has_names: bool, has_ids: bool
) -> list[str]:
    """Return the lines of a table of runs and lines of a log."""
    rows = [_of_run(item, view, zone) if isinstance(item, Run) else _of_line(item, view, zone) for item in items]
    places = [
        place
        for place, column in enumerate(_COLUMNS)
        if (column != "NAME" or has_names) and (column != "ID" or has_ids)
    ]
    lines = aligned([[row[place] for place in places] for row in (_COLUMNS, *rows)], view.width)
    return coloured(lines, [row[2] for row in rows], "STATE")


def _of_run(item: Run, view: View, zone: tzinfo) -> Sequence[str]:
    late, length = lateness(item), running_time(item, view.now)
    return (
        _clock(item.fire_time, view, zone),
        item.name,
        str(item.state),
        "" if late is None else span_words(late),
        "" if length is None else span_words(length),
        item.worker,
        str(item.attempt),
        item.id,
        note_words(item, view.now),
    )


def _of_line(line: LogLine, view: View, zone: tzinfo) -> Sequence[str]:
    if line.what == "skipped":
        note = str(line.details.get("reason", ""))
        note += f", because of {line.details['run']}" if line.details.get("run") else ""
        note += f", {line.count:,} times since {_clock(line.first, view, zone)}" if line.count > 1 else ""
    else:
        note = line_words(line, lambda moment: _clock(moment, view, zone)).removeprefix(line.what).lstrip(": ")
    return (_clock(line.last, view, zone), "", line.what, "", "", "", "", "", note)


def _clock(moment: datetime | None, view: View, zone: tzinfo) -> str:
    """Return a local time, with its day unless that is today."""
    if moment is None:
        return "-"
    local, present = view.local(moment, zone), view.now_in(zone)
    return f"{local:%H:%M:%S}" if local.date() == present.date() else clock_words(local, present)


def _followed(app: Celery, draw: Callable[[], None]) -> None:
    """Draw, and draw again after each event and every two seconds, until Ctrl-C."""
    events = run_events(Context.of(app))
    try:
        with suppress(StoreError):
            events.listen()
        click.clear()
        draw()
        while True:
            wait_for_event(events, LOOK_SECONDS)
            draw_again(draw)
    except KeyboardInterrupt:
        return
    finally:
        events.close()


@redisbeater.command()
@RUN
@as_json
@times
@command
def run(app: Celery, run_id: str, *, as_json: bool, times: Times) -> None:
    """Show all that is known of one run.

    It shows what became of it, where its error was raised, its arguments and its queue.

    ID is that of its Celery task, or its first 8 characters, or more, where no other run begins so.

    \b
    Examples:
      celery -A proj redisbeater run 5f0c9a1e
      celery -A proj redisbeater run 5f0c9a1e-3f50-4a9e-9be3-0a3b0c2f8d11 --json | jq -r .traceback
    """
    details = ScheduleStore(app).runs.details(run_id)
    if as_json:
        click.echo(printable_json(details.as_dict(), indent=2))
        return
    view, found = times.view(), details.run
    click.echo("   ".join((shown(found.id), shown(found.name), shown(found.task or "-"))))
    facts = (*_details(found, view, zone_of(app, found.name)), *_belongings(details))
    print_lines(f"  {name:<12} {shown(text)}" for name, text in facts if text)
    if details.traceback:
        print_lines(("  traceback", *(f"    {shown(line, None)}" for line in details.traceback.split("\n"))))


def _belongings(details: RunDetails) -> Iterator[tuple[str, str]]:
    yield "sent again", ", ".join(f"as {run_id}" for run_id in details.restarted_as)
    yield "queue", details.queue
    yield "arguments", details.arguments_note
    yield "args", "" if details.args is None else printable_json(details.args)
    yield "kwargs", "" if details.kwargs is None else printable_json(details.kwargs)
    facts = STATES[details.run.state]
    is_kept = details.traceback or not (facts.is_failure and facts.is_reported)
    yield "traceback", "" if is_kept else "not kept; the newest 3 failures of an entry have one"
    words = (details.entry.words, details.entry.usual_words) if details.entry else ()
    yield "entry", ", ".join(filter(None, words))


def _details(found: Run, view: View, zone: tzinfo) -> Iterator[tuple[str, str]]:
    def moment(at: datetime | None) -> str:
        if at is None:
            return ""
        local = view.local(at, zone)
        return f"{date_words(local)} {local:%H:%M:%S %Z}   {relative_words(at, view.now, units=2)}"

    late = lateness(found)
    yield "state", end_words(found, view.now)
    yield "kind", "" if found.kind.value == "schedule" else found.kind.value
    yield "fire time", moment(found.fire_time)
    yield "sent", moment(found.sent_at) + (f", {span_words(late)} late" if late is not None else "")
    yield "started", moment(found.started_at)
    yield "seen", moment(found.seen_at) if found.finished_at is None else ""
    yield "finished", moment(found.finished_at)
    yield "sent again", moment(found.resend_at)
    executions = f", {found.starts:,} executions" if found.starts > found.attempt else ""
    yield "attempt", f"{found.attempt}{executions}"
    yield "worker", found.worker and f"{found.worker}, process {found.pid}"
    yield "acks late", "yes: the broker sends it again" if found.acks_late else ""
    yield "stop", "asked to stop" if found.is_to_stop else ""
    yield "error", found.error
    yield "result", found.result
    yield "note", found.note
    yield "by", found.by
    yield "restart of", found.restart_of


_FAILURES = ("LAST", "FIRST", "TIMES", "NAME", "RUN", "ERROR")


@redisbeater.command()
@click.option("--since", type=MOMENT, help="Only from this time on: 2h ago, 09:00, mon.")
@click.option("-n", "count", type=click.IntRange(1, MOST_FAILURES), default=20, show_default=True, help="How many.")
@click.option("--long", "is_long", is_flag=True, help="With whole ids; do not cut lines to the terminal.")
@as_json_lines
@times
@command
def failures(app: Celery, *, since: Moment | None, count: int, is_long: bool, as_json: bool, times: Times) -> None:
    """Show the newest failures of the schedule.

    Those of one entry by one error are one line, the newest first. RUN is the newest run of each, as the command run
    takes it. The newest 1,000 failures are known, and of each entry those runs that are kept.

    \b
    Examples:
      celery -A proj redisbeater failures --since "2h ago"
      celery -A proj redisbeater failures -n 5 --json | jq -r .error
    """
    check_tracked(Context.of(app))
    view = times.view(is_long=is_long)
    found = ScheduleStore(app).runs.failures(since=since and since.read(view.now, view.zone, is_past=True))
    if as_json:
        print_lines(printable_json(group.as_dict()) for group in found.groups[:count])
        return
    rows = [
        (
            _clock(group.last, view, view.zone),
            _clock(group.first, view, view.zone),
            f"{len(group.runs):,}",
            group.name,
            group.runs[0] if is_long else group.runs[0][:LEAST_BEGIN],
            group.error or group.state.value,
        )
        for group in found.groups[:count]
    ]
    print_lines(aligned((_FAILURES, *rows), view.width) if rows else ["no failure is known of that time"])
    if len(found) > count:
        click.echo(f"{len(found) - count:,} more; -n shows them")
    if found.begin:
        click.echo(f"the list begins at {_clock(found.begin, view, view.zone)}; it has the newest {MOST_FAILURES:,}")
