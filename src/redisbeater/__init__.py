"""A Celery beat scheduler whose schedule lives in Redis."""

import redisbeater.serving  # noqa: F401 - it connects Celery's signals about a beat service
from redisbeater.editing.upcoming import UpcomingRun
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import (
    EditConflict,
    EntryExists,
    EntryNotFound,
    ImproperlyConfigured,
    InvalidEntry,
    LockNotOwnedError,
    RedisBeaterError,
    RunActive,
    RunNotFound,
    SendFailed,
    StoreError,
    StoreUnavailable,
)
from redisbeater.management.agenda import ScheduledRun
from redisbeater.management.async_store import AsyncScheduleStore
from redisbeater.management.files.export import Export
from redisbeater.management.listing import EntryPage
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.management.why.answer import Answer, Evidence
from redisbeater.model.policies import INHERIT
from redisbeater.model.run import Run
from redisbeater.scheduler import RedisScheduler
from redisbeater.schedules import clocked, cron, describe, rrule

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
    "InvalidEntry",
    "LockNotOwnedError",
    "RedisBeaterError",
    "RedisScheduleEntry",
    "RedisScheduler",
    "Run",
    "RunActive",
    "RunNotFound",
    "ScheduleStore",
    "ScheduledRun",
    "SendFailed",
    "StoreError",
    "StoreUnavailable",
    "UpcomingRun",
    "clocked",
    "cron",
    "describe",
    "rrule",
)

__version__ = "0.1.0"
