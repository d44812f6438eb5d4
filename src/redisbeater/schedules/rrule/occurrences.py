"""The occurrences of a recurrence rule from any local time, found without stepping through all since its start.

dateutil steps through all occurrences since the start and, if there are no more, through all periods until the year
9999. So it only finds the days of one year or one month at a time, and arithmetic selects the periods. Local times
are numbered seconds here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from dateutil.rrule import WEEKLY

from redisbeater.schedules.budget import Steps, StepsExhausted
from redisbeater.schedules.rrule.clock import NONE, second_of
from redisbeater.schedules.rrule.periods import END_OF_CALENDAR, periods_of
from redisbeater.schedules.rrule.rule import RecurrenceRule
from redisbeater.schedules.rrule.time_of_day import unit_seconds

__all__ = ("count_between", "first_occurrence", "occurrences_before", "occurrences_from", "without_occurrence")

#: Two leap days of one weekday are at most 40 years apart; a rule without an occurrence for longer has ended.
_MAX_IDLE_YEARS = 41

#: How far occurrences are counted; a rule that has some left after that counts as endless.
_MAX_COUNTED_YEARS = 400

#: What it takes to test one second.
_TEST_STEPS = 40

#: What counting the occurrences of a rule up to its COUNT may cost: it is remembered, but only while beat runs.
_LAST_STEPS = 40_000

#: What finding the first occurrence of a rule may cost when the rule is created: it is remembered, too.
_FIRST_STEPS = 40_000


def occurrences_from(rule: RecurrenceRule, second: int, steps: Steps, limit: int = END_OF_CALENDAR) -> Iterator[int]:
    """Yield the occurrences of a rule from a second on and before another one, in order."""
    begin, end = max(second, second_of(rule.start)), min(_end(rule, steps), limit - 1)
    if begin > end:
        return
    periods, idle, cut = periods_of(rule.pinned, steps), 0, rule.cut
    for period in periods.forwards(begin, end):
        idle += 1
        for occurrence in period.since(begin):
            if occurrence > end:
                return
            idle = 0
            if occurrence not in cut:
                yield occurrence
        if idle > _MAX_IDLE_YEARS * periods.per_year:
            return


def occurrences_before(rule: RecurrenceRule, second: int, earliest: int, steps: Steps) -> Iterator[int]:
    """Yield the occurrences of a rule before a second and back to the earliest, the newest first."""
    start, limit = max(second_of(rule.start), earliest), min(second, _end(rule, steps) + 1)
    if limit <= start:
        return
    for period in periods_of(rule.pinned, steps).backwards(limit - 1, start):
        for occurrence in period.before(limit):
            if occurrence < start:
                return
            if occurrence not in rule.cut:
                yield occurrence


def without_occurrence(rule: RecurrenceRule, seconds: Iterable[int], steps: Steps) -> Iterator[int]:
    """Yield those of the seconds at which a rule has no occurrence."""
    periods, start, end = periods_of(rule.pinned, steps), second_of(rule.start), _end(rule, steps)
    for second in seconds:
        steps.take(_TEST_STEPS)
        is_open = start <= second <= end and second not in rule.cut
        found = (period.since(second) for period in periods.forwards(second, second) if is_open)
        if next(chain.from_iterable(found), None) != second:
            yield second


def count_between(rule: RecurrenceRule, first: int, limit: int, steps: Steps) -> Iterator[int]:
    """Yield the numbers of occurrences of a rule from a second on and before another one, by periods."""
    start, cut = second_of(rule.start), rule.cut
    first, limit = max(first, start), min(limit, _end(rule, steps) + 1)
    if cut:
        yield -sum(_count(rule, max(first, cut.start), min(limit, cut.stop), steps))
    yield from _count(rule, first, limit, steps)


def first_occurrence(rule: RecurrenceRule) -> tuple[int | None, int]:
    """Return the first occurrence of a rule, None if it has none within 41 years, and the steps that this takes.

    Raises:
        StepsExhausted: finding it takes too many steps.
    """
    found, cost = _first_remembered(replace(rule, count=None, until=None, last=None, cut=NONE))
    if found is StepsExhausted:
        raise StepsExhausted
    return found, cost


@lru_cache(maxsize=16_384)
def _first_remembered(rule: RecurrenceRule) -> tuple[Any, int]:
    """Return the first occurrence of an endless rule and its steps; the error as well is remembered."""
    steps = Steps(_FIRST_STEPS)
    try:
        return next(occurrences_from(rule, second_of(rule.start), steps), None), steps.taken
    except StepsExhausted as exc:
        return type(exc), steps.taken


def _count(rule: RecurrenceRule, first: int, limit: int, steps: Steps) -> Iterator[int]:
    if limit <= first:
        return
    if rule.is_fixed:
        start, length = second_of(rule.start), _length(rule)
        yield -(-(limit - start) // length) - -(-(first - start) // length)
        return
    for number, period in enumerate(periods_of(rule.pinned, steps).forwards(first, limit)):
        yield period.rank(limit) - (period.rank(first) if number == 0 else 0)


def _end(rule: RecurrenceRule, steps: Steps) -> int:
    """Return the second of the last occurrence that COUNT and UNTIL allow."""
    end = END_OF_CALENDAR - 1 if rule.last is None else min(rule.last, END_OF_CALENDAR - 1)
    if rule.count is None:
        return end
    last, cost = _last_counted(rule)
    steps.take_once(rule, cost)
    return end if last is None else min(end, last)


@lru_cache(maxsize=16_384)
def _last_counted(rule: RecurrenceRule) -> tuple[int | None, int]:
    """Return the last occurrence of a rule with a count, None if it has fewer, and the steps that this takes.

    It is remembered, because it can be slow; so are the steps, so that they do not depend on what is remembered.
    """
    count, start, steps = rule.count or 0, second_of(rule.start), Steps(_LAST_STEPS)
    if rule.is_fixed:
        return start + _length(rule) * (count - 1), 1
    if count > rule.pinned.most_per_day * 366 * _MAX_COUNTED_YEARS:
        return None, 1
    try:
        return _nth_occurrence(rule, start, count, steps), steps.taken
    except StepsExhausted:
        return None, steps.taken * 1000


def _nth_occurrence(rule: RecurrenceRule, start: int, count: int, steps: Steps) -> int | None:
    periods, idle = periods_of(rule.pinned, steps), 0
    forwards = periods.forwards(start, END_OF_CALENDAR - 1)
    for number, period in enumerate(islice(forwards, _MAX_COUNTED_YEARS * periods.per_year)):
        count += period.rank(start) if number == 0 else 0
        length = len(period)
        if count <= length:
            return period[count - 1]
        count -= length
        idle = 0 if length else idle + 1
        if idle > _MAX_IDLE_YEARS * periods.per_year:
            return None
    return None


def _length(rule: RecurrenceRule) -> int:
    """Return the seconds from one occurrence of a fixed rule to the next."""
    return (7 if rule.freq == WEEKLY else 1) * unit_seconds(rule) * rule.interval
