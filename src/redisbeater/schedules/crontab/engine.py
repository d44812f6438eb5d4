"""The fire times of a Celery crontab, exact across DST.

Celery matches wall-clock fields and skips the repeated hour in autumn. Here a crontab is either *fixed*
(``30 2 * * *``: once a day) or *repeating* (``*/10 * * * *``: elapsed time):

- fixed: each local time fires once, a repeated one the first time; one in a gap fires when the gap ends;
- repeating: each local time that exists fires, a repeated one both times; if a gap swallows all times of a date, the
  crontab fires once when the gap ends, so that no day is lost.

The day fields are tested on the local date, and both must match (Celery's rule).

While the offset is steady, a fire time is a slot (a local time that the fields allow) minus the offset. On a date
with a shift, the slots before the shift count, then those that a gap moves to its end, then those after the shift.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone, tzinfo

from celery.schedules import crontab

from redisbeater.schedules.crontab.slot import (
    count_slots,
    first_slot,
    is_matching_day,
    is_slot,
    matching_days,
    minute_from,
    slots,
)
from redisbeater.schedules.local_time import Shift, offset_during, shift_on, shifts_between, steady_offset

__all__ = ("count", "fires_at", "is_repeating", "next_fire_time", "nominal_times")

#: Two leap days of one weekday are at most 40 years apart (around 2100).
_YEARS_AHEAD = 41

#: The last year that is searched: each date of it has a following date in Python.
_LAST_YEAR = date.max.year - 1

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)
_ALL_HOURS = set(range(24))


def is_repeating(schedule: crontab) -> bool:
    """Tell whether a crontab means elapsed time: it has ``*`` or a step in minute or hour, or all 24 hours."""
    texts = (schedule._orig_minute, schedule._orig_hour)
    return any(isinstance(text, str) and ("*" in text or "/" in text) for text in texts) or schedule.hour == _ALL_HOURS


def next_fire_time(schedule: crontab, zone: tzinfo, after: datetime) -> datetime | None:
    """Return the first fire time after an instant, both aware UTC; None when there is none within 41 years."""
    first = _first_day(schedule, zone, after)
    last = date(min(first.year + _YEARS_AHEAD, _LAST_YEAR), 12, 31)
    for day in matching_days(schedule, first, last):
        fire_time = _next_on_day(schedule, zone, day, after)
        if fire_time is not None:
            return fire_time
    return None


def fires_at(schedule: crontab, zone: tzinfo, instant: datetime) -> bool:
    """Tell whether an instant, aware UTC, is a fire time; if it is a slot, that is much faster than a search."""
    if instant.second or instant.microsecond:
        return False
    local = instant.astimezone(zone)
    is_in_hour = local.hour in schedule.hour and local.minute in schedule.minute
    if is_in_hour and not local.fold and is_matching_day(schedule, local):
        return True
    return next_fire_time(schedule, zone, instant - _MICROSECOND) == instant


def count(schedule: crontab, zone: tzinfo, first: datetime, last: datetime) -> int:
    """Count the fire times between two instants, aware UTC and both included, by days instead of one by one."""
    total, start, offset = 0, first, offset_during(first, zone)
    for shift in shifts_between(first - _DAY, last, zone):  # a shift just before may have left a repeated time
        total += count_slots(schedule, _local(start, shift.before), shift.from_local)
        if shift.at >= first and _moved_slots(schedule, shift) and not is_slot(schedule, shift.to_local):
            total += 1
        start, offset = max(first, _resumes_at(schedule, shift)), shift.after
    return total + count_slots(schedule, _local(start, offset), _local(last + _MICROSECOND, offset))


def nominal_times(schedule: crontab, zone: tzinfo, fire_time: datetime) -> tuple[datetime, ...]:
    """Return the naive local times that fire at an instant (aware UTC), in order; none if it is not a fire time.

    This is what the clock shows if that is a slot and, when a gap ends, the slots in the gap that were moved there.
    """
    just_before = fire_time - _MICROSECOND
    if next_fire_time(schedule, zone, just_before) != fire_time:
        return ()
    shown = _local(fire_time, offset_during(fire_time, zone))
    times = [shown] if is_slot(schedule, shown) else []
    for shift in shifts_between(just_before, fire_time, zone):
        times = _moved_slots(schedule, shift) + times
    return tuple(times)


def _first_day(schedule: crontab, zone: tzinfo, after: datetime) -> date:
    """Return the local date at which the search starts: that of an instant or, if it does not match, the one before.

    A clock that is put back across midnight shows the date before again (America/St_Johns until 2011, at 00:01). For
    a date that matches, :func:`_next_around` handles this.
    """
    today = after.astimezone(zone).date()
    return today if is_matching_day(schedule, today) else today - _DAY


def _next_on_day(schedule: crontab, zone: tzinfo, day: date, after: datetime) -> datetime | None:
    offset = steady_offset(day, zone, after)
    if offset is None:
        return _next_around(schedule, shift_on(day, zone), day, after)
    start = datetime(day.year, day.month, day.day, tzinfo=timezone.utc) - offset
    # A minute that has begun is too late, so the next one counts; before the day begins, its first minute counts.
    minute = minute_from(schedule, max((after - start) // _MINUTE + 1, 0))
    return None if minute is None else start + minute * _MINUTE


def _next_around(schedule: crontab, shift: Shift, day: date, after: datetime) -> datetime | None:
    """Return the first fire time on a date with a shift: before it, at the end of its gap, or after it.

    The search follows elapsed time and not the dates of the slots, because midnight may be repeated, too.
    """
    midnight, earliest = datetime(day.year, day.month, day.day), after + _MICROSECOND
    slot = first_slot(schedule, max(midnight, _local(earliest, shift.before)), shift.from_local)
    if slot is not None:
        return _instant(slot, shift.before)
    if shift.at >= earliest and _moved_slots(schedule, shift):
        return shift.at
    resumed = max(earliest, _resumes_at(schedule, shift))
    slot = first_slot(schedule, _local(resumed, shift.after), midnight + _DAY)
    return None if slot is None else _instant(slot, shift.after)


def _resumes_at(schedule: crontab, shift: Shift) -> datetime:
    """Return when slots count again after a shift: at once or, if the crontab is fixed, after the repeated times."""
    repeated = shift.before - shift.after
    return shift.at if is_repeating(schedule) else max(shift.at, shift.at + repeated)


def _moved_slots(schedule: crontab, shift: Shift) -> list[datetime]:
    """Return the slots in a gap that fire when it ends: all or, if repeating, those of a date that has no others.

    A date that lies entirely in the gap does not exist and has none. A gap may be the end of its date (America/Nuuk,
    from 23:00): then the crontab fires at midnight, so that no day is lost.
    """
    if shift.after < shift.before:
        return []
    days = {(shift.from_local - _SECOND).date(), shift.to_local.date()}
    if is_repeating(schedule):
        days = {day for day in days if _is_swallowed(schedule, day, shift)}
    return [slot for slot in slots(schedule, shift.from_local, shift.to_local) if slot.date() in days] if days else []


def _is_swallowed(schedule: crontab, day: date, shift: Shift) -> bool:
    """Tell whether all slots of a date lie in a gap."""
    first = time(min(schedule.hour), min(schedule.minute))
    last = time(max(schedule.hour), max(schedule.minute))
    return shift.from_local <= datetime.combine(day, first) and datetime.combine(day, last) < shift.to_local


def _local(instant: datetime, offset: timedelta) -> datetime:
    return (instant + offset).replace(tzinfo=None)


def _instant(local: datetime, offset: timedelta) -> datetime:
    return (local - offset).replace(tzinfo=timezone.utc)
