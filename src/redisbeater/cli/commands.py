"""The commands: list, show, upcoming, enable, disable, delete, broken."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
from celery import Celery
from celery.bin.base import handle_preload_options

from redisbeater.cli.listing import Row, row_of, rows, table
from redisbeater.context import Context
from redisbeater.display import printable_json, shown
from redisbeater.editing.upcoming import MOST_RUNS, UpcomingRun
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import EntryNotFound, RedisBeaterError, StoreError
from redisbeater.management.listing import Filter

__all__ = ("redisbeater",)

#: Characters of an error: one about a setting may list them all.
MOST_ERROR = 2000

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_names = click.argument("names", nargs=-1, required=True, metavar="NAME...")


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Pass the app to a command, and print its errors in one line. Exit code 2: bad input; 1: Redis failed."""

    @click.pass_context
    @functools.wraps(function)
    def run(ctx: click.Context, /, *args: Any, **kwargs: Any) -> None:
        try:
            function(ctx.obj.app, *args, **kwargs)
        except RedisBeaterError as exc:
            kind = click.ClickException if isinstance(exc, StoreError) else _BadInput
            raise kind(shown(exc, MOST_ERROR)) from exc

    return run


class _BadInput(click.ClickException):
    exit_code = 2


@click.group()
@click.pass_context
@handle_preload_options
def redisbeater(ctx: click.Context, **_: Any) -> None:
    """Show the schedule in Redis, and change it while beat runs."""


@redisbeater.command("list")
@click.option("--prefix", default="", help="Show only entries whose name begins with this text.")
@click.option("--task", help="Show only entries of this task.")
@click.option("--enabled/--disabled", default=None, help="Show only enabled or only disabled entries.")
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
@_command
def list_(app: Celery, prefix: str, task: str | None, enabled: bool | None, limit: int | None, as_json: bool) -> None:
    """List entries, in the order of their next runs.

    \b
    Examples:
      celery -A proj redisbeater list --prefix report --limit 20
      celery -A proj redisbeater list --task proj.tasks.report --disabled
      celery -A proj redisbeater list --json | jq -r 'select(.state == "broken") | .name'
    """
    found = rows(Context.of(app), Filter(prefix=prefix, task=task, enabled=enabled), limit)
    _print([printable_json(row.as_dict()) for row in found] if as_json else table(found))


@redisbeater.command()
@click.argument("name")
@_as_json
@_command
def show(app: Celery, name: str, as_json: bool) -> None:
    """Show all details of one entry.

    Example: celery -A proj redisbeater show report --json
    """
    context = Context.of(app)
    row = row_of(context, name)
    _print([printable_json(row.details(), indent=2)] if as_json else _lines(row))


@redisbeater.command()
@click.argument("name")
@click.option("-n", "count", default=5, show_default=True, type=click.IntRange(1, MOST_RUNS), help="Number of runs.")
@_as_json
@_command
def upcoming(app: Celery, name: str, count: int, as_json: bool) -> None:
    """Show the next runs of an entry, in UTC and in its time zone, with the effects of jitter and clock changes.

    Example: celery -A proj redisbeater upcoming report -n 20
    """
    runs = RedisScheduleEntry(name, app=app).upcoming(count)
    _print([printable_json([run.as_dict() for run in runs], indent=2)] if as_json else _run_lines(runs))


@redisbeater.command()
@_names
@_command
def enable(app: Celery, names: Sequence[str]) -> None:
    """Enable entries. They run again from their next fire time on.

    Example: celery -A proj redisbeater enable report
    """
    for name in names:
        entry = RedisScheduleEntry(name, app=app).enable()
        due = entry.due_at.isoformat() if entry.due_at else "never: the entry has finished"
        click.echo(f"{shown(name)}: enabled, next at {due}")


@redisbeater.command()
@_names
@_command
def disable(app: Celery, names: Sequence[str]) -> None:
    """Disable entries. They stay in the schedule, and run at the same times when enabled again.

    Example: celery -A proj redisbeater disable report clean-up
    """
    for name in names:
        RedisScheduleEntry(name, app=app).disable()
        click.echo(f"{shown(name)}: disabled")


@redisbeater.command()
@_names
@_command
def delete(app: Celery, names: Sequence[str]) -> None:
    """Delete entries. A static entry is created again when beat starts; disable it instead.

    Example: celery -A proj redisbeater delete report
    """
    for name in names:
        if not Context.of(app).redis.delete(name):
            raise EntryNotFound(name)
        click.echo(f"{shown(name)}: deleted")


@redisbeater.command()
@_as_json
@_command
def broken(app: Celery, as_json: bool) -> None:
    """List quarantined entries, which cannot be read or planned, with the reasons.

    Example: celery -A proj redisbeater broken --json
    """
    reports = Context.of(app).redis.broken.reports()
    _print([printable_json(reports, indent=2)] if as_json else _report_lines(reports))


def _run_lines(runs: Sequence[UpcomingRun]) -> list[str]:
    lines = [" | ".join(shown(value) for value in run.as_dict().values() if value) for run in runs]
    return lines or ["none: the entry is disabled or has finished"]


def _lines(row: Row) -> list[str]:
    details = row.details().items()
    return [f"{field:<12} {shown(value, limit=None)}" for field, value in details if value or field == "runs"]


def _report_lines(reports: Mapping[str, Mapping[str, str]]) -> list[str]:
    return [
        f"{shown(name)}: {shown(report['reason'])} (since {shown(report['since'])})"
        for name, report in sorted(reports.items())
    ]


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)
