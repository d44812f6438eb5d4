"""The commands that give entries other names, and bring deleted ones back: rename and restore."""

from __future__ import annotations

from collections.abc import Sequence

import click
from celery import Celery

from redisbeater.cli.changing import for_each
from redisbeater.cli.completion import NAME
from redisbeater.cli.group import command, redisbeater
from redisbeater.cli.options import authored
from redisbeater.display import shown
from redisbeater.entry_name import check_stored_name
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.schedule_store import ScheduleStore

__all__ = ("rename", "restore")


@redisbeater.command()
@NAME
@click.argument("new")
@authored
@command
def rename(app: Celery, name: str, new: str, note: str, by: str) -> None:
    """Rename an entry. It keeps its counters and its log; its task ids, its jitter and H in its schedule change.

    \b
    Example:
      celery -A proj redisbeater rename report "weekly report" --note "there is a daily one now"
    """
    entry = ScheduleStore(app).rename(name, new, note=note, by=by)
    click.echo(f"{shown(name)}: renamed to {shown(entry.name)}")


@redisbeater.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@authored
@command
def restore(app: Celery, names: Sequence[str], note: str, by: str) -> None:
    """Restore entries that were deleted within seven days; the newest 10,000 are kept.

    \b
    Examples:
      celery -A proj redisbeater list --state deleted
      celery -A proj redisbeater restore report clean-up
    """
    store = ScheduleStore(app)

    def change(name: str) -> str:
        check_stored_name(name)
        try:
            entry = store.restore(name, note=note, by=by)
        except InvalidEntry as exc:
            return f"restored, broken as it was: {shown(exc)}"
        return "restored" if entry.due_at else f"restored, {entry.state}"

    for_each(app, names, change)
