"""The commands about runs: trigger, backfill, stop and restart."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any

import click
from celery import Celery
from celery.utils.time import rate as runs_per_second

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.changing import for_each, selection
from redisbeater.cli.group import (
    DURATION,
    MOMENT,
    NAME,
    RUNS,
    Moment,
    Times,
    as_json,
    authored,
    command,
    error_text,
    json_of,
    times,
)
from redisbeater.cli.table import View
from redisbeater.cli.terminal import Progress, is_screen
from redisbeater.cli.upcoming import zone_of
from redisbeater.clock import host_seconds
from redisbeater.context import Context
from redisbeater.display import printable_json, shown
from redisbeater.exceptions import RedisBeaterError, RunActive, SendFailed, StoreError
from redisbeater.management.runs.backfill import Backfill
from redisbeater.management.runs.history import check_tracked, end_words
from redisbeater.management.runs.room import Runs
from redisbeater.management.runs.stop import Stopped
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.management.verbs import Verb
from redisbeater.model.policies import Overlap, OverlapWord
from redisbeater.model.run import Run, State
from redisbeater.times import clock_words, span_words

OVERLAP = click.option(
    "--overlap", type=click.Choice([*map(str, Overlap)]), help="While another run is active; default: the entry's own."
)


def of_runs(change: Callable[..., Stopped | str]) -> Callable[..., None]:
    """Let a command take the ids of runs, change each by a function of the store, and print what it returns.

    It goes on after a run that cannot be changed, and ends with the worst exit code: 1 for one that goes on.

    Raises:
        StoreError: Redis failed; the runs behind that one were not changed.
    """

    @functools.wraps(change)
    def run(app: Celery, run_ids: Sequence[str], *, as_json: bool, **options: Any) -> None:
        if not run_ids:
            raise BadInput("expected the ids of runs; history NAME --long shows them")
        runs, worst = ScheduleStore(app).runs, 0
        for run_id in run_ids:
            try:
                run_id = runs.get(run_id).id
                found = change(runs, run_id, **options)
            except StoreError:
                raise
            except RedisBeaterError as exc:
                worst = max(worst, 1 if isinstance(exc, (RunActive, SendFailed)) else BadInput.exit_code)
                click.echo(f"Error: {error_text(app, exc)}", err=True)
                continue
            if isinstance(found, str):
                answer, words = {"id": found, "restart_of": run_id}, f"restarted, task id {found}"
            else:
                answer, words = found.as_dict(), shown(found.sentence, None)
                worst = max(worst, 1 if found.outcome == "CANNOT" else 0)
            click.echo(printable_json(answer) if as_json else f"{shown(run_id)}: {words}")
        if worst:
            raise click.exceptions.Exit(worst)

    return RUNS(authored(as_json(command(run))))


@redisbeater.command()
@of_runs
def stop(runs: Runs, run_id: str, *, note: str, by: str) -> Stopped:
    """Stop runs by their ids. Exit code 1: one of them goes on, as its worker cannot end it, or had ended before.

    REVOKED: it was ended, or never begins. ASKED: it was asked to, and has not ended within 2 seconds, or ended by
    itself. CANNOT: its worker cannot end it; its task may ask redisbeater.runs.stop_requested().

    \b
    Examples:
      celery -A proj redisbeater stop 5f0c9a1e-3f50-4a9e-9be3-0a3b0c2f8d11 --note "wrong month"
      celery -A proj redisbeater history report --long --state STARTED
    """
    return runs.stop(run_id, by=by, note=note)


@redisbeater.command()
@OVERLAP
@of_runs
def restart(runs: Runs, run_id: str, *, overlap: OverlapWord | None, note: str, by: str) -> str:
    """Send ended runs again, with the same task and arguments.

    Each is a new run. Task and arguments of a run that has succeeded are its entry's, unless that was changed since.

    \b
    Examples:
      celery -A proj redisbeater restart 5f0c9a1e-3f50-4a9e-9be3-0a3b0c2f8d11
      celery -A proj redisbeater restart 5f0c9a1e-3f50-4a9e-9be3-0a3b0c2f8d11 --overlap allow --note "feed is back"
    """
    return runs.restart(run_id, overlap=overlap, by=by, note=note)


def command_of(verb: Verb) -> click.Command:
    """Return the command of a verb that says no more than what became of each run."""
    return click.command(verb.name, help=f"{verb.label} runs by their ids. {verb.about}")(of_runs(verb.one))


#: The value of ``--wait`` without a duration.
FOR_EVER = timedelta.max


@redisbeater.command()
@click.option(
    "--args",
    type=json_of(list, "a JSON list such as '[1, \"a\"]'"),
    help="Arguments for this run instead of the entry's, a list.",
)
@click.option(
    "--kwargs",
    type=json_of(dict, "a JSON object such as '{\"pages\": 3}'"),
    help="Keyword arguments for this run, an object.",
)
@click.option("--at", type=MOMENT, help="The fire time in the header of the run; default: now.")
@OVERLAP
@click.option(
    "--task-id", help="The id of the run: the same command within 24 hours sends nothing if the run was sent."
)
@click.option(
    "--wait",
    is_flag=False,
    flag_value=FOR_EVER,
    type=DURATION,
    metavar="[DURATION]",
    help="Wait for the end of each run, for this long at most.",
)
@authored
@as_json
@command
@selection
def trigger(
    app: Celery,
    names: Sequence[str],
    *,
    args: list[Any] | None,
    kwargs: dict[str, Any] | None,
    at: Moment | None,
    overlap: OverlapWord | None,
    task_id: str | None,
    wait: timedelta | None,
    note: str,
    by: str,
    as_json: bool,
) -> None:
    """Send a run of each entry now, whether it is enabled or not. Next runs and counters stay as they are.

    With --wait the exit code is 0 when each run has ended with SUCCESS, else 1. Exit code 1 also: another run of the
    entry is active, and its overlap allows no other.

    \b
    Examples:
      celery -A proj redisbeater trigger report
      celery -A proj redisbeater trigger report --kwargs '{"pages": 5}' --note "for the board"
      celery -A proj redisbeater trigger report --at "yesterday 09:00"
      celery -A proj redisbeater trigger report --overlap skip --wait 10m
      celery -A proj redisbeater trigger report --task-id order-4711
    """
    if task_id is not None and len(names) > 1:
        raise BadInput(f"--task-id is the id of one run, and {len(names):,} entries are named; name one")
    context, store = Context.of(app), ScheduleStore(app)
    if wait is not None:
        check_tracked(context)
    ids: dict[str, str] = {}

    def send(name: str) -> str:
        scheduled_for = None if at is None else at.read(store.now(), zone_of(app, name), is_past=True)
        try:
            ids[name] = store.trigger(
                name,
                args=args,
                kwargs=kwargs,
                scheduled_for=scheduled_for,
                overlap=overlap,
                task_id=task_id,
                by=by,
                note=note,
            )
        except SendFailed as exc:
            raise click.ClickException(str(exc)) from exc
        return ids[name]

    def trigger_one(name: str) -> tuple[str, Mapping[str, Any]] | None:
        run_id = send(name)
        is_said_later = as_json and wait is not None
        return None if is_said_later else (f"triggered, task id {run_id}", {"id": run_id})

    for_each(app, names, trigger_one, as_json=as_json)
    if wait is not None:
        _wait(store, ids, wait, context, as_json=as_json)


def _wait(store: ScheduleStore, ids: Mapping[str, str], wait: timedelta, context: Context, *, as_json: bool) -> None:
    """Wait for the end of each run, print it, and end with exit code 1 if one has not ended well."""
    until, is_well = host_seconds() + wait.total_seconds(), True
    for name, run_id in ids.items():
        progress = _Progress(name)
        left = None if until is None else max(until - host_seconds(), 0.0)
        found = store.runs.wait(run_id, left, progress)
        progress.end()
        is_well = is_well and found.state is State.SUCCESS
        if as_json:
            click.echo(printable_json(found.as_dict()))
            continue
        words = end_words(found, store.now())
        more = "" if found.is_final else f", and has not ended after {span_words(wait)}"
        click.echo(f"{shown(name)}: {shown(words, None)}{more}")
    if not is_well:
        raise click.exceptions.Exit(1)


class _Progress:
    """Shows the state of a run that is waited for, in one line of standard error, where that is a screen."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._since = time.monotonic()

    def __call__(self, found: Run) -> None:
        """Show the state of the run and how long it is waited for."""
        if is_screen(sys.stderr):
            waited = span_words(timedelta(seconds=time.monotonic() - self._since))
            where = f" on {shown(found.worker)}" if found.worker else ""
            click.echo(f"\r\x1b[K{shown(self._name)}: {found.state}{where}, {waited}", nl=False, err=True)

    def end(self) -> None:
        """Clear the line."""
        if is_screen(sys.stderr):
            click.echo("\r\x1b[K", nl=False, err=True)


@redisbeater.command()
@NAME
@click.option("--from", "start", type=MOMENT, required=True, help="The first time: mon 00:00, 2026-11-20.")
@click.option("--to", "end", type=MOMENT, required=True, help="The last time, included: now, yesterday 12:00.")
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
    start: Moment,
    end: Moment,
    rate_text: str | None,
    overlap: OverlapWord | None,
    yes: bool,
    note: str,
    by: str,
    as_json: bool,
    times: Times,
) -> None:
    """Send the runs that are missing in a span of the past.

    A run is missing at each fire time of which none has succeeded. Without --yes it only shows which.

    \b
    Examples:
      celery -A proj redisbeater backfill report --from "mon 00:00" --to now
      celery -A proj redisbeater backfill report --from 2026-11-01 --to 2026-11-08 --rate 10/s --yes
    """
    rate, zone = _rate(rate_text), zone_of(app, name)
    view = times.view()
    first, last = start.read(view.now, zone, is_past=True), end.read(view.now, zone, is_past=True)
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
