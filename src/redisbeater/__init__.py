"""A Celery beat scheduler whose schedule lives in Redis."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import redisbeater.serving  # noqa: F401 - it connects Celery's signals about a beat service
from redisbeater.editing.upcoming import UpcomingRun
from redisbeater.entry import RedisScheduleEntry, scheduled
from redisbeater.exceptions import (
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
from redisbeater.model.policies import INHERIT
from redisbeater.model.run import Run
from redisbeater.schedules import clocked, cron, describe, rrule

if TYPE_CHECKING:
    from redisbeater.management.async_store import AsyncScheduleStore
    from redisbeater.management.files.export import Export
    from redisbeater.management.schedule_store import ScheduleStore
    from redisbeater.management.search import EntryPage
    from redisbeater.management.why.facts import Answer, Evidence
    from redisbeater.scheduler import RedisScheduler

__all__ = (
    "INHERIT",
    "Answer",
    "AsyncScheduleStore",
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
    "clocked",
    "cron",
    "describe",
    "rrule",
    "scheduled",
)

__version__ = "0.1.0"

#: Where the names are that only some processes need: a worker or a web server neither leads nor manages a schedule.
_LATER = {
    "Answer": "redisbeater.management.why.facts",
    "AsyncScheduleStore": "redisbeater.management.async_store",
    "EntryPage": "redisbeater.management.search",
    "Evidence": "redisbeater.management.why.facts",
    "Export": "redisbeater.management.files.export",
    "RedisScheduler": "redisbeater.scheduler",
    "ScheduleStore": "redisbeater.management.schedule_store",
}

if not TYPE_CHECKING:  # for a type checker each name is imported above, and others do not exist

    def __getattr__(name: str) -> Any:
        """Import a name at its first use."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(_LATER[name]), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})
