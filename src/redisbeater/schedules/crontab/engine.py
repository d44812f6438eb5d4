"""The fire times of a Celery crontab, exact across DST.

Celery matches wall-clock fields and skips the repeated hour in autumn. Here a crontab is either *fixed*
(``30 2 * * *``: once a day) or *repeating* (``*/10 * * * *``: elapsed time):

- fixed: each local time once, the first of a repeated pair; one in a gap fires when the gap ends, on the same date;
- repeating: each existing local time, both of a repeated pair; only when a gap swallows all of a date's times, one
  run when it ends, so that no day is lost.

The day fields are tested on the local date, and both must match (Celery's rule).

While the offset is steady, a fire time is a slot (a local time that the fields allow) minus the offset. At a shift
there are the slots until then, those that a gap moves to its end, and those from where the crontab goes on.
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

__all__ = ("count", "is_repeating", "next_fire_time", "nominal_times")

#: Two leap days of one weekday are at most 40 years apart (around 2100).
_YEARS_AHEAD = 41

#: Of the year after it, Python has no following one.
_LAST_YEAR = date.max.year - 1

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)
_ALL_HOURS = set(range(24))


def is_repeating(schedule: crontab) -> bool:
    """Whether the crontab means elapsed time: a ``*`` or a step in minute or hour, or all 24 hours."""
    texts = (schedule._orig_minute, schedule._orig_hour)
    return any(isinstance(text, str) and ("*" in text or "/" in text) for text in texts) or schedule.hour == _ALL_HOURS


def next_fire_time(schedule: crontab, zone: tzinfo, after: datetime) -> datetime | None:
    """The first fire time after an instant, both aware UTC; None when none comes in the next 41 years."""
    first = _first_day(schedule, zone, after)
    last = date(min(first.year + _YEARS_AHEAD, _LAST_YEAR), 12, 31)
    for day in matching_days(schedule, first, last):
        fire_time = _next_on_day(schedule, zone, day, after)
        if fire_time is not None:
            return fire_time
    return None


def count(schedule: crontab, zone: tzinfo, first: datetime, last: datetime) -> int:
    """How many fire times lie between two instants, aware UTC and both included; counted by days, not one by one."""
    total, start, offset = 0, first, offset_during(first, zone)
    for shift in shifts_between(first - _DAY, last, zone):  # of one just before, a repeated time may be left
        total += count_slots(schedule, _local(start, shift.before), shift.from_local)
        if shift.at >= first and _moved_slots(schedule, shift) and not is_slot(schedule, shift.to_local):
            total += 1
        start, offset = max(first, _resumes_at(schedule, shift)), shift.after
    return total + count_slots(schedule, _local(start, offset), _local(last + _MICROSECOND, offset))


def nominal_times(schedule: crontab, zone: tzinfo, fire_time: datetime) -> tuple[datetime, ...]:
    """The naive local times that a fire time (aware UTC) stands for, in order; none if it is no fire time.

    That is what the clock shows; when a gap ends, also, or only, the times in the gap that were moved there.
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
    """The first local date to look at: that of an instant, or, where it does not match, the one before.

    A clock that is put back across midnight brings that one back (America/St_Johns until 2011, at 00:01); on a date
    that matches, :func:`_next_around` sees to it.
    """
    today = after.astimezone(zone).date()
    return today if is_matching_day(schedule, today) else today - _DAY


def _next_on_day(schedule: crontab, zone: tzinfo, day: date, after: datetime) -> datetime | None:
    offset = steady_offset(day, zone, after)
    if offset is None:
        return _next_around(schedule, shift_on(day, zone), day, after)
    start = datetime(day.year, day.month, day.day, tzinfo=timezone.utc) - offset
    # Of a minute that has begun, the next one counts; of a day that has not, the first.
    minute = minute_from(schedule, max((after - start) // _MINUTE + 1, 0))
    return None if minute is None else start + minute * _MINUTE


def _next_around(schedule: crontab, shift: Shift, day: date, after: datetime) -> datetime | None:
    """The same on a date with a shift: before it, at the end of a gap, or from where the crontab goes on.

    In elapsed order, whatever the date of a slot: midnight may be repeated, too.
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
    """From when on slots count again: at once, or, if fixed, when no local time is a repeated one any more."""
    repeated = shift.before - shift.after
    return shift.at if is_repeating(schedule) else max(shift.at, shift.at + repeated)


def _moved_slots(schedule: crontab, shift: Shift) -> list[datetime]:
    """The slots in a gap that fire when it ends: all, or, if repeating, those of a date that has no others.

    None of a date that is all gap, for it does not exist. A gap may be the end of its date (America/Nuuk, from 23:00):
    then the run is at midnight, so that no day is lost.
    """
    if shift.after < shift.before:
        return []
    days = {(shift.from_local - _SECOND).date(), shift.to_local.date()}
    if is_repeating(schedule):
        days = {day for day in days if _is_swallowed(schedule, day, shift)}
    return [slot for slot in slots(schedule, shift.from_local, shift.to_local) if slot.date() in days] if days else []


def _is_swallowed(schedule: crontab, day: date, shift: Shift) -> bool:
    """Whether all slots of a date lie in a gap."""
    first = time(min(schedule.hour), min(schedule.minute))
    last = time(max(schedule.hour), max(schedule.minute))
    return shift.from_local <= datetime.combine(day, first) and datetime.combine(day, last) < shift.to_local


def _local(instant: datetime, offset: timedelta) -> datetime:
    return (instant + offset).replace(tzinfo=None)


def _instant(local: datetime, offset: timedelta) -> datetime:
    return (local - offset).replace(tzinfo=timezone.utc)
