"""``ScheduleStore``: the schedule of an app, for programs that create and change entries by name."""

from __future__ import annotations

from celery.app import app_or_default

from redisbeater.config.urls import app_text
from redisbeater.management.entry_methods import EntryMethods
from redisbeater.management.file_methods import FileMethods
from redisbeater.management.schedule_methods import ScheduleMethods
from redisbeater.management.word_methods import WordMethods

__all__ = ("ScheduleStore",)


class ScheduleStore(EntryMethods, WordMethods, ScheduleMethods, FileMethods):
    """The schedule of an app. Building one does no I/O; one for each process is enough.

    Arguments:
        app: default: the current app at each call, so that a store may be made before the app is.
        prefix: of one application's several schedules the one with this key prefix. Default: the setting.

    Every method raises :exc:`~redisbeater.InvalidEntry` for a field that cannot be stored, before anything is written,
    and :exc:`~redisbeater.StoreUnavailable` when Redis cannot be reached.

    Example::

        store = ScheduleStore(app)
        store.create("report", "proj.tasks.report", crontab(hour=9, minute=0), max_runs=10)
        store.update("report", args=["weiss"])
    """

    def __repr__(self) -> str:
        below = "" if self._prefix is None else f" below {self._prefix!r}"
        return f"<ScheduleStore of {app_text(app_or_default(self._given_app))}{below}>"
