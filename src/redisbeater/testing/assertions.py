"""Assertions about a schedule. Each failure says what is there instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from typing import Any

from celery import Celery
from celery.schedules import BaseSchedule

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.model.passed_values import as_schedule, as_task, for_entry, task_advice
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.schedules.cron_expression import cron
from redisbeater.schedules.kinds import describe
from redisbeater.schedules.timetable import Timetable
from redisbeater.schedules.zones import read_zone, zone_name
from redisbeater.store import Snapshot
from redisbeater.testing.schedule import read_moment, store_declared


def assert_scheduled(
    app: Celery,
    task: Any,
    *,
    every: float | timedelta | None = None,
    cron: str | None = None,
    timezone: str | tzinfo | None = None,
) -> RedisScheduleEntry:
    """Assert that an enabled entry runs a task, and return that entry.

    The declarations of the code are stored first, as by a beat that begins to lead.

    Arguments:
        app: the Celery app.
        task: the task or its name.
        every: it runs every so many seconds, or every timedelta.
        cron: it runs by this cron text, or by a crontab with the same fields.
        timezone: its local times are of this zone: that of its rule, its own or the app's. An IANA name or a
            ``ZoneInfo``.

    Raises:
        InvalidEntry: an argument cannot be that of an entry.
    """
    context, wanted, name = Context.of(app), _wanted(every, cron), as_task(task)
    zone_wanted = None if timezone is None else zone_name(read_zone(timezone, "timezone"))
    if not isinstance(name, str):
        raise InvalidEntry("task", f"expected a task or its name, got {quoted(task)}{task_advice(task)}")
    store_declared(app)
    entries = [stored for stored in _stored(context) if stored.definition.task == name]
    for stored in entries:
        zone = zone_name(stored.definition.timetable(context.in_zone(stored.zone).zone).local_zone)
        if stored.definition.enabled and _has_schedule(stored.definition, wanted) and zone_wanted in (None, zone):
            return RedisScheduleEntry._of(stored, context)
    found = "; ".join(_words(stored, context) for stored in entries) or "no entry has this task"
    when = "" if wanted is None else f" {describe(wanted)}"
    raise AssertionError(f"{name} is not scheduled{when}{f' in {zone_wanted}' if zone_wanted else ''}: {found}")


def assert_runs_at(entry: RedisScheduleEntry, times: Sequence[datetime | str]) -> None:
    """Assert that the fire times of an entry, from the first of these on, are these; asks no Redis.

    Fire times that ``disabled_until`` or ``skip`` leave out are not among them; a disabled entry has none. ``max_runs``
    does not count here: how many runs the entry has had is unknown.

    Arguments:
        entry: the entry, stored or not. An interval without ``start_at`` counts from the first time.
        times: aware datetimes, or naive ones and ISO 8601 texts in the entry's zone, in order.
    """
    if isinstance(times, (str, datetime)) or not times:
        raise ValueError(f"times: expected a list of at least one time, got {quoted(times)}")
    definition, context = entry._definition(), Context.of(entry.app)
    if definition.calendars:
        context.redis.calendars.refresh()
    policy = ResolvedPolicy.of(definition, context.in_zone("").defaults).afresh()
    timetable = policy.timetable
    expected = [read_moment(each, timetable.local_zone, "times") for each in times]
    fire_times = list(islice(_fire_times(policy, expected[0]), len(expected)))
    if fire_times != expected:
        raise AssertionError(
            f"{entry.name or 'the entry'} runs at {_local(fire_times, timetable)}, not at {_local(expected, timetable)}"
        )


def assert_not_lost(app: Celery) -> None:
    """Assert that nothing that is due was left unsent, and that nothing keeps an entry from running.

    An entry is lost that is overdue by the clock, broken, failing, or stored and missing from the schedule.
    """
    context = Context.of(app)
    lost = [f"{name!r} is broken: {report['reason']}" for name, report in context.redis.broken.reports().items()]
    lost += [f"{entry.name!r} is missing from the schedule" for entry in _unscheduled(context)]
    for stored in _stored(context):
        due_at = stored.due_at(context.in_zone(stored.zone).defaults)
        if stored.failing is not None:
            lost.append(f"{stored.definition.name!r} cannot be sent: {stored.failing.error}")
        elif due_at is not None and due_at <= stored.now:
            lost.append(
                f"{stored.definition.name!r} was due at {due_at.isoformat()}, and it is {stored.now.isoformat()}"
            )
    if lost:
        raise AssertionError("; ".join(lost))


def _wanted(every: float | timedelta | None, text: str | None) -> BaseSchedule | None:
    if every is not None and text is not None:
        raise ValueError("pass every or cron, not both")
    if text is not None:
        return cron(text)
    return None if every is None else as_schedule(every)


def _stored(context: Context) -> Iterator[StoredEntry]:
    """Yield the entries that can be read, by name."""
    for snapshot in context.redis.load_many(sorted(context.redis.contents.names())):
        if snapshot.exists and not snapshot.is_broken and (stored := _decoded(snapshot, context)) is not None:
            yield stored


def _decoded(snapshot: Snapshot, context: Context) -> StoredEntry | None:
    try:
        return StoredEntry.from_snapshot(snapshot, context.codec)
    except InvalidEntry:  # run_due() quarantines it
        return None


def _unscheduled(context: Context) -> Iterator[Snapshot]:
    cursor = "0"
    while True:
        cursor, page = context.redis.contents.unscheduled(cursor)
        yield from (each for each in context.redis.load_many([found.name for found in page]) if each.exists)
        if cursor == "0":
            return


def _has_schedule(definition: Definition, wanted: BaseSchedule | None) -> bool:
    if wanted is None:
        return True
    with suppress(InvalidEntry):  # with the numbers that the name decides for H, no date matches
        return bool(definition.plain_schedule == for_entry(wanted, definition.name))
    return False


def _fire_times(policy: ResolvedPolicy, since: datetime) -> Iterator[datetime]:
    """Return the fire times at which an entry runs, from an instant on."""
    return policy.kept_from(_first(policy.timetable, since) if policy.enabled else None)


def _first(timetable: Timetable, since: datetime) -> datetime | None:
    just_before = since - timedelta(microseconds=1)
    if timetable.period is None:
        return timetable.next(just_before)
    return since if timetable.start_at is None else timetable.resumed(timetable.start_at, just_before)


def _words(stored: StoredEntry, context: Context) -> str:
    definition = stored.definition
    words = describe(definition.schedule, definition.zone(context.in_zone(stored.zone).zone))
    return f"{definition.name!r} runs {words}{'' if definition.enabled else ', and is disabled'}"


def _local(times: Sequence[datetime], timetable: Timetable) -> str:
    return ", ".join(each.astimezone(timetable.local_zone).isoformat() for each in times) or "no time"
