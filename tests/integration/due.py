"""Entries that are due, and the clock that decides it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from celery import Celery

from redisbeater import RedisScheduleEntry

UTC = timezone.utc


def now() -> datetime:
    return datetime.now(UTC)


def ago(**amount: float) -> datetime:
    return now() - timedelta(**amount)


def save_due(
    app: Celery, name: str, task: str = "proj.work", *, late: float = 1.0, every: float = 60.0, **fields: Any
) -> RedisScheduleEntry:
    """Store and return an entry that runs every ``every`` seconds and was due ``late`` seconds ago."""
    return RedisScheduleEntry(name, task, every, app=app, last_run_at=ago(seconds=every + late), **fields).save()


def stored(app: Celery, name: str) -> RedisScheduleEntry:
    """Return the entry as it is stored now."""
    return RedisScheduleEntry.from_key(RedisScheduleEntry.generate_key(app, name), app=app)
