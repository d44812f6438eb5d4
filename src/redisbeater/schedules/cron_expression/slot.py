"""The slots of a cron expression, found by arithmetic over its fields."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date, timedelta

from redisbeater.schedules.cron_expression.fields import Fields
from redisbeater.schedules.crontab.slot import Slots

__all__ = ("ExpressionSlots",)


class ExpressionSlots(Slots):
    """The slots of a cron expression, to the second.

    Attributes:
        fields: its fields as numbers and rules.
    """

    __slots__ = ("_days", "fields")

    unit = timedelta(seconds=1)

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        #: The matching days of a month by its length and first weekday; there are at most 28.
        self._days: dict[tuple[int, int], list[int]] = {}

    @property
    def is_repeating(self) -> bool:
        """Whether a field of the time has ``*`` or a step, or the hours are all 24."""
        return self.fields.is_repeating

    def is_matching_day(self, day: date) -> bool:
        """Tell whether the day fields allow a date."""
        return day.month in self.fields.months and day.day in self._days_of(day.year, day.month)

    def matching_days(self, first: date, last: date) -> Iterator[date]:
        """Yield the dates from ``first`` to ``last``, both included, that the day fields allow."""
        for year, month in self._months(first, last):
            for number in self._days_of(year, month):
                day = date(year, month, number)
                if first <= day <= last:
                    yield day

    def count_days(self, first: date, last: date) -> int:
        """Count the dates from ``first`` to ``last``, both included, that the day fields allow, by months."""
        if last < first:
            return 0
        return sum(self._count_in_month(month, first, last) for month in self._months(first, last))

    def time_from(self, least: int) -> int | None:
        """Return the first second of a day, ``least`` or later, that the fields of the time allow."""
        fields = self.fields
        minute, second = divmod(least, 60)
        hour, minute = divmod(minute, 60)
        if hour in fields.hours:
            if minute in fields.minutes and (later := _at_least(fields.seconds, second)) is not None:
                return _time(hour, minute, later)
            if (later := _at_least(fields.minutes, minute + 1)) is not None:
                return _time(hour, later, fields.seconds[0])
        later = _at_least(fields.hours, hour + 1)
        return None if later is None else _time(later, fields.minutes[0], fields.seconds[0])

    def count_times(self, before: int) -> int:
        """Count the seconds of a day that the fields of the time allow, before one of them."""
        fields = self.fields
        minute, second = divmod(before, 60)
        hour, minute = divmod(minute, 60)
        counted = bisect_left(fields.hours, hour) * len(fields.minutes) * len(fields.seconds)
        if hour in fields.hours:
            counted += bisect_left(fields.minutes, minute) * len(fields.seconds)
            counted += bisect_left(fields.seconds, second) if minute in fields.minutes else 0
        return counted

    @property
    def last_time(self) -> int:
        """The last second of a day that the fields of the time allow."""
        return _time(self.fields.hours[-1], self.fields.minutes[-1], self.fields.seconds[-1])

    def _months(self, first: date, last: date) -> Iterator[tuple[int, int]]:
        """Yield the months that the expression allows, from that of one date to that of another."""
        for year in range(first.year, last.year + 1):
            for month in self.fields.months:
                if (first.year, first.month) <= (year, month) <= (last.year, last.month):
                    yield year, month

    def _count_in_month(self, month: tuple[int, int], first: date, last: date) -> int:
        days = self._days_of(*month)
        low = first.day if month == (first.year, first.month) else 1
        high = last.day if month == (last.year, last.month) else 31
        return bisect_left(days, high + 1) - bisect_left(days, low)

    def _days_of(self, year: int, month: int) -> list[int]:
        begin = date(year, month, 1)
        length = 31 if month == 12 else (date(year, month + 1, 1) - begin).days
        key = (length, begin.isoweekday() % 7)
        if key not in self._days:
            self._days[key] = self.fields.days_of(*key)
        return self._days[key]


def _at_least(numbers: tuple[int, ...], least: int) -> int | None:
    index = bisect_left(numbers, least)
    return numbers[index] if index < len(numbers) else None


def _time(hour: int, minute: int, second: int) -> int:
    return (hour * 60 + minute) * 60 + second
