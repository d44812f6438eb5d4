"""A run of an entry, as it is given to Celery: its id, its headers and its options."""

from __future__ import annotations

import uuid
from datetime import datetime

from celery import Celery

from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.model import json_text
from redisbeater.model.definition import Definition

__all__ = ("make_run", "task_id")


def task_id(schedule_id: str, name: str, fire_time: datetime) -> str:
    """Return the id of a run: the same whenever and by whichever beat that fire time is sent."""
    return str(uuid.uuid5(uuid.UUID(schedule_id), f"{name}@{fire_time.isoformat()}"))


def make_run(
    definition: Definition, fire_time: datetime, *, schedule_id: str, run_count: int, app: Celery
) -> RedisScheduleEntry:
    """Return an entry for one run, with values of its own: Celery, instruments and tasks write into them.

    Raises:
        InvalidEntry: args, kwargs or options are nested too deeply to be sent.
    """
    try:
        options = {"retry": False, **json_text.copied(definition.options)}  # beat's release is the retry layer
        args, kwargs = json_text.copied(definition.args), json_text.copied(definition.kwargs)
    except RecursionError as exc:
        raise InvalidEntry("$", "args, kwargs or options are nested too deeply") from exc
    headers = options["headers"] = options.get("headers") or {}
    headers["periodic_task_name"] = definition.name
    headers["scheduled_for"] = fire_time.isoformat()
    options["task_id"] = task_id(schedule_id, definition.name, fire_time)
    return RedisScheduleEntry(
        definition.name,
        definition.task,
        definition.schedule,
        args=args,
        kwargs=kwargs,
        options=options,
        app=app,
        timezone=definition.timezone,
        last_run_at=fire_time,
        total_run_count=run_count,
    )
