"""The commands that change entries: enable, disable, delete, adopt."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click
from celery import Celery

from redisbeater.beat.applications import adopt as adopt_statics
from redisbeater.cli.group import BadInput, command, error_text, redisbeater, view_of
from redisbeater.cli.listing import rows
from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.editing.author import Author
from redisbeater.editing.deletion import COMES_BACK, delete_entry
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import EntryNotFound, RedisBeaterError, StoreError
from redisbeater.management.listing import Filter
from redisbeater.schedules.datetime_codec import read_zone
from redisbeater.time_words import clock_words, relative_words

__all__ = ("adopt", "confirm", "delete", "disable", "enable", "for_each", "selection")

#: How many names are shown before a change of many entries is confirmed.
SHOWN_NAMES = 5


def selection(function: Callable[..., None]) -> Callable[..., None]:
    """Let a command take names, or a filter that selects entries; call it with the app, the names and its own options.

    A filter that selects several entries is confirmed, unless ``--yes`` is passed.
    """

    @functools.wraps(function)
    def run(
        app: Celery, *, names: Sequence[str], prefix: str, task: str, is_all: bool, yes: bool, **options: Any
    ) -> None:
        has_filter = bool(prefix or task or is_all)
        if bool(names) == has_filter:
            raise BadInput("expected names, or one of --prefix, --task and --all")
        if has_filter:
            wanted = Filter(prefix=prefix, task=task or None)
            names = [row.name for row in rows(Context.of(app), wanted) if row.fields or row.definition]
            confirm(function.__name__, names, yes)
        function(app, names, **options)

    for option in (
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--all", "is_all", is_flag=True, help="All entries."),
        click.option("--task", default="", help="All entries of this task."),
        click.option("--prefix", default="", help="All entries whose name begins with this text."),
        click.argument("names", nargs=-1, metavar="NAME..."),
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
        StoreError: Redis failed; the entries after that one were not changed.
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


@redisbeater.command()
@command
@selection
def enable(app: Celery, names: Sequence[str]) -> None:
    """Enable entries. They run again from their next fire time on.

    \b
    Examples:
      celery -A proj redisbeater enable report clean-up
      celery -A proj redisbeater enable --prefix customer-7-
    """
    view = view_of(Context.of(app), None, is_utc=False)

    def change(name: str) -> str:
        entry = RedisScheduleEntry(name, app=app).enable()
        if entry.due_at is None:
            return "enabled, never runs: the entry has finished"
        local = entry.due_at.astimezone(read_zone(entry.timezone, "$.timezone") if entry.timezone else view.zone)
        return f"enabled, next run {clock_words(local, view.now)} {local:%Z}, {relative_words(local, view.now)}"

    for_each(app, names, change)


@redisbeater.command()
@command
@selection
def disable(app: Celery, names: Sequence[str]) -> None:
    """Disable entries. They stay in the schedule, and run at the same times when enabled again.

    \b
    Examples:
      celery -A proj redisbeater disable report clean-up
      celery -A proj redisbeater disable --task proj.tasks.report --yes
    """

    def change(name: str) -> str:
        RedisScheduleEntry(name, app=app).disable()
        return "disabled"

    for_each(app, names, change)


@redisbeater.command()
@command
@selection
def delete(app: Celery, names: Sequence[str]) -> None:
    """Delete entries. A static entry comes back when a beat begins to lead; disable it instead.

    \b
    Examples:
      celery -A proj redisbeater delete report clean-up
      celery -A proj redisbeater delete --prefix customer-7-
    """

    def change(name: str) -> str:
        outcome = delete_entry(Context.of(app), name, Author.of())
        if outcome is None:
            raise EntryNotFound(name)
        return f"deleted; {COMES_BACK}" if outcome.is_static else "deleted"

    for_each(app, names, change)


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
