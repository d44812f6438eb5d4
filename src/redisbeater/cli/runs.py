"""The commands about runs: trigger, backfill, stop and restart."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any

import click
from celery import Celery
from celery.utils.time import rate as runs_per_second

from redisbeater.cli.changing import for_each, selection
from redisbeater.cli.group import (
    NAME,
    RUNS,
    BadInput,
    as_json,
    authored,
    command,
    error_text,
    redisbeater,
    times,
    view_of,
)
from redisbeater.cli.table import View
from redisbeater.cli.terminal import Progress, is_terminal
from redisbeater.cli.upcoming import read_past, zone_of
from redisbeater.context import Context
from redisbeater.display import printable_json, quoted, shown
from redisbeater.exceptions import RedisBeaterError, RunActive, SendFailed, StoreError
from redisbeater.management.runs.backfill import Backfill
from redisbeater.management.runs.history import check_tracked, end_words
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.model.json_text import unique
from redisbeater.model.policies import Overlap, OverlapWord
from redisbeater.model.run import Run, State
from redisbeater.times import clock_words, read_duration, read_time, span_words

OVERLAP = click.option(
    "--overlap", type=click.Choice([*map(str, Overlap)]), help="While another run is active; default: the entry's own."
)


@redisbeater.command()
@RUNS
@authored
@as_json
@command
def stop(app: Celery, run_ids: Sequence[str], *, note: str, by: str, as_json: bool) -> None:
    """Stop runs by their ids. Exit code 1: one of them goes on, as its worker cannot end it, or had ended before.

    REVOKED: it was ended, or never begins. ASKED: it was asked to, and has not ended within 2 seconds, or ended by
    itself. CANNOT: its worker cannot end it; its task may ask redisbeater.runs.stop_requested().

    \b
    Examples:
      celery -A proj redisbeater stop 5f0c9a1e-3f50-4a9e-9be3-0a3b0c2f8d11 --note "wrong month"
      celery -A proj redisbeater history report --long --state STARTED
    """
    store = ScheduleStore(app)

    def change(run_id: str) -> bool:
        found = store.stop(run_id, by=by, note=note)
        click.echo(printable_json(found.as_dict()) if as_json else f"{shown(run_id)}: {shown(found.sentence, None)}")
        return found.outcome != "CANNOT"

    _for_each(app, run_ids, change)


@redisbeater.command()
@RUNS
@OVERLAP
@authored
@as_json
@command
def restart(
    app: Celery, run_ids: Sequence[str], *, overlap: OverlapWord | None, note: str, by: str, as_json: bool
) -> None:
    """Send runs that have ended without success again, as new runs with the same task and arguments.

    \b
    Examples:
      celery -A proj redisbeater restart 5f0c9a1e-3f50-4a9e-9be3-0a3b0c2f8d11
      celery -A proj redisbeater restart 5f0c9a1e-3f50-4a9e-9be3-0a3b0c2f8d11 --overlap allow --note "feed is back"
    """
    store = ScheduleStore(app)

    def change(run_id: str) -> bool:
        new_id = store.restart(run_id, overlap=overlap, by=by, note=note)
        answer = {"id": new_id, "restart_of": run_id}
        click.echo(printable_json(answer) if as_json else f"{shown(run_id)}: restarted, task id {new_id}")
        return True

    _for_each(app, run_ids, change)


def _for_each(app: Celery, run_ids: Sequence[str], change: Callable[[str], bool]) -> None:
    """Change each run, go on after one that cannot be changed, and end with the worst exit code.

    Raises:
        StoreError: Redis failed; the runs behind that one were not changed.
    """
    if not run_ids:
        raise BadInput("expected the ids of runs; history NAME --long shows them")
    worst = 0
    for run_id in run_ids:
        try:
            worst = max(worst, 0 if change(run_id) else 1)
        except StoreError:
            raise
        except RedisBeaterError as exc:
            worst = max(worst, 1 if isinstance(exc, (RunActive, SendFailed)) else BadInput.exit_code)
            click.echo(f"Error: {error_text(app, exc)}", err=True)
    if worst:
        raise click.exceptions.Exit(worst)


#: The value of ``--wait`` without a duration.
FOR_EVER = "for ever"


@redisbeater.command()
@click.option("--args", "args_text", metavar="JSON", help="Arguments for this run instead of the entry's, a list.")
@click.option("--kwargs", "kwargs_text", metavar="JSON", help="Keyword arguments for this run, an object.")
@click.option("--at", "at", metavar="TIME", help="The fire time in the header of the run; default: now.")
@OVERLAP
@click.option(
    "--wait",
    is_flag=False,
    flag_value=FOR_EVER,
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
    args_text: str | None,
    kwargs_text: str | None,
    at: str | None,
    overlap: OverlapWord | None,
    wait: str | None,
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
    """
    context, store, args, kwargs = Context.of(app), ScheduleStore(app), _list(args_text), _object(kwargs_text)
    seconds = _duration(wait)
    if wait is not None:
        check_tracked(context)
    ids: dict[str, str] = {}

    def send(name: str) -> str:
        scheduled_for = None if at is None else read_past(at, store.clock(), zone_of(app, name))
        try:
            ids[name] = store.trigger(
                name, args=args, kwargs=kwargs, scheduled_for=scheduled_for, overlap=overlap, by=by, note=note
            )
        except SendFailed as exc:
            raise click.ClickException(str(exc)) from exc
        return ids[name]

    def words(name: str) -> str:
        run_id = send(name)
        if not as_json:
            return f"triggered, task id {run_id}"
        return "" if wait is not None else printable_json({"name": name, "id": run_id})

    for_each(app, names, words, shows_name=not as_json)
    if wait is not None:
        _wait(store, ids, seconds, context, as_json=as_json)


def _wait(
    store: ScheduleStore, ids: Mapping[str, str], seconds: float | None, context: Context, *, as_json: bool
) -> None:
    """Wait for the end of each run, print it, and end with exit code 1 if one has not ended well."""
    until, is_well = None if seconds is None else time.monotonic() + seconds, True
    for name, run_id in ids.items():
        progress = _Progress(name)
        left = None if until is None else max(until - time.monotonic(), 0.0)
        found = store.wait(run_id, left, progress)
        progress.end()
        is_well = is_well and found.state is State.SUCCESS
        if as_json:
            click.echo(printable_json(found.as_dict()))
            continue
        words = end_words(found, store.clock())
        more = "" if found.is_final else f", and has not ended after {span_words(timedelta(seconds=seconds or 0))}"
        click.echo(f"{shown(name)}: {shown(words, None)}{more}")
    if not is_well:
        raise click.exceptions.Exit(1)


class _Progress:
    """Shows the state of a run that is waited for, in one line of standard error, where that is a terminal."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._since = time.monotonic()

    def __call__(self, found: Run) -> None:
        """Show the state of the run and how long it is waited for."""
        if is_terminal(sys.stderr):
            waited = span_words(timedelta(seconds=time.monotonic() - self._since))
            where = f" on {shown(found.worker)}" if found.worker else ""
            click.echo(f"\r\x1b[K{shown(self._name)}: {found.state}{where}, {waited}", nl=False, err=True)

    def end(self) -> None:
        """Clear the line."""
        if is_terminal(sys.stderr):
            click.echo("\r\x1b[K", nl=False, err=True)


def _duration(text: str | None) -> float | None:
    """Return the seconds of ``--wait``, or None for no limit."""
    if text is None or text == FOR_EVER:
        return None
    try:
        return read_duration(text).total_seconds()
    except ValueError as exc:
        raise BadInput(f"--wait {exc}") from exc


def _list(text: str | None) -> list[Any] | None:
    value = _json("--args", text)
    if text is not None and not isinstance(value, list):
        raise BadInput(f"--args: expected a JSON list such as '[1, \"a\"]', got {quoted(text)}")
    return value


def _object(text: str | None) -> dict[str, Any] | None:
    value = _json("--kwargs", text)
    if text is not None and not isinstance(value, dict):
        raise BadInput(f"--kwargs: expected a JSON object such as '{{\"pages\": 3}}', got {quoted(text)}")
    return value


def _json(option: str, text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as exc:
        raise BadInput(f"{option}: expected JSON; {exc}") from exc


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
    view = view_of(app, now, is_utc)
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
