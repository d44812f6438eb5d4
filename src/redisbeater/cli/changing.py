"""The commands that change entries: enable, disable, delete, adopt."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click
from celery import Celery

from redisbeater.beat.applications import adopt as adopt_statics
from redisbeater.cli.completion import NAMES
from redisbeater.cli.group import BadInput, command, error_text, redisbeater, view_of
from redisbeater.cli.listing import rows
from redisbeater.cli.terminal import with_progress
from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.editing.deletion import COMES_BACK
from redisbeater.exceptions import RedisBeaterError, StoreError
from redisbeater.management.listing import Filter
from redisbeater.management.many import Outcome
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.schedules.datetime_codec import read_zone
from redisbeater.time_words import clock_words, relative_words

__all__ = ("adopt", "confirm", "delete", "disable", "enable", "for_each", "selection")

#: How many names are shown before a change of many entries is confirmed.
SHOWN_NAMES = 5

#: Of more entries than this not each one gets a line.
MOST_LINES = 1000


def selection(function: Callable[..., None]) -> Callable[..., None]:
    """Let a command take names, or a filter that selects entries; call it with the app, the names and its own options.

    A filter that selects several entries is confirmed, unless ``--yes`` is passed.
    """

    @functools.wraps(function)
    def run(
        app: Celery,
        *,
        names: Sequence[str],
        prefix: str,
        task: str,
        queue: str,
        is_all: bool,
        yes: bool,
        **options: Any,
    ) -> None:
        has_filter = bool(prefix or task or queue or is_all)
        if bool(names) == has_filter:
            raise BadInput("expected names, or one of --prefix, --task, --queue and --all")
        if has_filter:
            wanted = Filter(prefix=prefix, task=task or None, queue=queue or None)
            names = [row.name for row in rows(Context.of(app), wanted) if row.fields or row.definition]
            confirm(function.__name__, names, yes)
        function(app, names, **options)

    for option in (
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--all", "is_all", is_flag=True, help="All entries."),
        click.option("--queue", default="", help="All entries whose options name this queue."),
        click.option("--task", default="", help="All entries of this task."),
        click.option("--prefix", default="", help="All entries whose name begins with this text."),
        NAMES,
    ):
        run = option(run)
    return run


def confirm(verb: str, names: Sequence[str], yes: bool) -> None:
    """Show what a filter has selected, and ask; without a terminal nobody can answer."""
    if not names:
        raise BadInput("no entry is selected")
    more = f" and {len(names) - SHOWN_NAMES:,} more" if len(names) > SHOWN_NAMES else ""
    what = f"{verb} {len(names):,} entries: {', '.join(map(shown, names[:SHOWN_NAMES]))}{more}"
    if yes or len(names) == 1:
        return
    if not sys.stdin.isatty():
        raise BadInput(f"this would {what}; pass --yes to do it")
    click.confirm(f"{what}?", abort=True)


def for_each(app: Celery, names: Sequence[str], change: Callable[[str], str], *, shows_name: bool = True) -> None:
    """Change each entry and print what was done; go on after one that cannot be changed, and end with exit code 2.

    Arguments:
        app: the app whose schedule it is.
        names: the names of the entries.
        change: changes one of them, and returns what is printed.
        shows_name: whether the name is printed in front of that.

    Raises:
        StoreError: Redis failed; the entries behind that one were not changed.
    """
    failed = False
    for name in names:
        try:
            click.echo(f"{shown(name)}: {change(name)}" if shows_name else change(name))
        except StoreError:
            raise
        except RedisBeaterError as exc:
            failed = True
            click.echo(f"Error: {error_text(app, exc)}", err=True)
    if failed:
        raise click.exceptions.Exit(BadInput.exit_code)


def _print_outcomes(
    app: Celery, done: str, outcomes: Iterable[Outcome], number: int, describe: Callable[[Outcome], str]
) -> None:
    """Print what became of each entry, of very many only how many were changed; end with exit code 2 if one was not.

    Raises:
        StoreError: Redis failed; the entries of the pages after that were not changed.
    """
    is_brief, changed, failed = number > MOST_LINES, 0, 0
    for outcome in with_progress(outcomes, done, number) if is_brief else outcomes:
        if isinstance(outcome.error, StoreError):
            raise outcome.error
        if outcome.error is not None:
            failed += 1
            click.echo(f"Error: {error_text(app, outcome.error)}", err=True)
            continue
        changed += 1
        if not is_brief:
            click.echo(f"{shown(outcome.name)}: {describe(outcome)}")
    if is_brief:
        click.echo(f"{changed:,} entries {done}{f', {failed:,} failed' if failed else ''}")
    if failed:
        raise click.exceptions.Exit(BadInput.exit_code)


@redisbeater.command()
@command
@click.option("--note", default="", help="Why, for the logs of the entries.")
@selection
def enable(app: Celery, names: Sequence[str], note: str) -> None:
    """Enable entries. They run again from their next fire time on.

    \b
    Examples:
      celery -A proj redisbeater enable report clean-up
      celery -A proj redisbeater enable --prefix customer-7-
    """
    view = view_of(Context.of(app), None, is_utc=False)

    def describe(outcome: Outcome) -> str:
        entry = outcome.entry
        if entry is None or entry.due_at is None:
            return "enabled, never runs: the entry has finished"
        local = entry.due_at.astimezone(read_zone(entry.timezone, "$.timezone") if entry.timezone else view.zone)
        return f"enabled, next run {clock_words(local, view.now)} {local:%Z}, {relative_words(local, view.now)}"

    _print_outcomes(app, "enabled", ScheduleStore(app).enable_many(names, note=note), len(names), describe)


@redisbeater.command()
@command
@click.option("--note", default="", help="Why, for the logs of the entries.")
@selection
def disable(app: Celery, names: Sequence[str], note: str) -> None:
    """Disable entries. They stay in the schedule, and run at the same times when enabled again.

    \b
    Examples:
      celery -A proj redisbeater disable report clean-up --note "until the printer works"
      celery -A proj redisbeater disable --task proj.tasks.report --yes
    """
    outcomes = ScheduleStore(app).disable_many(names, note=note)
    _print_outcomes(app, "disabled", outcomes, len(names), lambda _: "disabled")


@redisbeater.command()
@command
@click.option("--note", default="", help="Why, for the logs of the entries.")
@selection
def delete(app: Celery, names: Sequence[str], note: str) -> None:
    """Delete entries. A static entry comes back when a beat begins to lead; disable it instead.

    \b
    Examples:
      celery -A proj redisbeater delete report clean-up
      celery -A proj redisbeater delete --prefix customer-7-
    """
    outcomes = ScheduleStore(app).delete_many(names, note=note)
    _print_outcomes(
        app, "deleted", outcomes, len(names), lambda each: f"deleted; {COMES_BACK}" if each.is_static else "deleted"
    )


@redisbeater.command()
@click.argument("application")
@command
def adopt(app: Celery, application: str) -> None:
    """Take over the static entries of an application that had another name until now.

    What the code no longer declares of them is deleted when a beat begins to lead.

    Example: celery -A shop redisbeater adopt proj
    """
    context = Context.of(app)
    adopted, failures = adopt_statics(context, application)
    if not adopted and not failures:
        raise BadInput(f"no static entry belongs to application {application!r}")
    for name in adopted:
        click.echo(f"{shown(name)}: belongs to application {shown(repr(context.application))} now")
    for name, failure in failures.items():
        click.echo(f"Error: {shown(name)}: {shown(failure)}", err=True)
    if failures:
        raise click.exceptions.Exit(BadInput.exit_code)
