"""Slots: the naive local times that the fields of a Celery crontab allow, whatever the zone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from celery.schedules import crontab

__all__ = ("count_slots", "first_slot", "is_matching_day", "is_slot", "matching_days", "minute_from", "slots")

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_MICROSECOND = timedelta(microseconds=1)


def slots(schedule: crontab, start: datetime, stop: datetime) -> Iterator[datetime]:
    """Yield the slots from ``start`` on and before ``stop``, in order."""
    slot = first_slot(schedule, start, stop)
    while slot is not None:
        yield slot
        slot = first_slot(schedule, slot + _MINUTE, stop)


def first_slot(schedule: crontab, start: datetime, stop: datetime) -> datetime | None:
    """Return the first slot from ``start`` on and before ``stop``; None when there is none."""
    if start >= stop:
        return None
    for day in matching_days(schedule, start.date(), stop.date()):
        midnight = datetime(day.year, day.month, day.day)
        minute = minute_from(schedule, _minutes_begun(start) if start > midnight else 0)
        if minute is not None:
            slot = midnight + minute * _MINUTE
            return slot if slot < stop else None
    return None


def is_slot(schedule: crontab, local: datetime) -> bool:
    """Tell whether a local time is a slot."""
    return first_slot(schedule, local, local + _MICROSECOND) is not None


def count_slots(schedule: crontab, start: datetime, stop: datetime) -> int:
    """Count the slots from ``start`` on and before ``stop``, by days instead of one by one."""
    if start >= stop:
        return 0
    days = sum(1 for _ in matching_days(schedule, start.date(), stop.date() - _DAY))
    in_all_days = days * len(schedule.hour) * len(schedule.minute)
    return in_all_days - _count_before(schedule, start) + _count_before(schedule, stop)


def minute_from(schedule: crontab, least: int) -> int | None:
    """Return the first minute of a day, ``least`` or later, that the minute and hour fields allow; None if none."""
    hour, minute = divmod(least, 60)
    if hour in schedule.hour:
        minutes = sorted(schedule.minute)
        index = bisect_left(minutes, minute)
        if index < len(minutes):
            return hour * 60 + minutes[index]
    later = [candidate for candidate in schedule.hour if candidate > hour]
    return min(later) * 60 + min(schedule.minute) if later else None


def matching_days(schedule: crontab, first: date, last: date) -> Iterator[date]:
    """Yield the dates from ``first`` to ``last``, both included, that the day fields allow."""
    day = first
    while day <= last:
        if day.month not in schedule.month_of_year:
            day = _next_matching_month(schedule, day)
            continue
        if is_matching_day(schedule, day):
            yield day
        day += _DAY


def is_matching_day(schedule: crontab, day: date) -> bool:
    """Tell whether all three day fields allow a date."""
    return (
        day.month in schedule.month_of_year
        and day.day in schedule.day_of_month
        and day.isoweekday() % 7 in schedule.day_of_week
    )


def _next_matching_month(schedule: crontab, day: date) -> date:
    """Return the first day of the next month that the crontab allows."""
    later = [month for month in schedule.month_of_year if month > day.month]
    return date(day.year, min(later), 1) if later else date(day.year + 1, min(schedule.month_of_year), 1)


def _count_before(schedule: crontab, local: datetime) -> int:
    """Count the slots before a local time on its date."""
    if not is_matching_day(schedule, local.date()):
        return 0
    hour, minute = divmod(_minutes_begun(local), 60)
    in_earlier_hours = sum(1 for candidate in schedule.hour if candidate < hour) * len(schedule.minute)
    in_this_hour = sum(1 for candidate in schedule.minute if candidate < minute) if hour in schedule.hour else 0
    return in_earlier_hours + in_this_hour


def _minutes_begun(local: datetime) -> int:
    """Return how many minutes of its date have begun before a local time."""
    return -((datetime(local.year, local.month, local.day) - local) // _MINUTE)
