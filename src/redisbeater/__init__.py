"""A Celery beat scheduler whose schedule lives in Redis."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import redisbeater.serving  # noqa: F401 - it connects Celery's signals about a beat service

if TYPE_CHECKING:
    from redisbeater.editing.upcoming import UpcomingRun
    from redisbeater.entry import RedisScheduleEntry, scheduled
    from redisbeater.exceptions import (
        DelayNotFound,
        EditConflict,
        EntryExists,
        EntryNotFound,
        ImproperlyConfigured,
        IncidentNotFound,
        InvalidEntry,
        LockNotOwnedError,
        RedisBeaterError,
        RunActive,
        RunNotFound,
        SendFailed,
        StoreError,
        StoreUnavailable,
    )
    from redisbeater.management.async_store import AsyncScheduleStore
    from redisbeater.management.files.export import Export
    from redisbeater.management.schedule_store import ScheduleStore
    from redisbeater.management.search import EntryPage
    from redisbeater.management.why.facts import Answer, Evidence
    from redisbeater.model.policies import INHERIT
    from redisbeater.model.run import Run
    from redisbeater.scheduler import RedisScheduler
    from redisbeater.schedules.any_of import any_of
    from redisbeater.schedules.cron_expression import cron
    from redisbeater.schedules.interval import clocked
    from redisbeater.schedules.kinds import describe
    from redisbeater.schedules.rrule.rrule import rrule

__all__ = (
    "INHERIT",
    "Answer",
    "AsyncScheduleStore",
    "DelayNotFound",
    "EditConflict",
    "EntryExists",
    "EntryNotFound",
    "EntryPage",
    "Export",
    "Evidence",
    "ImproperlyConfigured",
    "IncidentNotFound",
    "InvalidEntry",
    "LockNotOwnedError",
    "RedisBeaterError",
    "RedisScheduleEntry",
    "RedisScheduler",
    "Run",
    "RunActive",
    "RunNotFound",
    "ScheduleStore",
    "SendFailed",
    "StoreError",
    "StoreUnavailable",
    "UpcomingRun",
    "any_of",
    "clocked",
    "cron",
    "describe",
    "rrule",
    "scheduled",
)

__version__ = "0.1.0"

#: The module of each name, which is imported at the first use of one of its names. So no process loads more than it
#: uses, and nothing is loaded before the application has patched what we use.
_PLACES = {
    "editing.upcoming": ("UpcomingRun",),
    "entry": ("RedisScheduleEntry", "scheduled"),
    "exceptions": (
        "DelayNotFound",
        "EditConflict",
        "EntryExists",
        "EntryNotFound",
        "ImproperlyConfigured",
        "IncidentNotFound",
        "InvalidEntry",
        "LockNotOwnedError",
        "RedisBeaterError",
        "RunActive",
        "RunNotFound",
        "SendFailed",
        "StoreError",
        "StoreUnavailable",
    ),
    "management.async_store": ("AsyncScheduleStore",),
    "management.files.export": ("Export",),
    "management.schedule_store": ("ScheduleStore",),
    "management.search": ("EntryPage",),
    "management.why.facts": ("Answer", "Evidence"),
    "model.policies": ("INHERIT",),
    "model.run": ("Run",),
    "scheduler": ("RedisScheduler",),
    "schedules.any_of": ("any_of",),
    "schedules.cron_expression": ("cron",),
    "schedules.interval": ("clocked",),
    "schedules.kinds": ("describe",),
    "schedules.rrule.rrule": ("rrule",),
}

#: The public modules that are imported at their first use; ``runs`` and ``delays`` only by their own import, which
#: connects receivers.
_MODULES = ("dashboard", "exceptions", "results", "signals", "testing")

if not TYPE_CHECKING:  # for a type checker each name is imported above, and others do not exist

    def __getattr__(name: str) -> Any:
        """Import a name at its first use."""
        if name in _MODULES:
            return import_module(f"redisbeater.{name}")
        place = next((place for place, names in _PLACES.items() if name in names), None)
        if place is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"redisbeater.{place}"), name)
        return found


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "delays", "runs", "__version__"])
