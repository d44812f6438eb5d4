"""A run of an entry as Celery gets it, with its id, headers and options."""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

from celery import Celery
from celery.schedules import BaseSchedule, crontab, schedule

from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.options import option_instant, owner_of_header
from redisbeater.model.run import ATTEMPT_HEADER
from redisbeater.schedules.datetime_codec import decode_datetime, read_zone

__all__ = ("counted_from", "make_run", "own_options", "sendable", "task_id", "with_headers")

#: The namespace of schedule ids that are no UUIDs: another program wrote them.
FOREIGN_IDS = uuid.UUID("7fcf8280-6e12-52f9-ab56-c6ac8bfedbce")


def task_id(schedule_id: str, name: str, fire_time: datetime) -> str:
    """Return the task id of a run; every beat gives the same fire time the same id, however often it is sent."""
    return str(uuid.uuid5(_namespace(schedule_id), f"{name}@{fire_time.isoformat()}"))


@lru_cache(maxsize=8)
def _namespace(schedule_id: str) -> uuid.UUID:
    """Return the namespace of a schedule's task ids: its id, or a hash of an id that is no UUID."""
    try:
        return uuid.UUID(schedule_id)
    except ValueError:
        # backslashreplace: the bytes that another program wrote may be no text.
        return uuid.uuid5(FOREIGN_IDS, schedule_id.encode("utf-8", "backslashreplace").decode())


def make_run(
    definition: Definition,
    fire_time: datetime,
    *,
    schedule_id: str,
    run_count: int,
    app: Celery,
    entry_class: type[RedisScheduleEntry] = RedisScheduleEntry,
    due_at: datetime | None = None,
    attempt: int = 0,
    now: datetime | None = None,
) -> RedisScheduleEntry:
    """Return an entry for one run, with its own copies of all values: Celery, instruments and tasks write into them.

    Arguments:
        definition: the entry's definition.
        fire_time: the run's fire time, aware UTC.
        schedule_id: the id of the schedule, namespace of the task ids.
        run_count: how many runs the entry has had.
        app: the Celery app that sends it.
        entry_class: the class of the run.
        due_at: when it is due, its fire time plus its jitter; for the log.
        attempt: which attempt this is, from 1; the header tells the worker that the run is recorded. 0: it is not.
        now: the server's time, from which an ``expires`` in seconds counts; default: its fire time.
    """
    options = _run_options(definition, fire_time, now or fire_time)
    if attempt:
        options["headers"][ATTEMPT_HEADER] = attempt
    options["task_id"] = task_id(schedule_id, definition.name, fire_time)
    run = entry_class(
        definition.name,
        definition.task,
        _schedule_in_zone(definition),
        args=[sendable(value) for value in definition.args],
        kwargs={name: sendable(value) for name, value in definition.kwargs.items()},
        options=options,
        app=app,
        timezone=definition.timezone,
        last_run_at=fire_time,
        total_run_count=run_count,
    )
    run._due_at = due_at
    return run


def _run_options(definition: Definition, fire_time: datetime, now: datetime) -> dict[str, Any]:
    """Return the options of a run, all but its id: with its headers and its deadline."""
    options: dict[str, Any] = json_text.copied(own_options(definition, fire_time, now))
    if "expires" in options:
        options["expires"] = counted_from(now, options["expires"])
    return with_headers(options, definition.name, fire_time)


def own_options(definition: Definition, fire_time: datetime, now: datetime) -> dict[str, Any]:
    """Return the options of a definition with its deadline; the caller must not change them."""
    if definition.deadline is None:
        return definition.options
    deadline = fire_time + timedelta(seconds=definition.deadline)
    return {**definition.options, "expires": _sooner(definition.options.get("expires"), deadline, now)}


def counted_from(now: datetime, expires: Any) -> Any:
    """Return an ``expires`` in seconds as an instant if this host's clock is behind the server's, which shows ``now``.

    Celery counts seconds by this host's clock, and such runs would have expired before a worker gets them. If it is
    ahead, they stay seconds: from an instant Celery computes, by that clock too, how long a broker keeps the message.
    """
    if datetime.now(timezone.utc) >= now:
        return expires
    with suppress(OverflowError):
        return option_instant(expires, now) or expires
    return expires


def with_headers(options: dict[str, Any], name: str, fire_time: datetime) -> dict[str, Any]:
    """Return options with what each run has: without retries, and with headers that tell entry and fire time.

    Stored headers that would make it another run, or hide what it is, are left out.
    """
    own = {header: value for header, value in (options.get("headers") or {}).items() if not owner_of_header(header)}
    headers = {**own, "periodic_task_name": name, "scheduled_for": fire_time.isoformat()}
    # retry=False: beat itself releases a run that cannot be sent, and tries it again.
    return {"retry": False, **options, "headers": headers}


def _sooner(expires: Any, deadline: datetime, now: datetime) -> Any:
    """Return the sooner of an ``expires`` and a deadline, as Celery takes it."""
    own = option_instant(expires, now)
    return deadline if own is None or deadline <= own else expires


def _schedule_in_zone(definition: Definition) -> BaseSchedule:
    """Return the schedule for Celery and for instruments, which read its zone from its ``tz``.

    A schedule of an entry with a zone of its own is copied: entries of several zones may share one.
    """
    shared = definition.schedule
    if definition.timezone is None or not isinstance(shared, (crontab, schedule)):
        return shared
    copied: BaseSchedule = object.__new__(type(shared))
    vars(copied).update(vars(shared), tz=read_zone(definition.timezone, "$.timezone"))
    return copied


def sendable(value: Any) -> Any:
    """Return a copy of an argument in which RedBeat's objects for datetimes are datetimes, as RedBeat sends them.

    An object that is no date is passed as it is stored: it is an argument that happens to look like one.
    """
    if isinstance(value, dict):
        if value.get("__type__") == "datetime":
            with suppress(InvalidEntry):
                return decode_datetime(value, "$")
        return {name: sendable(item) for name, item in value.items()}
    return [sendable(item) for item in value] if isinstance(value, list) else value
