"""A Celery beat scheduler whose schedule lives in Redis."""

from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import (
    EditConflict,
    EntryNotFound,
    ImproperlyConfigured,
    InvalidEntry,
    LockNotOwnedError,
    RedisBeaterError,
    StoreError,
    StoreUnavailable,
)
from redisbeater.scheduler import RedisScheduler
from redisbeater.schedules import clocked, rrule

__all__ = (
    "EditConflict",
    "EntryNotFound",
    "ImproperlyConfigured",
    "InvalidEntry",
    "LockNotOwnedError",
    "RedisBeaterError",
    "RedisScheduleEntry",
    "RedisScheduler",
    "StoreError",
    "StoreUnavailable",
    "clocked",
    "rrule",
)

__version__ = "0.1.0"
