"""Fire times of a crontab, exact across DST.

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

import json
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any

from celery.schedules import BaseSchedule, crontab

from redisbeater.schedules.budget import Steps
from redisbeater.schedules.crontab_text import (
    PATH,
    cron_fields,
    cron_text,
    field_texts,
    joined_fields,
    make_crontab,
)
from redisbeater.schedules.english import (
    dates_in_words,
    days_in_words,
    even_dates_in_words,
    kind_in_words,
    times_in_words,
    weekday_names,
    zone_text,
)
from redisbeater.schedules.kind import ScheduleKind
from redisbeater.schedules.zones import Shift, offset_during, shift_on, shifts_between, steady_offset

_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)
_ALL_HOURS = set(range(24))

#: How many crontabs are remembered as valid.
MAX_REMEMBERED = 10_000


class Slots(ABC):
    """The slots of one schedule. A time of the day is a number of units since midnight.

    Attributes:
        unit: the distance of two slots at least.
    """

    __slots__ = ()

    unit: timedelta

    @property
    @abstractmethod
    def is_repeating(self) -> bool:
        """Whether the schedule means elapsed time: ``*`` or a step in a field of the time, or all 24 hours."""

    @abstractmethod
    def is_matching_day(self, day: date) -> bool:
        """Tell whether the day fields allow a date."""

    @abstractmethod
    def matching_days(self, first: date, last: date) -> Iterator[date]:
        """Yield the dates from ``first`` to ``last``, both included, that the day fields allow."""

    @abstractmethod
    def time_from(self, least: int, day: date) -> int | None:
        """Return the first time of a date, ``least`` or later, that the other fields allow; None if there is none."""

    @abstractmethod
    def count_times(self, before: int, day: date) -> int:
        """Count the times of a date that the other fields allow, before one of them."""

    def count_days(self, first: date, last: date) -> int:
        """Count the dates from ``first`` to ``last``, both included, that the day fields allow."""
        return sum(1 for _ in self.matching_days(first, last))

    def count_on_days(self, first: date, last: date) -> int:
        """Count the slots on the dates from ``first`` to ``last``, both included; each date has as many."""
        return self.count_days(first, last) * self.count_times(_DAY // self.unit, first)

    def first(self, start: datetime, stop: datetime) -> datetime | None:
        """Return the first slot from ``start`` on and before ``stop``; None when there is none."""
        if start >= stop:
            return None
        for day in self.matching_days(start.date(), stop.date()):
            midnight = datetime(day.year, day.month, day.day)
            time = self.time_from(self._begun(start) if start > midnight else 0, day)
            if time is not None:
                slot = midnight + time * self.unit
                return slot if slot < stop else None
        return None

    def between(self, start: datetime, stop: datetime) -> Iterator[datetime]:
        """Yield the slots from ``start`` on and before ``stop``, in order."""
        slot = self.first(start, stop)
        while slot is not None:
            yield slot
            slot = self.first(slot + self.unit, stop)

    def contains(self, local: datetime) -> bool:
        """Tell whether a local time is a slot."""
        return self.first(local, local + _MICROSECOND) is not None

    def count(self, start: datetime, stop: datetime) -> int:
        """Count the slots from ``start`` on and before ``stop``, by days instead of one by one."""
        if start >= stop:
            return 0
        in_all_days = self.count_on_days(start.date(), stop.date() - _DAY)
        return in_all_days - self._count_before(start) + self._count_before(stop)

    def _count_before(self, local: datetime) -> int:
        """Count the slots before a local time on its date."""
        day = local.date()
        return self.count_times(self._begun(local), day) if self.is_matching_day(day) else 0

    def _begun(self, local: datetime) -> int:
        """Return how many units of its date have begun before a local time."""
        return -((datetime(local.year, local.month, local.day) - local) // self.unit)


class CrontabSlots(Slots):
    """The slots of a Celery crontab."""

    __slots__ = ("_schedule",)

    unit = timedelta(minutes=1)

    def __init__(self, schedule: crontab) -> None:
        self._schedule = schedule

    @property
    def is_repeating(self) -> bool:
        """Whether it has ``*`` or a step in minute or hour, or all 24 hours."""
        texts = (self._schedule._orig_minute, self._schedule._orig_hour)
        has_star = any(isinstance(text, str) and ("*" in text or "/" in text) for text in texts)
        return has_star or self._schedule.hour == _ALL_HOURS

    def is_matching_day(self, day: date) -> bool:
        """Tell whether all three day fields allow a date."""
        schedule = self._schedule
        return (
            day.month in schedule.month_of_year
            and day.day in schedule.day_of_month
            and day.isoweekday() % 7 in schedule.day_of_week
        )

    def matching_days(self, first: date, last: date) -> Iterator[date]:
        """Yield the dates from ``first`` to ``last``, both included, that all three day fields allow."""
        months, day = self._schedule.month_of_year, first
        while day <= last:
            if day.month not in months:
                day = self._next_matching_month(day)
                continue
            if self.is_matching_day(day):
                yield day
            day += _DAY

    def time_from(self, least: int, day: date) -> int | None:
        """Return the first minute of a day, ``least`` or later, that the minute and hour fields allow."""
        schedule = self._schedule
        hour, minute = divmod(least, 60)
        if hour in schedule.hour:
            minutes = sorted(schedule.minute)
            index = bisect_left(minutes, minute)
            if index < len(minutes):
                return hour * 60 + minutes[index]
        later = [candidate for candidate in schedule.hour if candidate > hour]
        return min(later) * 60 + min(schedule.minute) if later else None

    def count_times(self, before: int, day: date) -> int:
        """Count the minutes of a day that the minute and hour fields allow, before one of them."""
        schedule = self._schedule
        hour, minute = divmod(before, 60)
        in_earlier_hours = sum(1 for candidate in schedule.hour if candidate < hour) * len(schedule.minute)
        in_this_hour = sum(1 for candidate in schedule.minute if candidate < minute) if hour in schedule.hour else 0
        return in_earlier_hours + in_this_hour

    def _next_matching_month(self, day: date) -> date:
        """Return the first day of the next month that the crontab allows."""
        months = self._schedule.month_of_year
        later = [month for month in months if month > day.month]
        return date(day.year, min(later), 1) if later else date(day.year + 1, min(months), 1)


def slots_of(schedule: Any) -> Slots:
    """Return the slots of a Celery crontab or of a cron expression.

    Raises:
        InvalidEntry: it is a cron expression with ``H``, and has no name yet.
    """
    return CrontabSlots(schedule) if isinstance(schedule, crontab) else schedule.slots


#: Two leap days of one weekday are at most 40 years apart (around 2100).
_YEARS_AHEAD = 41

#: The last year that is searched: each date of it has a following date in Python.
_LAST_YEAR = date.max.year - 1

_SECOND = timedelta(seconds=1)


def is_repeating(schedule: Any) -> bool:
    """Tell whether a crontab means elapsed time: ``*`` or a step in a field of the time, or all 24 hours."""
    return slots_of(schedule).is_repeating


def next_fire_time(schedule: Any, zone: tzinfo, after: datetime, steps: Steps | None = None) -> datetime | None:
    """Return the first fire time after an instant, both aware UTC; None when there is none within 41 years.

    It takes so little that no steps are counted.
    """
    slots, today = slots_of(schedule), after.astimezone(zone).date()
    if today.year > _LAST_YEAR:
        return None
    is_today = slots.is_matching_day(today)
    fire_time = _next_on_day(slots, zone, today, after) if is_today else None
    if fire_time is not None:
        return fire_time
    # A clock that is put back across midnight shows the date before again (America/St_Johns until 2011, at 00:01). For
    # a date that matches, _next_around handles this.
    first = today + _DAY if is_today else today - _DAY
    for day in slots.matching_days(first, date(min(first.year + _YEARS_AHEAD, _LAST_YEAR), 12, 31)):
        fire_time = _next_on_day(slots, zone, day, after)
        if fire_time is not None:
            return fire_time
    return None


def fires_at(schedule: Any, zone: tzinfo, instant: datetime) -> bool:
    """Tell whether an instant, aware UTC, is a fire time; if it is a slot, that is much faster than a search."""
    local = instant.astimezone(zone)
    if not local.fold and slots_of(schedule).contains(local.replace(tzinfo=None)):
        return True
    return next_fire_time(schedule, zone, instant - _MICROSECOND) == instant


def count(schedule: Any, zone: tzinfo, first: datetime, last: datetime) -> int:
    """Count the fire times between two instants, aware UTC and both included, by days instead of one by one."""
    slots = slots_of(schedule)
    total, start, offset = 0, first, offset_during(first, zone)
    for shift in shifts_between(first - _DAY, last, zone):  # a shift just before may have left a repeated time
        total += slots.count(_local(start, shift.before), shift.from_local)
        if shift.at >= first and _has_moved_slots(slots, shift) and not slots.contains(shift.to_local):
            total += 1
        start, offset = max(first, _resumes_at(slots, shift)), shift.after
    return total + slots.count(_local(start, offset), _local(last + _MICROSECOND, offset))


def nominal_times(schedule: Any, zone: tzinfo, fire_time: datetime) -> tuple[datetime, ...]:
    """Return the naive local times that fire at an instant (aware UTC), in order; none if it is not a fire time.

    This is what the clock shows if that is a slot and, when a gap ends, the slots in the gap that were moved there.
    """
    just_before, slots = fire_time - _MICROSECOND, slots_of(schedule)
    if next_fire_time(schedule, zone, just_before) != fire_time:
        return ()
    shown = _local(fire_time, offset_during(fire_time, zone))
    times = [shown] if slots.contains(shown) else []
    for shift in shifts_between(just_before, fire_time, zone):
        times = [*_moved_slots(slots, shift), *times]
    return tuple(times)


def _next_on_day(slots: Slots, zone: tzinfo, day: date, after: datetime) -> datetime | None:
    offset = steady_offset(day, zone, after)
    if offset is None:
        return _next_around(slots, shift_on(day, zone), day, after)
    start = datetime(day.year, day.month, day.day, tzinfo=timezone.utc) - offset
    # A unit that has begun is too late, so the next one counts; before the day begins, its first unit counts.
    time = slots.time_from(max((after - start) // slots.unit + 1, 0), day)
    return None if time is None else start + time * slots.unit


def _next_around(slots: Slots, shift: Shift, day: date, after: datetime) -> datetime | None:
    """Return the first fire time on a date with a shift: before it, at the end of its gap, or after it.

    The search follows elapsed time and not the dates of the slots, because midnight may be repeated, too.
    """
    midnight, earliest = datetime(day.year, day.month, day.day), after + _MICROSECOND
    slot = slots.first(max(midnight, _local(earliest, shift.before)), shift.from_local)
    if slot is not None:
        return _instant(slot, shift.before)
    if shift.at >= earliest and _has_moved_slots(slots, shift):
        return shift.at
    resumed = max(earliest, _resumes_at(slots, shift))
    slot = slots.first(_local(resumed, shift.after), midnight + _DAY)
    return None if slot is None else _instant(slot, shift.after)


def _resumes_at(slots: Slots, shift: Shift) -> datetime:
    """Return when slots count again after a shift: at once or, if the crontab is fixed, after the repeated times."""
    repeated = shift.before - shift.after
    return shift.at if slots.is_repeating else max(shift.at, shift.at + repeated)


def _has_moved_slots(slots: Slots, shift: Shift) -> bool:
    return next(_moved_slots(slots, shift), None) is not None


def _moved_slots(slots: Slots, shift: Shift) -> Iterator[datetime]:
    """Yield the slots in a gap that fire when it ends: all or, if repeating, those of a date that has no others.

    A date that lies entirely in the gap does not exist and has none. A gap may be the end of its date (America/Nuuk,
    from 23:00): then the crontab fires at midnight, so that no day is lost.
    """
    if shift.after < shift.before:
        return
    for day in sorted({(shift.from_local - _SECOND).date(), shift.to_local.date()}):
        midnight = datetime(day.year, day.month, day.day)
        start, stop = max(midnight, shift.from_local), min(midnight + _DAY, shift.to_local)
        if not slots.is_repeating or slots.count(start, stop) == slots.count(midnight, midnight + _DAY):
            yield from slots.between(start, stop)


def _local(instant: datetime, offset: timedelta) -> datetime:
    return (instant + offset).replace(tzinfo=None)


def _instant(local: datetime, offset: timedelta) -> datetime:
    return (local - offset).replace(tzinfo=timezone.utc)


class CrontabKind(ScheduleKind[Any]):
    """Celery's crontab. Cron expressions, to the second, are a kind of it."""

    __slots__ = ()

    schedule_class: type[BaseSchedule] = crontab
    name = "crontab"
    word = "cron"
    title = "Cron"
    sentence = 'Run at the times of a cron text: "0 9 * * mon-fri".'
    expected = "minute, hour, day, month, weekday: 0 9 * * mon-fri"
    foreign: tuple[str, ...] | None = ()
    is_endless = True
    is_plain = True
    is_memoryless = True

    def encode(self, schedule: Any) -> dict[str, Any]:
        """Return the fields as they were passed, as RedBeat does."""
        fields = field_texts(schedule)
        _check(json.dumps(fields))
        return fields

    def decode(self, data: dict[str, Any]) -> BaseSchedule:
        """Return the crontab of five optional fields."""
        return make_crontab(data, PATH)

    def comparable(self, data: Mapping[str, Any]) -> Any:
        """Return the fields as texts: a number is read like its text, and a missing field like ``*``."""
        return {**data, **joined_fields(data)}

    def plain_values(self, schedule: Any) -> tuple[Any, ...]:
        """Return its fields, and the zone that was passed to ``cron()``."""
        return *field_texts(schedule).values(), self.zone_name(schedule)

    def counted(self, schedule: Any, zone: tzinfo, after: datetime, until: datetime, steps: Steps) -> Iterable[int]:
        """Return the number of fire times between, found by days."""
        return (count(schedule, zone, after + _MICROSECOND, until),)

    next = staticmethod(next_fire_time)
    fires_at = staticmethod(fires_at)
    nominal_times = staticmethod(nominal_times)
    means_elapsed_time = staticmethod(is_repeating)
    cron_text = staticmethod(cron_text)
    cron_fields = staticmethod(cron_fields)
    text = staticmethod(cron_text)

    def zone_name(self, schedule: Any) -> str | None:
        """Return the zone that was passed to ``cron()``."""
        return getattr(schedule, "timezone", None)

    def is_cron(self, schedule: Any) -> bool:
        """Return True."""
        return True

    def describe(self, schedule: Any, zone: str | tzinfo | None) -> str:
        """Describe the times and days, in which zone if it is known."""
        return ", ".join(filter(None, (_sentence(schedule), zone_text(zone) or self.zone_name(schedule))))

    def describe_clock_changes(self, schedule: Any) -> str:
        """Describe whether it is repeating."""
        return kind_in_words(is_repeating(schedule), len(schedule.hour))


@lru_cache(MAX_REMEMBERED)
def _check(fields: str) -> None:
    """Check the fields of a crontab once: thousands of entries share a few, and checking one is slow."""
    make_crontab(json.loads(fields), PATH)


def _sentence(schedule: crontab) -> str:
    fields = (schedule.minute, schedule.hour, schedule.day_of_week, schedule.day_of_month, schedule.month_of_year)
    if not all(fields):
        return "never"
    times = times_in_words(sorted(schedule.minute), sorted(schedule.hour))
    return f"{times}{_days(schedule, is_listed=times.startswith('at ') and len(schedule.hour) < 24)}"


def _days(schedule: crontab, is_listed: bool) -> str:
    days = [day or 7 for day in schedule.day_of_week] if len(schedule.day_of_week) < 7 else []
    dates = sorted(schedule.day_of_month) if len(schedule.day_of_month) < 31 else []
    return days_in_words(
        weekday_names(days) if days else "",
        dates_in_words(dates) if dates else "",
        schedule.month_of_year,
        is_listed=is_listed,
        even_dates=even_dates_in_words(dates) if dates else None,
    )
