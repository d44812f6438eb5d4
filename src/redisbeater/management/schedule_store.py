"""``ScheduleStore``: the schedule of an app, for programs that create and change entries by name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from celery import Celery
from celery.app import app_or_default
from celery.schedules import BaseSchedule

from redisbeater.context import Context
from redisbeater.editing.changes import FieldChange
from redisbeater.editing.compare_and_set import write
from redisbeater.editing.deletion import delete_entry
from redisbeater.editing.stored_entry import load
from redisbeater.editing.upcoming import UpcomingRun
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name
from redisbeater.exceptions import EntryNotFound
from redisbeater.management.bulk import Bulk
from redisbeater.management.listing import EntryPage, Filter, Listing

__all__ = ("ScheduleStore",)


class ScheduleStore:
    """The schedule of an app. Building one does no I/O; one for each process is enough.

    Every method raises :exc:`~redisbeater.InvalidEntry` for a field that cannot be stored, before anything is written,
    and :exc:`~redisbeater.StoreUnavailable` when Redis cannot be reached.

    Example::

        store = ScheduleStore(app)
        store.create("report", "proj.tasks.report", crontab(hour=9, minute=0), max_runs=10)
        store.update("report", args=["weiss"])
    """

    def __init__(self, app: Celery | None = None) -> None:
        self._app = app_or_default(app)
        self._listing = Listing(self._app)

    def create(
        self, name: str, task: str, schedule: BaseSchedule | float | timedelta, **fields: Any
    ) -> RedisScheduleEntry:
        """Create an entry; all arguments are those of :class:`~redisbeater.RedisScheduleEntry`.

        Raises:
            EntryExists: there is one of that name.
        """
        return RedisScheduleEntry(name, task, schedule, app=self._app, **fields).create()

    def update(self, name: str, /, **changes: Any) -> RedisScheduleEntry:
        """Change the named fields of an entry; the others stay as they are at that moment.

        Raises:
            EntryNotFound: there is none of that name.
            EditConflict: others kept changing it.
        """
        change = FieldChange(name=check_name(name), fields=changes)
        return RedisScheduleEntry.of(write(self._context, change), self._app)

    def upsert(self, entry: RedisScheduleEntry) -> RedisScheduleEntry:
        """Create an entry, or make the stored one of that name like it: :meth:`redisbeater.RedisScheduleEntry.save`."""
        return entry.save()

    def bulk(self) -> Bulk:
        """Make tens of thousands of changes in seconds.

        Example::

            with store.bulk() as bulk:
                for customer in customers:
                    bulk.upsert(RedisScheduleEntry(f"report {customer}", "proj.report", 3600, args=[customer], app=app))
            print(bulk.created, bulk.changed, bulk.unchanged)
        """
        return Bulk(self._context)

    def get(self, name: str) -> RedisScheduleEntry:
        """Read an entry.

        Raises:
            EntryNotFound: there is none of that name.
            InvalidEntry: it is broken.
        """
        return RedisScheduleEntry.of(load(self._context, check_name(name)), self._app)

    def delete(self, name: str) -> None:
        """Delete an entry. A static one comes back, with its counters, when a beat begins to lead: disable it instead.

        Raises:
            EntryNotFound: there is none of that name.
        """
        if delete_entry(self._context, check_name(name)) is None:
            raise EntryNotFound(name)

    def enable(self, name: str) -> RedisScheduleEntry:
        """Let an entry run again; :meth:`redisbeater.RedisScheduleEntry.enable`."""
        return self.update(name, enabled=True)

    def disable(self, name: str) -> RedisScheduleEntry:
        """Stop the runs of an entry until it is enabled again; :meth:`redisbeater.RedisScheduleEntry.disable`."""
        return self.update(name, enabled=False)

    def executed(self, name: str, at: datetime | None = None) -> RedisScheduleEntry:
        """Record when a task was really executed; :meth:`redisbeater.RedisScheduleEntry.executed`."""
        return RedisScheduleEntry(name, app=self._app).executed(at)

    def upcoming(self, name: str, n: int = 5) -> list[UpcomingRun]:
        """Return the next ``n`` runs of an entry; :meth:`redisbeater.RedisScheduleEntry.upcoming`."""
        return RedisScheduleEntry(name, app=self._app).upcoming(n)

    def list(
        self,
        prefix: str | None = None,
        task: str | None = None,
        enabled: bool | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> EntryPage:
        """Return a page of the entries, in the order of their names.

        Over all pages of a walk, each entry that exists from its first page to its last comes exactly once, whatever
        runs or changes. One that is created during the walk may come or not; one that is deleted does not come any
        more. Each entry is as it was when its page was read.

        Arguments:
            prefix: only names that begin with this text.
            task: only entries of this task.
            enabled: only those that are, or are not.
            limit: how many at most, up to 10,000. A page may be shorter, even empty, and have a cursor all the same.
            cursor: the one of the page before, None for the first; the filters must be the same.

        Raises:
            ValueError: an argument is not valid.

        Example::

            page = store.list(task="proj.report")
            while page.cursor is not None:
                page = store.list(task="proj.report", cursor=page.cursor)
        """
        return self._listing.page(Filter(prefix=prefix, task=task, enabled=enabled), limit=limit, cursor=cursor)

    def names(self) -> Iterator[str]:
        """Return the names of all entries, in no order."""
        return iter(self._context.redis.contents.names())

    def count(self) -> int:
        """Return the number of entries."""
        return self._context.redis.contents.count()

    def broken(self) -> dict[str, str]:
        """Return the entries that were quarantined because they cannot be read or planned: name -> why."""
        return {name: report["reason"] for name, report in self._context.redis.broken.reports().items()}

    @property
    def _context(self) -> Context:
        return Context.of(self._app)
