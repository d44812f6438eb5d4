"""The next fire time of any schedule.

It depends only on a schedule, a zone and an instant, never on a clock: the next fire time is computed from the one
before, and not from when its run was really sent.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from celery.schedules import BaseSchedule, crontab, solar
from celery.schedules import schedule as interval

from redisbeater.schedules import interval as interval_engine
from redisbeater.schedules.budget import Steps
from redisbeater.schedules.clocked import clocked
from redisbeater.schedules.cron_expression.expression import cron_expression
from redisbeater.schedules.crontab import engine as crontab_engine
from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.schedules.zone import read_zone

__all__ = ("next_fire_time", "next_within_calendar")

#: What the next fire time of a relative interval takes.
_INTERVAL_STEPS = 10

#: What a call of a custom schedule takes that does simple arithmetic, a call of Celery's solar, and each day that solar
#: looks at without success, near a pole.
_CUSTOM_STEPS, _SOLAR_STEPS, _SOLAR_DAY_STEPS = 20, 500, 150

#: Celery's solar returns the end of its search, a year later, where an event never happens: at a pole.
_SEASON = timedelta(days=300)

_MINUTE = timedelta(minutes=1)

#: From here on, local times and the days before exist in all zones.
_EARLIEST = datetime(1, 1, 8, tzinfo=timezone.utc)


def next_fire_time(
    schedule: BaseSchedule, zone: tzinfo, after: datetime, steps: Steps | None = None
) -> datetime | None:
    """Return the first fire time after an instant.

    Arguments:
        schedule: Celery's crontab, schedule (interval) or solar, redisbeater's cron_expression, rrule or clocked, or
            a custom one.
        zone: the zone of local times, of zoneinfo, pytz or dateutil; an rrule has its own.
        after: an aware datetime, from which an interval counts.
        steps: the engine steps that finding it may take, if several searches share a budget.

    Returns:
        Aware UTC, later than ``after``; None when the schedule never fires again, or not before the calendar ends.

    Raises:
        ValueError: ``after`` is naive, or within a few days of the start of the calendar.
        InvalidEntry: finding it takes too many steps, or the schedule has ``H`` and no name of an entry.

    Example::

        next_fire_time(crontab(hour=9, minute=0), ZoneInfo("Europe/Vienna"), datetime.now(timezone.utc))
    """
    try:
        return next_within_calendar(schedule, zone, after, steps)
    except OverflowError:
        if after > _EARLIEST:
            return None
        raise ValueError(f"after: expected 8 January of year 1 or later, got {after.isoformat()}") from None


def next_within_calendar(
    schedule: BaseSchedule, zone: tzinfo, after: datetime, steps: Steps | None = None
) -> datetime | None:
    """Return the first fire time after an instant, like :func:`next_fire_time`; None when there is no other.

    Raises:
        OverflowError: it may have one that no datetime can hold.
        ValueError, InvalidEntry: as for :func:`next_fire_time`.
    """
    steps = steps or Steps()
    if after.tzinfo is not timezone.utc:
        after = _in_utc(after)
    if type(zone) not in (ZoneInfo, timezone):
        zone = read_zone(zone, "zone")
    if hasattr(schedule, "to_redisbeater") or _is_overridden(schedule):
        return _by_celery(schedule, zone, after, steps)
    if isinstance(schedule, interval):
        steps.take(_INTERVAL_STEPS)
        return interval_engine.next_fire_time(schedule, zone, after)
    if isinstance(schedule, crontab):
        return crontab_engine.next_fire_time(schedule, zone, after)
    if isinstance(schedule, cron_expression):
        return schedule.next_fire_time(zone, after, steps)
    if isinstance(schedule, rrule):
        return schedule.next_fire_time(after, steps)
    if isinstance(schedule, clocked):
        at = schedule.fire_time(zone)
        return at if at > after else None
    return _by_celery(schedule, zone, after, steps)


def _in_utc(after: datetime) -> datetime:
    if after.tzinfo is None:
        raise ValueError(f"after: expected an aware datetime, got {after.isoformat()} without a zone")
    return after.astimezone(timezone.utc)


def _is_overridden(schedule: BaseSchedule) -> bool:
    """Tell whether a subclass of a crontab or an interval computes its fire times itself."""
    kind = type(schedule)
    if kind in (interval, crontab) or not isinstance(schedule, (interval, crontab)):
        return False
    return kind.remaining_estimate not in (interval.remaining_estimate, crontab.remaining_estimate)


def _by_celery(schedule: BaseSchedule, zone: tzinfo, after: datetime, steps: Steps) -> datetime | None:
    """Return the next fire time by Celery's contract: ask a schedule whose clock shows ``after`` how long to wait.

    A schedule that does not wait would not advance either, so it has finished.
    """
    steps.take(_SOLAR_STEPS if isinstance(schedule, solar) else _CUSTOM_STEPS)
    local = after.astimezone(zone)
    frozen = copy.copy(schedule)
    remaining = _ask(frozen, local) if not isinstance(schedule, solar) else _ask_solar(frozen, local)
    if isinstance(schedule, solar) and remaining is not None:
        steps.take(remaining.days * _SOLAR_DAY_STEPS)
        if remaining > _SEASON and not _is_event(frozen, local + remaining):
            return None
    return after + remaining if remaining is not None and remaining > timedelta() else None


def _ask(asked: BaseSchedule, local: datetime) -> timedelta | None:
    """Return how long a schedule waits whose clock shows a local time."""
    asked.nowfun = lambda: local
    remaining: timedelta | None = asked.remaining_estimate(local)
    return remaining


def _ask_solar(asked: solar, local: datetime) -> timedelta | None:
    """Return how long a solar schedule waits; None: its event does not happen within a year.

    Celery before 5.7 looks at one day, and raises TypeError where the event does not happen on it: near a pole.
    """
    for day in (timedelta(days=number) for number in range(366)):
        with suppress(TypeError):
            remaining = _ask(asked, local + day)
            return None if remaining is None else day + remaining
    return None


def _is_event(asked: solar, local: datetime) -> bool:
    """Tell whether the event of a solar schedule happens at a local time."""
    remaining = _ask(asked, local - _MINUTE)
    return remaining is not None and remaining < 2 * _MINUTE
