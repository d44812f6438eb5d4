"""``ScheduleStore``: the schedule of an app, for programs that create and change entries by name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from celery import Celery
from celery.app import app_or_default

from redisbeater.config.settings import app_text
from redisbeater.context import Context, task_options
from redisbeater.display import quoted
from redisbeater.editing.author import Author
from redisbeater.editing.changes import FieldChange
from redisbeater.editing.compare_and_set import write
from redisbeater.editing.deletion import delete_entry
from redisbeater.editing.stored_entry import failing_of, load
from redisbeater.editing.upcoming import UpcomingRun
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name
from redisbeater.exceptions import EntryNotFound
from redisbeater.management.bulk import Bulk
from redisbeater.management.listing import EntryPage, Filter, Listing
from redisbeater.management.renaming import copy_entry, rename_entry
from redisbeater.management.restoring import restore_entry
from redisbeater.model.entry_fields import EntryChanges, EntryFields, ScheduleLike, TaskLike
from redisbeater.model.failing import Failing
from redisbeater.model.log_line import LogLine
from redisbeater.store import Late

if TYPE_CHECKING:  # Python has it from 3.11 on; type checkers bring it along
    from typing_extensions import Unpack

__all__ = ("ScheduleStore",)

#: The most lines of a log that are read at once.
MOST_LINES_READ = 10_000


class ScheduleStore:
    """The schedule of an app. Building one does no I/O; one for each process is enough.

    Arguments:
        app: default: the current app at each call, so that a store may be made before the app is.

    Every method raises :exc:`~redisbeater.InvalidEntry` for a field that cannot be stored, before anything is written,
    and :exc:`~redisbeater.StoreUnavailable` when Redis cannot be reached.

    Example::

        store = ScheduleStore(app)
        store.create("report", "proj.tasks.report", crontab(hour=9, minute=0), max_runs=10)
        store.update("report", args=["weiss"])
    """

    def __init__(self, app: Celery | None = None) -> None:
        self._given_app = app
        self._listing: Listing | None = None

    def __repr__(self) -> str:
        return f"<ScheduleStore of {app_text(self._app)}>"

    def create(
        self,
        name: str,
        task: TaskLike,
        schedule: ScheduleLike | float | timedelta,
        *,
        note: str = "",
        by: str = "",
        **fields: Unpack[EntryFields],
    ) -> RedisScheduleEntry:
        """Create an entry; all arguments but these are those of :class:`~redisbeater.RedisScheduleEntry`.

        Every change takes a ``note``, why it is made, and ``by``, who makes it: by default user and host of this
        process. They stand in the entry's :meth:`log`.

        Raises:
            EntryExists: there is one of that name.
        """
        return RedisScheduleEntry(name, task, schedule, app=self._app, **fields).create(note=note, by=by)

    def update(
        self,
        name: str,
        /,
        *,
        if_version: str | None = None,
        note: str = "",
        by: str = "",
        **changes: Unpack[EntryChanges],
    ) -> RedisScheduleEntry:
        """Change the named fields of an entry; the others stay as they are at that moment.

        With ``if_version``, the :attr:`~redisbeater.RedisScheduleEntry.version` that was read, an entry that was
        edited since is not changed; a run of it makes no difference.

        Raises:
            EntryNotFound: there is none of that name.
            EditConflict: it has another version, or others kept changing it.
        """
        change = FieldChange(
            name=check_name(name),
            fields={**changes},
            option_rules=task_options(self._app),
            author=Author.of(by, note),
            if_version=if_version,
        )
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

    def delete(self, name: str, *, note: str = "", by: str = "") -> None:
        """Delete an entry. A static one comes back, with its counters, when a beat begins to lead: disable it instead.

        Raises:
            EntryNotFound: there is none of that name.
        """
        if delete_entry(self._context, check_name(name), Author.of(by, note)) is None:
            raise EntryNotFound(name)

    def restore(self, name: str, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Put an entry back that was deleted within seven days and is one of the newest 100; its state is kept.

        Fire times that passed meanwhile are not run. Entries that a :meth:`bulk` deleted are not kept.

        Raises:
            EntryNotFound: no deleted entry of that name is kept.
            EntryExists: there is an entry of that name.
        """
        return RedisScheduleEntry.of(restore_entry(self._context, name, Author.of(by, note)), self._app)

    def deleted(self) -> dict[str, datetime]:
        """Return the deleted entries that can be restored, name -> when it was deleted, the newest first."""
        return self._context.redis.deleted.names()

    def enable(self, name: str, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Let an entry run again; :meth:`redisbeater.RedisScheduleEntry.enable`."""
        return RedisScheduleEntry(name, app=self._app).enable(note=note, by=by)

    def disable(
        self, name: str, *, until: datetime | timedelta | None = None, note: str = "", by: str = ""
    ) -> RedisScheduleEntry:
        """Stop the runs of an entry until it is enabled again; :meth:`redisbeater.RedisScheduleEntry.disable`."""
        return RedisScheduleEntry(name, app=self._app).disable(until=until, note=note, by=by)

    def skip_next(
        self, name: str, n: int = 1, *, undo: bool = False, note: str = "", by: str = ""
    ) -> RedisScheduleEntry:
        """Leave out the next fire times of an entry; :meth:`redisbeater.RedisScheduleEntry.skip_next`."""
        return RedisScheduleEntry(name, app=self._app).skip_next(n, undo=undo, note=note, by=by)

    def rename(self, name: str, new: str, *, note: str = "", by: str = "") -> RedisScheduleEntry:
        """Rename an entry. It keeps its state; its task ids, its jitter and ``H`` in its schedule change.

        Raises:
            EntryNotFound: there is none of that name.
            EntryExists: there is one of the new name.
            RunActive: a beat is sending a run of it.
        """
        return RedisScheduleEntry.of(rename_entry(self._context, name, new, Author.of(by, note)), self._app)

    def copy(
        self, name: str, new: str, *, note: str = "", by: str = "", **changes: Unpack[EntryChanges]
    ) -> RedisScheduleEntry:
        """Create an entry like another one, with some fields changed. It starts again, without runs.

        Raises:
            EntryNotFound: there is none of that name.
            EntryExists: there is one of the new name.
        """
        rules, author = task_options(self._app), Author.of(by, note)
        return RedisScheduleEntry.of(copy_entry(self._context, name, new, {**changes}, rules, author), self._app)

    def log(self, name: str | None = None, limit: int = 100) -> list[LogLine]:
        """Return what happened to an entry, or to the schedule without a name: the newest line first.

        An ordinary run is no line; the log says what was changed, by whom and why, what was skipped and what failed.

        Raises:
            ValueError: ``limit`` is not from 1 to 10,000.
        """
        if not 1 <= limit <= MOST_LINES_READ:
            raise ValueError(f"limit: expected 1 to {MOST_LINES_READ}, got {limit}")
        log = self._context.redis.log
        return log.of_schedule(limit) if name is None else log.of_entry(check_name(name), limit)

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
        labels: Mapping[str, str] | None = None,
    ) -> EntryPage:
        """Return a page of the entries, in the order of their names.

        Over all pages of a walk, each entry that exists from its first page to its last comes exactly once, whatever
        runs or changes. One that is created during the walk may come or not; one that is deleted does not come any
        more. Each entry is as it was when its page was read.

        Arguments:
            prefix: only names that begin with this text.
            task: only entries of this task.
            enabled: only those that are, or are not; one that is disabled until a time to come is not.
            labels: only entries that have all of these.
            limit: how many at most, up to 10,000. A page may be shorter, even empty, and have a cursor all the same.
            cursor: the one of the page before, None for the first; the filters must be the same.

        Raises:
            ValueError: an argument is not valid.

        Example::

            page = store.list(task="proj.report")
            while page.cursor is not None:
                page = store.list(task="proj.report", cursor=page.cursor)
        """
        app = self._app
        if self._listing is None or self._listing.app is not app:
            self._listing = Listing(app)
        wanted = Filter(prefix=prefix, task=task, enabled=enabled, labels=labels)
        return self._listing.page(wanted, limit=limit, cursor=cursor)

    def names(self) -> Iterator[str]:
        """Return the names of all entries, in no order."""
        return iter(self._context.redis.contents.names())

    def count(self) -> int:
        """Return the number of entries."""
        return self._context.redis.contents.count()

    def broken(self) -> dict[str, str]:
        """Return the entries that were quarantined because they cannot be read or planned: name -> why."""
        return {name: report["reason"] for name, report in self._context.redis.broken.reports().items()}

    def failing(self) -> dict[str, Failing]:
        """Return the entries whose runs cannot be sent, name -> what is known, those that owe the oldest runs first.

        Beat tries them again, at the latest after half a minute, and at once when they are edited. A broker that is
        unavailable makes those entries fail that it was to get when the outage began.
        """
        redis = self._context.redis
        snapshots = (snapshot for names in redis.failing.names() for snapshot in redis.load_many(names))
        found = {snapshot.name: failing_of(snapshot) for snapshot in snapshots}
        return {name: failing for name, failing in found.items() if failing is not None}

    def late(self, more_than: float | timedelta = 60.0) -> Late:
        """Return how many entries were due more than that many seconds ago and have not run, and the oldest lateness.

        ``entries == 0`` is healthy. The number rises when no beat runs, when the broker is down, and with each entry
        that is failing: that is late since the fire time that it owes.

        Raises:
            ValueError: ``more_than`` is negative or no number.
        """
        return self._context.redis.failing.late(_seconds(more_than))

    @property
    def _app(self) -> Celery:
        return app_or_default(self._given_app)

    @property
    def _context(self) -> Context:
        return Context.of(self._app)


def _seconds(duration: float | timedelta) -> float:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise ValueError(f"more_than: expected seconds or a timedelta, at least 0, got {quoted(duration)}")
    return float(seconds)
