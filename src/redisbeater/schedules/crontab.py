"""The next fire time of a Celery crontab, exact across DST.

Celery matches wall-clock fields and skips the repeated hour in autumn. Here a crontab is either *fixed*
(``30 2 * * *``: once a day) or *repeating* (``*/10 * * * *``: elapsed time):

- fixed: each local time once, the first of a repeated pair; one in a gap fires when the gap ends, on the same date;
- repeating: each existing local time, both of a repeated pair; only when a gap swallows all of a date's times, one
  run when it ends, so that no day is lost.

The day fields are tested on the local date, and both must match (Celery's rule).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date, datetime, timedelta, tzinfo

from celery.schedules import crontab

from redisbeater.schedules.local_time import gap_end, instant_of, is_plain_day, to_utc

__all__ = ("is_repeating", "next_fire_time")

#: Two leap days of one weekday are at most 40 years apart (around 2100).
_YEARS_AHEAD = 41

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_ALL_HOURS = set(range(24))


def is_repeating(schedule: crontab) -> bool:
    """Whether the crontab means elapsed time: a ``*`` or a step in minute or hour, or all 24 hours."""
    texts = (schedule._orig_minute, schedule._orig_hour)
    return any(isinstance(text, str) and ("*" in text or "/" in text) for text in texts) or schedule.hour == _ALL_HOURS


def next_fire_time(schedule: crontab, zone: tzinfo, after: datetime) -> datetime | None:
    """The first fire time after an instant, both aware UTC; None when none comes in the next 41 years."""
    local = after.astimezone(zone).replace(tzinfo=None)
    for day in _matching_days(schedule, local.date()):
        fire_time = _next_on_day(schedule, zone, day, after)
        if fire_time is not None:
            return fire_time
    return None


def _matching_days(schedule: crontab, first: date) -> Iterator[date]:
    day = first
    while day.year <= first.year + _YEARS_AHEAD and day.year < date.max.year:
        if day.month not in schedule.month_of_year:
            day = (day.replace(day=28) + 4 * _DAY).replace(day=1)
            continue
        if day.day in schedule.day_of_month and day.isoweekday() % 7 in schedule.day_of_week:
            yield day
        day += _DAY


def _next_on_day(schedule: crontab, zone: tzinfo, day: date, after: datetime) -> datetime | None:
    if is_plain_day(day, zone):
        return _next_on_plain_day(schedule, zone, day, after)
    instants = _repeating_instants if is_repeating(schedule) else _fixed_instants
    return next((instant for instant in instants(schedule, zone, day) if instant > after), None)


def _next_on_plain_day(schedule: crontab, zone: tzinfo, day: date, after: datetime) -> datetime | None:
    start = to_utc(datetime(day.year, day.month, day.day), zone)
    # Of a minute that has begun, the next one counts; of a day that has not, the first.
    slot = _slot_from(schedule, max((after - start) // _MINUTE + 1, 0))
    return None if slot is None else start + slot * _MINUTE


def _slot_from(schedule: crontab, least: int) -> int | None:
    """The first matching minute of a day that is not before the given one."""
    hour, minute = divmod(least, 60)
    if hour in schedule.hour:
        minutes = sorted(schedule.minute)
        index = bisect_left(minutes, minute)
        if index < len(minutes):
            return hour * 60 + minutes[index]
    later = [candidate for candidate in schedule.hour if candidate > hour]
    return min(later) * 60 + min(schedule.minute) if later else None


def _local_times(schedule: crontab, day: date) -> Iterator[datetime]:
    for hour in sorted(schedule.hour):
        for minute in sorted(schedule.minute):
            yield datetime(day.year, day.month, day.day, hour, minute)


def _fixed_instants(schedule: crontab, zone: tzinfo, day: date) -> list[datetime]:
    """Each local time of a date with a shift, those in the gap at its end; several at one instant are one."""
    instants: set[datetime] = set()
    for local in _local_times(schedule, day):
        instant = instant_of(local, zone) or _gap_end_on(local, zone)
        if instant is not None:
            instants.add(instant)
    return sorted(instants)


def _gap_end_on(local: datetime, zone: tzinfo) -> datetime | None:
    """The end of the gap, unless it swallows the whole date: one that does not exist has no run.

    A gap may be the end of its date (America/Nuuk, from 23:00): then the run is at midnight, so that no day is lost.
    """
    end = gap_end(local, zone)
    dates = {instant.astimezone(zone).date() for instant in (end - _MINUTE, end)}
    return end if local.date() in dates else None


def _repeating_instants(schedule: crontab, zone: tzinfo, day: date) -> Iterator[datetime]:
    """Each minute that exists on a date with a shift and matches, in elapsed order."""
    found = False
    for instant in _minutes_of(day, zone):
        local = instant.astimezone(zone)
        if local.date() == day and local.hour in schedule.hour and local.minute in schedule.minute:
            found = True
            yield instant
    if not found:
        yield from _fixed_instants(schedule, zone, day)[:1]


def _minutes_of(day: date, zone: tzinfo) -> Iterator[datetime]:
    midnight = datetime(day.year, day.month, day.day)
    start, stop = to_utc(midnight, zone), to_utc((midnight + _DAY).replace(fold=1), zone)
    while start < stop:
        yield start
        start += _MINUTE
