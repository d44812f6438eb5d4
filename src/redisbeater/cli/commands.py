"""The commands that show: list, show, upcoming, broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import click
from celery import Celery

from redisbeater.cli.details import details
from redisbeater.cli.group import as_json, command, print_lines, redisbeater, times, view_of
from redisbeater.cli.listing import Row, row_of, rows
from redisbeater.cli.options import labelled
from redisbeater.cli.table import View, aligned, head, table
from redisbeater.context import Context
from redisbeater.display import printable_json, shown
from redisbeater.editing.upcoming import MOST_RUNS, UpcomingRun
from redisbeater.entry import RedisScheduleEntry
from redisbeater.management.listing import Filter
from redisbeater.time_words import age_words, date_words, relative_words

__all__ = ("broken", "list_", "show", "upcoming")


@redisbeater.command("list")
@click.option("--prefix", default="", help="Show only entries whose name begins with this text.")
@click.option("--task", help="Show only entries of this task.")
@labelled
@click.option("--enabled/--disabled", default=None, help="Show only enabled or only disabled entries.")
@click.option("--state", type=click.Choice(["deleted"]), help="Show entries that were deleted and can be restored.")
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many.")
@click.option("--long", "is_long", is_flag=True, help="Do not cut lines to the width of the terminal.")
@click.option("--names", "names_only", is_flag=True, help="Print names only, one per line.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
@times
@command
def list_(
    app: Celery,
    *,
    prefix: str,
    task: str | None,
    labels: Mapping[str, str],
    enabled: bool | None,
    state: str | None,
    limit: int | None,
    is_long: bool,
    names_only: bool,
    as_json: bool,
    now: str | None,
    is_utc: bool,
) -> None:
    """List entries, in the order of their next runs.

    \b
    Examples:
      celery -A proj redisbeater list --prefix report --limit 20
      celery -A proj redisbeater list --task proj.tasks.report --disabled
      celery -A proj redisbeater list --json | jq -r 'select(.state == "broken") | .name'
    """
    context = Context.of(app)
    if state == "deleted":
        print_lines(_deleted_lines(context, prefix, limit, as_json=as_json, names_only=names_only))
        return
    found = rows(context, Filter(prefix=prefix, task=task, enabled=enabled, labels=labels), limit)
    if not found:
        click.echo(_nothing(context), err=as_json or names_only)
    elif as_json:
        print_lines(printable_json(row.as_dict()) for row in found)
    elif names_only:
        print_lines(shown(row.name, None) for row in found)
    else:
        print_lines(_listing(context, found, view_of(context, now, is_utc, is_long=is_long)))


def _deleted_lines(
    context: Context, prefix: str, limit: int | None, *, as_json: bool, names_only: bool
) -> Iterable[str]:
    """Return the lines about entries that can be restored, the newest first."""
    found = [item for item in context.redis.deleted.names().items() if item[0].startswith(prefix)][:limit]
    if names_only:
        return [shown(name, None) for name, _ in found]
    if as_json:
        return [
            printable_json({"name": name, "state": "deleted", "deleted_at": at.isoformat(timespec="seconds")})
            for name, at in found
        ]
    view = view_of(context, None, is_utc=False)
    lines = [(name, f"{age_words(at.astimezone(view.zone), view.now_in(view.zone))}") for name, at in found]
    return aligned([("NAME", "DELETED"), *lines]) if lines else ["no deleted entry can be restored"]


def _listing(context: Context, found: Sequence[Row], view: View) -> list[str]:
    total = context.redis.contents.count()
    return [head(found, view, total, is_led=_is_led(context)), *table(found, view)]


def _nothing(context: Context) -> str:
    """Return where there is no entry: often it is the wrong database, prefix or app."""
    total = context.redis.contents.count()
    if total:
        return f"none of {total:,} entries is selected"
    hint = "" if _is_led(context) else ", and no beat leads there"
    place = f"{context.config.url.address} below the prefix {context.redis.keys.prefix!r}"
    return f"no entries in {shown(place)}{hint}; redisbeater_redis_url and redisbeater_key_prefix say where to look"


def _is_led(context: Context) -> bool:
    return context.config.lock_key is None or bool(context.redis.leader())


@redisbeater.command()
@click.argument("name")
@as_json
@times
@command
def show(app: Celery, name: str, as_json: bool, now: str | None, is_utc: bool) -> None:
    """Show all details of one entry.

    Example: celery -A proj redisbeater show report --json
    """
    context = Context.of(app)
    row = row_of(context, name)
    if as_json:
        click.echo(printable_json(row.details(), indent=2))
    else:
        print_lines(details(row, view_of(context, now, is_utc)))


@redisbeater.command()
@click.argument("name")
@click.option("-n", "count", default=5, show_default=True, type=click.IntRange(1, MOST_RUNS), help="Number of runs.")
@as_json
@times
@command
def upcoming(app: Celery, name: str, count: int, as_json: bool, now: str | None, is_utc: bool) -> None:
    """Show the next runs of an entry, in UTC and in its time zone, with the effects of jitter and clock changes.

    Example: celery -A proj redisbeater upcoming report -n 20
    """
    runs = RedisScheduleEntry(name, app=app).upcoming(count)
    if as_json:
        click.echo(printable_json([run.as_dict() for run in runs], indent=2))
    else:
        print_lines(_run_lines(runs, view_of(Context.of(app), now, is_utc)))


def _run_lines(runs: Sequence[UpcomingRun], view: View) -> list[str]:
    if not runs:
        return ["none: the entry is disabled or has finished"]
    lines = [("FIRE TIME (UTC)", "LOCAL", "IN", "SENT", "NOTE"), *(_run_line(run, view) for run in runs)]
    used = [place for place in range(5) if place < 3 or any(line[place] for line in lines[1:])]
    return aligned([[line[place] for place in used] for line in lines], view.width)


def _run_line(run: UpcomingRun, view: View) -> tuple[str, str, str, str, str]:
    local = run.fire_time if view.is_utc else run.local
    delay = "" if run.due_at == run.fire_time else f"{(run.due_at - run.fire_time).total_seconds():.1f} s later"
    return (
        f"{run.fire_time:%Y-%m-%d %H:%M:%S}",
        f"{date_words(local)} {local:%H:%M:%S %Z}",
        relative_words(run.fire_time, view.now).removeprefix("in "),
        delay,
        run.note,
    )


@redisbeater.command()
@as_json
@command
def broken(app: Celery, as_json: bool) -> None:
    """List quarantined entries, which cannot be read or planned, with the reasons.

    Example: celery -A proj redisbeater broken --json
    """
    reports = Context.of(app).redis.broken.reports()
    if as_json:
        click.echo(printable_json(reports, indent=2))
    else:
        print_lines(_report_lines(reports) or ["nothing is broken"])


def _report_lines(reports: Mapping[str, Mapping[str, str]]) -> list[str]:
    return [
        f"{shown(name)}: {shown(report['reason'])} (since {shown(report['since'])})"
        for name, report in sorted(reports.items())
    ]
