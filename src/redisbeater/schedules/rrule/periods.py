"""The periods of a recurrence rule, forwards and backwards: years, months or weeks, or the months of its units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, date, timedelta
from functools import cached_property
from typing import Protocol

from dateutil.rrule import DAILY, MONTHLY, WEEKLY, YEARLY

from redisbeater.schedules.budget import Steps
from redisbeater.schedules.rrule.clock import DAY_SECONDS, second_of
from redisbeater.schedules.rrule.matching_days import DayFilter, matching_days
from redisbeater.schedules.rrule.period import DaysAtTimes, Period
from redisbeater.schedules.rrule.rule import RecurrenceRule
from redisbeater.schedules.rrule.time_of_day import CLOCK_SECONDS, clock_numbers, seconds_of
from redisbeater.schedules.rrule.units import MonthOfUnits, Units

__all__ = ("END_OF_CALENDAR", "Periods", "periods_of")

#: The first day that no rule reaches, because in UTC a later local time may not fit into a datetime.
_END = date(MAXYEAR, 1, 1).toordinal()

#: The second at which every rule ends.
END_OF_CALENDAR = _END * DAY_SECONDS

#: What it takes to go to the next period, by frequency, because a year has more days.
_PERIOD_STEPS = {YEARLY: 24, MONTHLY: 16, WEEKLY: 6}
_MONTH_STEPS = 16

#: What it takes to find the days of a week in the months in which it lies.
_WEEK_STEPS = 24


class Periods(Protocol):
    """The periods of a rule that are in phase."""

    @property
    def per_year(self) -> int:
        """How many a year has at most."""

    def forwards(self, begin: int, end: int) -> Iterator[Period]:
        """Yield the periods from that of a second, or the one before, to that of another."""

    def backwards(self, begin: int, end: int) -> Iterator[Period]:
        """Yield the periods from that of a second, or the one before, back to that of an earlier one."""


def periods_of(rule: RecurrenceRule, steps: Steps) -> Periods:
    """Return the periods of a pinned rule; looking at one takes steps."""
    if rule.freq in (WEEKLY, DAILY) and rule.interval == 1 and not rule.bysetpos:
        return _CalendarPeriods(rule, MONTHLY, steps)  # every week or day: months are fewer
    return _CalendarPeriods(rule, rule.freq, steps) if rule.freq <= WEEKLY else _UnitPeriods(Units.of(rule), steps)


@dataclass(frozen=True)
class _CalendarPeriods:
    """Years, months or weeks, numbered from the first day of the calendar."""

    rule: RecurrenceRule
    freq: int
    steps: Steps

    @property
    def per_year(self) -> int:
        return {YEARLY: 1, MONTHLY: 12, WEEKLY: 53}[self.freq]

    def forwards(self, begin: int, end: int) -> Iterator[Period]:
        last = self._number(min(end, END_OF_CALENDAR - 1))
        return map(self._period, range(self._in_phase(begin), last + 1, self.rule.interval))

    def backwards(self, begin: int, end: int) -> Iterator[Period]:
        last = max(self._number(end), self._start)
        return map(self._period, range(self._in_phase(begin), last - 1, -self.rule.interval))

    @cached_property
    def _start(self) -> int:
        return self._number(second_of(self.rule.start))

    @cached_property
    def _days(self) -> DayFilter:
        return DayFilter.of(self.rule)

    @cached_property
    def _weekdays(self) -> frozenset[int] | None:
        """The days of the week that match, if nothing else is asked of a day."""
        parts = self._days
        if parts.byweekday is None or any((parts.bymonth, parts.bymonthday, parts.byyearday, parts.byweekno)):
            return None
        return None if parts.byeaster else frozenset(day.weekday for day in parts.byweekday)

    @cached_property
    def _times(self) -> list[int]:
        times = seconds_of(clock_numbers(self.rule), CLOCK_SECONDS)
        self.steps.take(len(times) // 8)
        return times

    def _in_phase(self, second: int) -> int:
        """Return the number of the rule's last period that is not after that of a second."""
        return self._start + (self._number(second) - self._start) // self.rule.interval * self.rule.interval

    def _number(self, second: int) -> int:
        ordinal = min(second // DAY_SECONDS, _END - 1)
        if self.freq == WEEKLY:
            return (ordinal - 1 - self.rule.wkst) // 7
        day = date.fromordinal(ordinal)
        return day.year if self.freq == YEARLY else day.year * 12 + day.month - 1

    def _period(self, number: int) -> Period:
        self.steps.take(_PERIOD_STEPS[self.freq])
        return DaysAtTimes(self._days_of(number), self._times, self.rule.bysetpos)

    def _days_of(self, number: int) -> Sequence[int]:
        if self.freq == WEEKLY:
            # Like in dateutil, positions in the first week count from the start of the rule.
            first = number * 7 + 1 + self.rule.wkst
            return self._matching_in(range(max(first, self.rule.start.toordinal()), first + 7))
        year, month = (number, 1) if self.freq == YEARLY else (number // 12, number % 12 + 1)
        return matching_days(self._days, year, month, self.steps)

    def _matching_in(self, week: range) -> list[int]:
        if self._weekdays is not None:
            return [day for day in week if (day - 1) % 7 in self._weekdays]
        self.steps.take(_WEEK_STEPS)
        months = sorted({(day.year, day.month) for day in map(date.fromordinal, (week[0], week[-1]))})
        return [day for month in months for day in matching_days(self._days, *month, self.steps) if day in week]


@dataclass(frozen=True)
class _UnitPeriods:
    """Months of units, without the months that the rule steps over."""

    units: Units
    steps: Steps

    per_year = 12

    def forwards(self, begin: int, end: int) -> Iterator[Period]:
        day, last = begin // DAY_SECONDS, min(end // DAY_SECONDS, _END - 1)
        while not self.units.never_match:
            day = self.units.in_phase(day * self.units.per_day) // self.units.per_day
            if day > last:
                return
            month = date.fromordinal(day).replace(day=1)
            yield self._month(month)
            day = (month + timedelta(days=31)).replace(day=1).toordinal()

    def backwards(self, begin: int, end: int) -> Iterator[Period]:
        day, last = begin // DAY_SECONDS, max(end // DAY_SECONDS, self.units.start // self.units.per_day)
        while not self.units.never_match:
            day = (self.units.in_phase((day + 1) * self.units.per_day) - self.units.interval) // self.units.per_day
            if day < last:
                return
            month = date.fromordinal(day).replace(day=1)
            yield self._month(month)
            day = month.toordinal() - 1

    def _month(self, month: date) -> MonthOfUnits:
        self.steps.take(_MONTH_STEPS)
        return MonthOfUnits(self.units, month, self.steps)
