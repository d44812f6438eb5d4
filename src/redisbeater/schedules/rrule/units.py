"""The occurrences of rules whose frequency is a day, an hour, a minute or a second.

Such a rule proceeds in units of one length, numbered from the first day of the calendar, and arithmetic finds those
that are in phase. An occurrence lies in a unit that is in phase, on a day that matches, at an allowed time.

The allowed times of a day are a row of bytes, one for each unit. Those in phase are a slice of it, which is the same
for all days on which the phase falls alike.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from math import gcd

from dateutil.rrule import DAILY

from redisbeater.schedules.budget import Steps
from redisbeater.schedules.rrule.clock import DAY_SECONDS, second_of
from redisbeater.schedules.rrule.matching_days import DayFilter, matching_days
from redisbeater.schedules.rrule.period import indices_at
from redisbeater.schedules.rrule.rule import RecurrenceRule
from redisbeater.schedules.rrule.time_of_day import CLOCK_SECONDS, clock_numbers, seconds_of, unit_seconds

__all__ = ("MonthOfUnits", "Units")

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
