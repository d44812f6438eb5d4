"""The occurrences of a recurrence rule after a local time, found without stepping through all since its start.

dateutil steps through all occurrences since the start and, if there are no more, through all periods until the year
9999. So it only finds the days of one year or one month at a time, and arithmetic selects the periods.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from datetime import MAXYEAR, date, datetime, timedelta
from functools import lru_cache
from itertools import islice

from dateutil.rrule import MONTHLY, WEEKLY, YEARLY

from redisbeater.schedules.rrule.matching_days import DayFilter, matching_days
from redisbeater.schedules.rrule.period import DaysAtTimes, Period
from redisbeater.schedules.rrule.rule import RecurrenceRule
from redisbeater.schedules.rrule.steps import by_steps
from redisbeater.schedules.rrule.time_of_day import CLOCK_SECONDS, clock_numbers, seconds_of, unit_seconds

__all__ = ("occurrences_after",)

#: Two leap days of one weekday are at most 40 years apart; a rule without an occurrence for longer has ended.
_MAX_IDLE_YEARS = 41

#: How far occurrences are counted; a rule that has some left after that counts as endless.
_MAX_COUNTED_YEARS = 400


def occurrences_after(rule: RecurrenceRule, local: datetime) -> Iterator[datetime]:
    """Yield the occurrences of a rule that are later than a local time, in order."""
    end = _end(rule)
    if end is not None and local >= end:
        return
    for occurrence in _occurrences_from(rule, max(local, rule.start)):
        if end is not None and occurrence > end:
            return
        if occurrence > local:
            yield occurrence


def _end(rule: RecurrenceRule) -> datetime | None:
    last = None if rule.count is None else _last_counted(rule)
    return min((end for end in (last, rule.until) if end is not None), default=None)


@lru_cache(maxsize=16_384)
def _last_counted(rule: RecurrenceRule) -> datetime | None:
    """Return the last occurrence of a rule with a count, None if it has fewer; cached, because this can be slow."""
    count = rule.count or 0
    if not rule.is_fixed:
        return _nth_occurrence(rule, count)
    days = 7 if rule.freq == WEEKLY else 1
    try:
        return rule.start + timedelta(seconds=days * unit_seconds(rule)) * rule.interval * (count - 1)
    except OverflowError:
        return None


def _nth_occurrence(rule: RecurrenceRule, count: int) -> datetime | None:
    periods, per_year = _periods(rule)
    idle = 0
    for number, period in enumerate(islice(periods(rule.pinned, rule.start), _MAX_COUNTED_YEARS * per_year)):
        count += bisect_left(period, rule.start) if number == 0 else 0
        if count <= len(period):
            return period[count - 1]
        count -= len(period)
        idle = 0 if len(period) else idle + 1
        if idle > _MAX_IDLE_YEARS * per_year:
            return None
    return None


def _occurrences_from(rule: RecurrenceRule, begin: datetime) -> Iterator[datetime]:
    """Yield the occurrences from a local time on, ignoring ``count``, until there is none for too many years."""
    periods, per_year = _periods(rule)
    idle = 0
    for period in periods(rule.pinned, begin):
        idle += 1
        for occurrence in period.since(begin):
            idle = 0
            yield occurrence
        if idle > _MAX_IDLE_YEARS * per_year:
            return


def _periods(rule: RecurrenceRule) -> tuple[Callable[[RecurrenceRule, datetime], Iterator[Period]], int]:
    """Return a function that yields the periods from a local time on, and how many of them a year has at most."""
    if rule.freq == YEARLY:
        return _by_year, 1
    if rule.freq == MONTHLY:
        return _by_month, 12
    if rule.freq == WEEKLY:
        return _by_week, 53
    return by_steps, 12


def _by_year(rule: RecurrenceRule, begin: datetime) -> Iterator[Period]:
    days, times = DayFilter.of(rule), _times(rule)
    for year in range(_in_phase(rule, rule.start.year, begin.year), MAXYEAR, rule.interval):
        yield DaysAtTimes(matching_days(days, year), times, rule.bysetpos)


def _by_month(rule: RecurrenceRule, begin: datetime) -> Iterator[Period]:
    days, times = DayFilter.of(rule), _times(rule)
    first = _in_phase(rule, _month_number(rule.start), _month_number(begin))
    for number in range(first, MAXYEAR * 12, rule.interval):
        yield DaysAtTimes(matching_days(days, number // 12, number % 12 + 1), times, rule.bysetpos)


def _by_week(rule: RecurrenceRule, begin: datetime) -> Iterator[Period]:
    days, times = DayFilter.of(rule), _times(rule)
    first = _in_phase(rule, _week_number(rule, rule.start), _week_number(rule, begin))
    for number in range(first, date(MAXYEAR, 1, 1).toordinal() // 7, rule.interval):
        first_day = number * 7 + 1 + rule.wkst
        # Like in dateutil, positions in the first week count from the start of the rule.
        week = range(max(first_day, rule.start.toordinal()), first_day + 7)
        yield DaysAtTimes(_matching_days_of_week(week, days), times, rule.bysetpos)


def _times(rule: RecurrenceRule) -> list[int]:
    return seconds_of(clock_numbers(rule), CLOCK_SECONDS)


def _month_number(local: datetime) -> int:
    return local.year * 12 + local.month - 1


def _week_number(rule: RecurrenceRule, local: datetime) -> int:
    return (local.toordinal() - 1 - rule.wkst) // 7


def _in_phase(rule: RecurrenceRule, start: int, number: int) -> int:
    """Return the number of the rule's last period that is not after the given number."""
    return start + (number - start) // rule.interval * rule.interval


def _matching_days_of_week(week: range, days: DayFilter) -> list[int]:
    months = sorted({(day.year, day.month) for day in map(date.fromordinal, (week[0], week[-1]))})
    return [day for month in months for day in matching_days(days, *month) if day in week]
