"""The command that sends runs of entries at once, and waits for their ends: trigger."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import click
from celery import Celery

from redisbeater.cli.changing import for_each, selection
from redisbeater.cli.group import BadInput, as_json, command, redisbeater
from redisbeater.cli.options import authored
from redisbeater.cli.runs import OVERLAP
from redisbeater.cli.terminal import is_terminal
from redisbeater.cli.why import read_past, zone_of
from redisbeater.context import Context
from redisbeater.display import printable_json, quoted, shown
from redisbeater.exceptions import SendFailed
from redisbeater.management.runs.history import check_tracked
from redisbeater.management.runs.words import end_words
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.model.json_text import unique
from redisbeater.model.policies import OverlapWord
from redisbeater.model.run import Run, State
from redisbeater.times import read_duration, span_words

__all__ = ("trigger",)

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
        scheduled_for = None if at is None else read_past(at, context.redis.clock()[0], zone_of(app, name))
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
        words = end_words(found, context.redis.clock()[0])
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
    """Return the seconds of ``--wait``; None: however long it takes."""
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
