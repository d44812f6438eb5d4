"""Slots: the naive local times that the fields of a schedule allow, whatever the zone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any, ClassVar

from celery.schedules import crontab

__all__ = ("CrontabSlots", "Slots", "slots_of")

_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)
_ALL_HOURS = set(range(24))


class Slots(ABC):
    """The slots of one schedule. A time of the day is a number of units since midnight.

    Attributes:
        unit: the distance of two slots at least.
    """

    __slots__ = ()

    unit: ClassVar[timedelta]

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
    def time_from(self, least: int) -> int | None:
        """Return the first time of the day, ``least`` or later, that the other fields allow; None if there is none."""

    @abstractmethod
    def count_times(self, before: int) -> int:
        """Count the times of the day that the other fields allow, before one of them."""

    @property
    @abstractmethod
    def last_time(self) -> int:
        """The last time of the day that the other fields allow."""

    def count_days(self, first: date, last: date) -> int:
        """Count the dates from ``first`` to ``last``, both included, that the day fields allow."""
        return sum(1 for _ in self.matching_days(first, last))

    def first(self, start: datetime, stop: datetime) -> datetime | None:
        """Return the first slot from ``start`` on and before ``stop``; None when there is none."""
        if start >= stop:
            return None
        for day in self.matching_days(start.date(), stop.date()):
            midnight = datetime(day.year, day.month, day.day)
            time = self.time_from(self._begun(start) if start > midnight else 0)
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
        days = self.count_days(start.date(), stop.date() - _DAY)
        in_all_days = days * self.count_times(_DAY // self.unit)
        return in_all_days - self._count_before(start) + self._count_before(stop)

    def _count_before(self, local: datetime) -> int:
        """Count the slots before a local time on its date."""
        return self.count_times(self._begun(local)) if self.is_matching_day(local.date()) else 0

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

    def time_from(self, least: int) -> int | None:
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

    def count_times(self, before: int) -> int:
        """Count the minutes of a day that the minute and hour fields allow, before one of them."""
        schedule = self._schedule
        hour, minute = divmod(before, 60)
        in_earlier_hours = sum(1 for candidate in schedule.hour if candidate < hour) * len(schedule.minute)
        in_this_hour = sum(1 for candidate in schedule.minute if candidate < minute) if hour in schedule.hour else 0
        return in_earlier_hours + in_this_hour

    @property
    def last_time(self) -> int:
        """The last minute of a day that the minute and hour fields allow."""
        return max(self._schedule.hour) * 60 + max(self._schedule.minute)

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
