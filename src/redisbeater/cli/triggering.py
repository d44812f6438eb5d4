"""The command that sends runs of entries at once: trigger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
from celery import Celery

from redisbeater.cli.changing import for_each, selection
from redisbeater.cli.group import BadInput, as_json, command, redisbeater
from redisbeater.cli.why import read_past, zone_of
from redisbeater.context import Context
from redisbeater.display import printable_json
from redisbeater.exceptions import SendFailed
from redisbeater.management.schedule_store import ScheduleStore

__all__ = ("trigger",)


@redisbeater.command()
@click.option("--args", "args_text", metavar="JSON", help="Arguments for this run instead of the entry's, a list.")
@click.option("--kwargs", "kwargs_text", metavar="JSON", help="Keyword arguments for this run, an object.")
@click.option("--at", "at", metavar="TIME", help="The fire time in the header of the run; default: now.")
@click.option("--note", default="", help="Why, for the log of the entry.")
@click.option("--by", default="", help="Who, for the log. Default: user@host.")
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
    note: str,
    by: str,
    as_json: bool,
) -> None:
    """Send a run of each entry now, whether it is enabled or not. Next runs and counters stay as they are.

    \b
    Examples:
      celery -A proj redisbeater trigger report
      celery -A proj redisbeater trigger report --kwargs '{"pages": 5}' --note "for the board"
      celery -A proj redisbeater trigger report --at "yesterday 09:00"
    """
    store, args, kwargs = ScheduleStore(app), _list(args_text), _object(kwargs_text)

    def send(name: str) -> str:
        scheduled_for = None if at is None else read_past(at, Context.of(app).redis.clock()[0], zone_of(app, name))
        try:
            return store.trigger(name, args=args, kwargs=kwargs, scheduled_for=scheduled_for, by=by, note=note)
        except SendFailed as exc:
            raise click.ClickException(str(exc)) from exc

    if as_json:
        for_each(app, names, lambda name: printable_json({"name": name, "id": send(name)}), shows_name=False)
    else:
        for_each(app, names, lambda name: f"triggered, task id {send(name)}")


def _list(text: str | None) -> list[Any] | None:
    value = _json("--args", text)
    if text is not None and not isinstance(value, list):
        raise BadInput(f"--args: expected a JSON list such as '[1, \"a\"]', got {text!r}")
    return value


def _object(text: str | None) -> dict[str, Any] | None:
    value = _json("--kwargs", text)
    if text is not None and not isinstance(value, dict):
        raise BadInput(f"--kwargs: expected a JSON object such as '{{\"pages\": 3}}', got {text!r}")
    return value


def _json(option: str, text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise BadInput(f"{option}: expected JSON; {exc}") from exc
