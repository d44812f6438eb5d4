"""Quarantined entries: try one again whose reason is gone."""

from __future__ import annotations

from celery import Celery

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.changes import FieldChange
from redisbeater.editing.compare_and_set import write
from redisbeater.editing.edit import Author
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import EntryNotFound, InvalidEntry

__all__ = ("retry",)


def retry(app: Celery, name: str, author: Author) -> RedisScheduleEntry:
    """Take an entry out of quarantine: it runs from its next fire time on.

    Raises:
        EntryNotFound: there is none of that name.
        InvalidEntry: it is not broken, or still cannot be read or planned.
    """
    context = Context.of(app)
    snapshot = context.redis.load(name)
    if not snapshot.exists:
        raise EntryNotFound(name)
    if not snapshot.is_broken:
        raise InvalidEntry(quoted(name), "is not broken; only a quarantined entry can be tried again")
    return RedisScheduleEntry.of(write(context, FieldChange(name=name, author=author)), app)
