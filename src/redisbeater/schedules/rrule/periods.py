"""The periods of a recurrence rule (years, months, weeks, or units of one length) and the days that match.

Such a rule proceeds in units of one length, numbered from the first day of the calendar, and arithmetic finds those
that are in phase. An occurrence lies in a unit that is in phase, on a day that matches, at an allowed time.

The allowed times of a day are a row of bytes, one for each unit. Those in phase are a slice of it, which is the same
for all days on which the phase falls alike.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import isleap
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, date, datetime, timedelta
from functools import cached_property, lru_cache
from math import gcd
from typing import Any, Protocol

from dateutil.rrule import DAILY, MONTHLY, WEEKLY, YEARLY, weekday
from dateutil.rrule import rrule as dateutil_rrule

from redisbeater.schedules.budget import Steps
from redisbeater.schedules.rrule.rule import (
    CLOCK_SECONDS,
    DAY_SECONDS,
    Numbers,
    RecurrenceRule,
    clock_numbers,
    second_of,
    seconds_of,
    unit_seconds,
)


class Period(Protocol):
    """The occurrences of a period, in order and computed lazily."""

    @property
    def earliest(self) -> int:
        """A second before which there is none of them; 0 if there is none at all."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> int: ...

    def rank(self, second: int) -> int:
        """Return how many occurrences are before a second."""

    def since(self, second: int) -> Iterator[int]:
        """Yield the occurrences that are not before a second."""

    def before(self, second: int) -> Iterator[int]:
        """Yield the occurrences before a second, the newest first."""


@dataclass(frozen=True)
class DaysAtTimes:
    """Each day at each time, or those of them at the positions."""

    days: Sequence[int]
    times: Sequence[int]
    positions: Sequence[int] | None

    @property
    def earliest(self) -> int:
        """The begin of the first day; 0 if there is none."""
        return self.days[0] * DAY_SECONDS if self.days else 0

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int) -> int:
        day, time = divmod(self._indices[index], len(self.times))
        return self.days[day] * DAY_SECONDS + self.times[time]

    @cached_property
    def _indices(self) -> Sequence[int]:
        return indices_at(self.positions, len(self.days) * len(self.times))

    def rank(self, second: int) -> int:
        """Return how many occurrences are before a second."""
        return bisect_left(self, second)

    def since(self, second: int) -> Iterator[int]:
        """Yield the occurrences that are not before a second."""
        return (self[index] for index in range(self.rank(second), len(self)))

    def before(self, second: int) -> Iterator[int]:
        """Yield the occurrences before a second, the newest first."""
        return (self[index] for index in reversed(range(self.rank(second))))


def indices_at(positions: Sequence[int] | None, count: int) -> Sequence[int]:
    """Return the indices of the positions, which count from 1 or from the end; all indices if there are none."""
    if not positions:
        return range(count)
    indices = {position - 1 if position > 0 else position + count for position in positions}
    return sorted(index for index in indices if 0 <= index < count)


#: What it takes dateutil to find the days of a month and of a year.
_MONTH_DAYS_STEPS, _YEAR_STEPS = 110, 350


@dataclass(frozen=True, kw_only=True)
class DayFilter:
    """The parts of a rule that select days.

    The number of a weekday counts in the year if that is the frequency, else in the month; dateutil ignores it in
    rules of weeks and shorter periods.
    """

    freq: int
    wkst: int
    bymonth: Numbers | None
    bymonthday: Numbers | None
    byyearday: Numbers | None
    byeaster: Numbers | None
    byweekno: Numbers | None
    byweekday: tuple[weekday, ...] | None

    @classmethod
    def of(cls, rule: RecurrenceRule) -> DayFilter:
        """Return the filter of a pinned rule."""
        names = ("wkst", "bymonth", "bymonthday", "byyearday", "byeaster", "byweekno")
        parts = {name: getattr(rule, name) for name in names}
        if rule.freq <= MONTHLY:
            return cls(freq=rule.freq, byweekday=_uniform_weekdays(rule), **parts)
        plain = None if rule.byweekday is None else tuple(weekday(day.weekday) for day in rule.byweekday)
        return cls(freq=MONTHLY, byweekday=plain, **parts)


def _uniform_weekdays(rule: RecurrenceRule) -> tuple[weekday, ...] | None:
    """Return weekdays all numbered or none: dateutil reads "Mondays and the last Friday" as their intersection."""
    days = rule.byweekday
    if not days or all(day.n for day in days) or not any(day.n for day in days):
        return days
    numbers = range(1, rule.max_weekday_number + 1)
    return tuple(numbered for day in days for numbered in ([day] if day.n else map(day, numbers)))


def matching_days(parts: DayFilter, year: int, month: int, steps: Steps) -> Sequence[int]:
    """Return the ordinals of the days that match in a month, or in a year if the filter is for years.

    Years with the same weekdays and leap days match alike, and so do months: few are computed, and these remembered.
    """
    if parts.freq == MONTHLY and parts.bymonth and month not in parts.bymonth:
        return ()
    model = year if parts.byeaster else _MODELS[_pattern(parts, year, month)]
    steps.take_once((parts, model, month), _MONTH_DAYS_STEPS if parts.freq == MONTHLY else _YEAR_STEPS)
    days = _computed_days(parts, model, month)
    if model == year:
        return days
    moved = date(year, month, 1).toordinal() - date(model, month, 1).toordinal()
    return [day + moved for day in days]


def _pattern(parts: DayFilter, year: int, month: int) -> Hashable:
    """Return a key of the days that match; weeks at the ends of a year depend on the years around it."""
    if parts.byweekno:
        return _year_pattern(year)
    return _year_pattern(year)[:2] if parts.freq == YEARLY or parts.byyearday else _month_pattern(year, month)


def _year_pattern(year: int) -> tuple[int, bool, bool, bool]:
    return date(year, 1, 1).weekday(), isleap(year), isleap(year - 1), isleap(year + 1)


def _month_pattern(year: int, month: int) -> tuple[str, int, int, bool]:
    return "month", month, date(year, month, 1).weekday(), month == 2 and isleap(year)


#: A year for each pattern: after 28 years, all are repeated.
_MODELS: dict[Hashable, int] = {
    pattern: year
    for year in range(2000, 2028)
    for pattern in (
        _year_pattern(year),
        _year_pattern(year)[:2],
        *(_month_pattern(year, month) for month in range(1, 13)),
    )
}


@lru_cache(maxsize=1024)
def _computed_days(parts: DayFilter, year: int, month: int) -> tuple[int, ...]:
    frequency: Any = parts.freq  # an int here, one of seven literals to dateutil
    # What dateutil takes for weeks 52 and 53 is wrong where the year turns, so weeks are numbered here.
    given = {
        name: value for name, value in vars(parts).items() if name not in ("freq", "byweekno") and value is not None
    }
    given.setdefault("byweekday", range(7))  # otherwise dateutil uses the weekday of dtstart
    # Without a match, dateutil steps on to the year 9999; with an interval this long, that is a single step.
    days = dateutil_rrule(frequency, dtstart=datetime(year, month, 1), interval=12 * MAXYEAR, **given)
    return tuple(day for day in map(date.toordinal, days) if _is_in_weeks(day, parts))


def _is_in_weeks(day: int, parts: DayFilter) -> bool:
    """Tell whether the week of a day is one of those that the filter lists, if any, from the begin or the end.

    A week belongs to the year in which most of its days lie (RFC 5545, ISO 8601), so its fourth day decides.
    """
    if parts.byweekno is None:
        return True
    middle = day - (day - 1 - parts.wkst) % 7 + 3
    new_year = date(date.fromordinal(middle).year, 1, 1)
    number = (middle - new_year.toordinal()) // 7
    weeks = number + 1 + (date(new_year.year, 12, 31).toordinal() - middle) // 7
    return number + 1 in parts.byweekno or number - weeks in parts.byweekno


#: How many units of a day are looked at in one step: this is fast.
_UNITS_OF_A_STEP = 400


@dataclass(frozen=True, kw_only=True)
class Units:
    """What selects the units of a rule, and the seconds within a unit that are occurrences."""

    start: int
    interval: int
    unit: int
    days: DayFilter
    allowed: bytes
    within: Sequence[int]
    #: The allowed units of a day that are in phase, by the first of them: many days share a few.
    rows: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, rule: RecurrenceRule) -> Units:
        """Return the units of a pinned rule."""
        unit, numbers, finer = unit_seconds(rule), clock_numbers(rule), rule.freq - DAILY
        seconds = seconds_of(numbers[finer:], CLOCK_SECONDS[finer:])
        return cls(
            start=second_of(rule.start) // unit,
            interval=rule.interval,
            unit=unit,
            days=DayFilter.of(rule),
            allowed=_allowed(numbers[:finer]),
            within=[seconds[index] for index in indices_at(rule.bysetpos, len(seconds))],
        )

    @property
    def per_day(self) -> int:
        """How many units a day has."""
        return DAY_SECONDS // self.unit

    @cached_property
    def never_match(self) -> bool:
        """Whether no unit in phase is allowed on any day."""
        common = gcd(self.interval, self.per_day)
        return not self.within or 1 not in self.allowed[self.start % common :: common]

    def in_phase(self, number: int) -> int:
        """Return the first unit in phase that is not before the given one."""
        return self.start - (self.start - number) // self.interval * self.interval

    def first_of(self, day: int) -> int:
        """Return the first unit of a day that is in phase, counted from midnight; it may lie on a later day."""
        midnight = day * self.per_day
        return self.in_phase(midnight) - midnight

    def row(self, first: int, steps: Steps) -> bytes:
        """Return the units of a day in phase, from the first: 1 for those that are allowed."""
        steps.take(2)
        found = self.rows.get(first)
        if found is None:
            found = self.rows[first] = self.allowed[first :: self.interval]
            steps.take(2 + len(found) // _UNITS_OF_A_STEP)
        return found


def _allowed(numbers: Sequence[Sequence[int]]) -> bytes:
    """Return 1 for each unit of a day whose hour, minute and second are allowed, as far as it has these."""
    row = b"\x01"
    for size, allowed in zip((60, 60, 24)[3 - len(numbers) :], reversed(numbers)):
        nothing, chosen = bytes(len(row)), set(allowed)
        row = b"".join(row if number in chosen else nothing for number in range(size))
    return row


@dataclass(frozen=True)
class MonthOfUnits:
    """The occurrences of a month by units."""

    units: Units
    month: date
    steps: Steps

    @property
    def earliest(self) -> int:
        """The begin of the month."""
        return self.month.toordinal() * DAY_SECONDS

    def __len__(self) -> int:
        return sum(map(self._count, self._days))

    def __getitem__(self, index: int) -> int:
        number, second = divmod(index, len(self.units.within))
        for day in self._days:
            first = self.units.first_of(day)
            row = self.units.row(first, self.steps)
            if number < (allowed := row.count(1)):
                position = bisect_left(range(len(row)), number + 1, key=lambda at: row.count(1, 0, at + 1))
                begin = (first + position * self.units.interval) * self.units.unit
                return day * DAY_SECONDS + begin + self.units.within[second]
            number -= allowed
        raise IndexError(index)

    def rank(self, second: int) -> int:
        """Return how many occurrences are before a second."""
        today, time = divmod(second, DAY_SECONDS)
        days = self._days[: bisect_left(self._days, today)]
        total = sum(map(self._count, days))
        if today not in self._days:
            return total
        first = self.units.first_of(today)
        row, unit = self.units.row(first, self.steps), time // self.units.unit
        index = max(-(-(unit - first) // self.units.interval), 0)  # of the first unit in phase that is not before
        total += row.count(1, 0, index) * len(self.units.within)
        is_inside = first + index * self.units.interval == unit and row[index : index + 1] == b"\x01"
        return total + (bisect_left(self.units.within, time % self.units.unit) if is_inside else 0)

    def since(self, second: int) -> Iterator[int]:
        """Yield the occurrences that are not before a second."""
        today, time = divmod(second, DAY_SECONDS)
        for day in self._days[bisect_left(self._days, today) :]:
            yield from self._on(day, time if day == today else 0)

    def before(self, second: int) -> Iterator[int]:
        """Yield the occurrences before a second, the newest first."""
        today, time = divmod(second, DAY_SECONDS)
        for day in reversed(self._days[: bisect_right(self._days, today)]):
            yield from self._on_backwards(day, time if day == today else DAY_SECONDS)

    @cached_property
    def _days(self) -> Sequence[int]:
        return matching_days(self.units.days, self.month.year, self.month.month, self.steps)

    def _count(self, day: int) -> int:
        row = self.units.row(self.units.first_of(day), self.steps)
        self.steps.take(len(row) // _UNITS_OF_A_STEP)
        return row.count(1) * len(self.units.within)

    def _on(self, day: int, time: int) -> Iterator[int]:
        """Yield the occurrences of a day from a second of it on."""
        units, first = self.units, self.units.first_of(day)
        row, earliest = units.row(first, self.steps), day * DAY_SECONDS + time
        index = row.find(1, max(-(-(time // units.unit - first) // units.interval), 0))
        while index >= 0:
            begin = day * DAY_SECONDS + (first + index * units.interval) * units.unit
            for second in units.within:
                if begin + second >= earliest:
                    yield begin + second
            index = row.find(1, index + 1)

    def _on_backwards(self, day: int, time: int) -> Iterator[int]:
        """Yield the occurrences of a day before a second of it, the newest first."""
        units, first = self.units, self.units.first_of(day)
        row, limit = units.row(first, self.steps), day * DAY_SECONDS + time
        index = row.rfind(1, 0, max((time // units.unit - first) // units.interval + 1, 0))
        while index >= 0:
            begin = day * DAY_SECONDS + (first + index * units.interval) * units.unit
            for second in reversed(units.within):
                if begin + second < limit:
                    yield begin + second
            index = row.rfind(1, 0, index)


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
