"""The occurrences of rules whose frequency is a day, an hour, a minute or a second.

Such a rule proceeds in steps of one length, numbered from the first day of the calendar, and arithmetic finds those
that are in phase. An occurrence lies in a step that is in phase, on a day that matches, at an allowed time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, date, datetime, timedelta

from dateutil.rrule import DAILY

from redisbeater.schedules.rrule.matching_days import DayFilter, matching_days
from redisbeater.schedules.rrule.period import indices_at
from redisbeater.schedules.rrule.rule import RecurrenceRule
from redisbeater.schedules.rrule.time_of_day import (
    CLOCK_SECONDS,
    DAY_SECONDS,
    at_second,
    clock_numbers,
    seconds_of,
    unit_seconds,
)

__all__ = ("StepsOfMonth", "by_steps")

#: Every rule ends here, because in UTC a later local time may not fit into a datetime.
_END = date(MAXYEAR, 1, 1).toordinal()

#: The allowed numbers of an hour, minute or second, and how many steps each one lasts.
_Digit = tuple[Sequence[int], int]


def by_steps(rule: RecurrenceRule, begin: datetime) -> Iterator[StepsOfMonth]:
    """Yield the occurrences of a pinned rule from a local time on by months, without months that it steps over."""
    steps = _Steps.of(rule)
    first = _step_of(begin, steps.unit)
    while steps.within:
        day = steps.in_phase(first) // steps.per_day
        if day >= _END:
            return
        month = date.fromordinal(day).replace(day=1)
        yield StepsOfMonth(steps, month, first)
        first = (month + timedelta(days=31)).replace(day=1).toordinal() * steps.per_day


@dataclass(frozen=True, kw_only=True)
class _Steps:
    """What selects the steps of a rule, and the seconds within a step that are occurrences."""

    start: int
    interval: int
    unit: int
    days: DayFilter
    digits: Sequence[_Digit]
    within: Sequence[int]
    #: The number of steps of a day by its phase at midnight, counted once: many days share a few phases.
    counts: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, rule: RecurrenceRule) -> _Steps:
        unit, numbers, finer = unit_seconds(rule), clock_numbers(rule), rule.freq - DAILY
        digits = [(allowed, size // unit) for allowed, size in zip(numbers[:finer], CLOCK_SECONDS)]
        while digits and isinstance(digits[-1][0], range):  # all numbers are allowed: no need to check them
            digits.pop()
        seconds = seconds_of(numbers[finer:], CLOCK_SECONDS[finer:])
        return cls(
            start=_step_of(rule.start, unit),
            interval=rule.interval,
            unit=unit,
            days=DayFilter.of(rule),
            digits=digits,
            within=[seconds[index] for index in indices_at(rule.bysetpos, len(seconds))],
        )

    @property
    def per_day(self) -> int:
        return DAY_SECONDS // self.unit

    def in_phase(self, number: int) -> int:
        """Return the first step in phase that is not before the given one."""
        return self.start - (self.start - number) // self.interval * self.interval


@dataclass(frozen=True)
class StepsOfMonth:
    """The occurrences of a month in steps from ``first`` on."""

    steps: _Steps
    month: date
    first: int

    def __len__(self) -> int:
        return sum(map(self._count, self._days())) * len(self.steps.within)

    def __getitem__(self, index: int) -> datetime:
        step, second = divmod(index, len(self.steps.within))
        for day in self._days():
            if step < self._count(day):
                return self._at(day, _nth(self._blocks(day), step), self.steps.within[second])
            step -= self._count(day)
        raise IndexError(index)

    def since(self, local: datetime) -> Iterator[datetime]:
        """Yield the occurrences that are not before a local time."""
        return (occurrence for occurrence in self._all() if occurrence >= local)

    def _all(self) -> Iterator[datetime]:
        for day in self._days():
            if self.steps.counts.get(self._phase(day)) == 0:
                continue
            found = False
            for block in self._blocks(day):
                found = True
                yield from (self._at(day, number, second) for number in block for second in self.steps.within)
            if not found and self._is_whole(day):
                self.steps.counts[self._phase(day)] = 0

    def _days(self) -> Sequence[int]:
        return matching_days(self.steps.days, self.month.year, self.month.month)

    def _count(self, day: int) -> int:
        counts, phase = self.steps.counts, self._phase(day)
        if not self._is_whole(day):
            return sum(map(len, self._blocks(day)))
        if phase not in counts:
            counts[phase] = sum(map(len, self._blocks(day)))
        return counts[phase]

    def _phase(self, day: int) -> int:
        return day * self.steps.per_day % self.steps.interval

    def _is_whole(self, day: int) -> bool:
        return self.first <= day * self.steps.per_day

    def _blocks(self, day: int) -> Iterator[range]:
        """Yield the allowed steps of a day, counted from its midnight, as ranges."""
        midnight = day * self.steps.per_day
        begin = self.steps.in_phase(max(self.first, midnight)) - midnight
        return _allowed(range(begin, self.steps.per_day, self.steps.interval), self.steps.digits, 0)

    def _at(self, day: int, number: int, second: int) -> datetime:
        return at_second(day, number * self.steps.unit + second)


def _step_of(local: datetime, unit: int) -> int:
    """Return the number of the step in which a local time lies."""
    second = local.hour * 3600 + local.minute * 60 + local.second
    return (local.toordinal() * DAY_SECONDS + second) // unit


def _allowed(numbers: range, digits: Sequence[_Digit], begin: int) -> Iterator[range]:
    """Yield the numbers that the digits allow, as ranges: by hours, within these by minutes, then by seconds."""
    if not digits:
        yield from [numbers] if numbers else []
        return
    (allowed, size), *finer = digits
    for digit in allowed[bisect_left(allowed, (numbers.start - begin) // size) :]:
        block = begin + digit * size
        inside = numbers[bisect_left(numbers, block) : bisect_left(numbers, block + size)]
        if inside:
            yield from _allowed(inside, finer, block)


def _nth(blocks: Iterator[range], index: int) -> int:
    for block in blocks:
        if index < len(block):
            return block[index]
        index -= len(block)
    raise IndexError(index)
