"""The occurrences of a recurrence rule, and of a recurrence with its additional and excluded dates.

dateutil steps through all occurrences since the start and, if there are no more, through all periods until the year
9999. So it only finds the days of one year or one month at a time, and arithmetic selects the periods. Local times
are numbered seconds here.

The rules are evaluated in local times, as numbered seconds; additional and excluded dates are instants.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import MAXYEAR, datetime, timedelta, timezone
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

from dateutil.rrule import DAILY, WEEKLY

from redisbeater.schedules.budget import Steps, StepsExhausted
from redisbeater.schedules.english import every
from redisbeater.schedules.rrule.periods import END_OF_CALENDAR, periods_of
from redisbeater.schedules.rrule.rule import (
    BY_PARTS,
    NONE,
    RecurrenceRule,
    RuleClock,
    local_at,
    second_of,
    unit_seconds,
)
from redisbeater.schedules.zones import Shift, offset_during, shifts_between, to_utc

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
    last, known = _end(rule, steps)
    begin, end = max(second, second_of(rule.start)), min(last, limit - 1)
    if begin > end:
        return
    periods, idle, cut = periods_of(rule.pinned, steps), 0, rule.cut
    for period in periods.forwards(begin, end):
        idle += 1
        for occurrence in period.since(begin):
            if occurrence > end:
                return
            if occurrence > known:
                raise StepsExhausted
            idle = 0
            if occurrence not in cut:
                yield occurrence
        if idle > _MAX_IDLE_YEARS * periods.per_year:
            return


def occurrences_before(rule: RecurrenceRule, second: int, earliest: int, steps: Steps) -> Iterator[int]:
    """Yield the occurrences of a rule before a second and back to the earliest, the newest first."""
    start, limit = max(second_of(rule.start), earliest), _limited(rule, second, steps)
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
    periods, start = periods_of(rule.pinned, steps), second_of(rule.start)
    for second in seconds:
        steps.take(_TEST_STEPS)
        is_open = start <= second < _limited(rule, second + 1, steps) and second not in rule.cut
        found = (period.since(second) for period in periods.forwards(second, second) if is_open)
        if next(chain.from_iterable(found), None) != second:
            yield second


def count_occurrences(rule: RecurrenceRule, first: int, limit: int, steps: Steps) -> Iterator[int]:
    """Yield the numbers of occurrences of a rule from a second on and before another one, by periods."""
    start, cut = second_of(rule.start), rule.cut
    first, limit = max(first, start), _limited(rule, limit, steps)
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


def _limited(rule: RecurrenceRule, limit: int, steps: Steps) -> int:
    """Return a limit, or the second after the last occurrence that COUNT and UNTIL allow, if that is earlier.

    Raises:
        StepsExhausted: how many occurrences there are up to the limit takes too many steps to count.
    """
    last, known = _end(rule, steps)
    if min(limit - 1, last) > known:
        raise StepsExhausted
    return min(limit, last + 1)


def _end(rule: RecurrenceRule, steps: Steps) -> tuple[int, int]:
    """Return the second of the last occurrence that COUNT and UNTIL allow, and up to which second COUNT is known."""
    end = END_OF_CALENDAR - 1 if rule.last is None else min(rule.last, END_OF_CALENDAR - 1)
    if rule.count is None:
        return end, END_OF_CALENDAR
    last, known, cost = _last_counted(rule)
    steps.take_once(rule, cost)
    return end if last is None else min(end, last), known


@lru_cache(maxsize=16_384)
def _last_counted(rule: RecurrenceRule) -> tuple[int | None, int, int]:
    """Return the last occurrence of a rule with a count, until when that is known, and the steps that this takes.

    The last occurrence is None if there are fewer, or if counting them takes too many steps: up to a second, usually
    more than a hundred years after the start, there are fewer than the count for certain, and that is all that a plan
    needs. It is remembered, because it can be slow; so are the steps, so that they do not depend on what is remembered.
    """
    count, start, steps = rule.count or 0, second_of(rule.start), Steps(_LAST_STEPS)
    if rule.is_fixed:
        return start + _length(rule) * (count - 1), END_OF_CALENDAR, 1
    if count > rule.pinned.most_per_day * 366 * _MAX_COUNTED_YEARS:
        return None, END_OF_CALENDAR, 1
    last, known = _nth_occurrence(rule, start, count, steps)
    return last, known, min(steps.taken, _LAST_STEPS)


def _nth_occurrence(rule: RecurrenceRule, start: int, count: int, steps: Steps) -> tuple[int | None, int]:
    """Return an occurrence by its number, None if it is not found, and up to which second there are fewer."""
    periods, idle, known = periods_of(rule.pinned, steps), 0, start
    forwards = periods.forwards(start, END_OF_CALENDAR - 1)
    try:
        for number, period in enumerate(islice(forwards, _MAX_COUNTED_YEARS * periods.per_year)):
            known = max(known, period.earliest - 1)
            count += period.rank(start) if number == 0 else 0
            length = len(period)
            if count <= length:
                return period[count - 1], END_OF_CALENDAR
            count -= length
            idle = 0 if length else idle + 1
            if idle > _MAX_IDLE_YEARS * periods.per_year:
                break
    except StepsExhausted:
        return None, known
    return None, END_OF_CALENDAR


def _length(rule: RecurrenceRule) -> int:
    """Return the seconds from one occurrence of a fixed rule to the next."""
    return (7 if rule.freq == WEEKLY else 1) * unit_seconds(rule) * rule.interval


#: Indexed by dateutil's number of the frequency.
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")


def check_possible(rules: Iterable[RecurrenceRule], label: Callable[[str], str] = str) -> None:
    """Refuse rules of which one has no occurrence, whatever its end is; they share the steps of one search.

    Raises:
        ValueError: the parts of a rule never match together; the message starts with their labels.
        StepsExhausted: finding the first occurrence takes too many steps.
    """
    steps = Steps()
    for rule in rules:
        if _misses_its_weekdays(rule):
            raise ValueError(_problem(rule, label))
        found, cost = first_occurrence(rule)
        steps.take(cost)
        if found is None:
            raise ValueError(_problem(rule, label))


def _misses_its_weekdays(rule: RecurrenceRule) -> bool:
    """Tell whether whole weeks lead from a start that is on none of the days of the week to none of them, ever."""
    if rule.freq != DAILY or rule.interval % 7 or rule.byweekday is None:
        return False
    return rule.start.weekday() not in {day.weekday for day in rule.byweekday}


def _problem(rule: RecurrenceRule, label: Callable[[str], str]) -> str:
    names = ", ".join(label(part) for part in BY_PARTS if getattr(rule, part) is not None)
    step = every(rule.interval, _UNITS[rule.freq])
    return (
        f"{names}: never match {step} from {rule.start}, at least not within 41 years; "
        f"change one of these, {label('interval')} or the start"
    )


#: What it takes to begin a search with one rule.
_RULE_STEPS = 100


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """Rules (RRULE), additional dates (RDATE), and instants that are excluded from both (EXDATE).

    The dates are naive local times; one in the second pass of a repeated hour has ``fold=1``.
    """

    clock: RuleClock
    rules: tuple[RecurrenceRule, ...] = ()
    rdates: tuple[datetime, ...] = ()
    exdates: frozenset[datetime] = frozenset()

    def since(self, second: int, steps: Steps, limit: int = END_OF_CALENDAR) -> Iterator[int]:
        """Yield the local times of the rules from one on and before another, each once and in order."""
        steps.take(_RULE_STEPS * len(self.rules))
        found = [occurrences_from(rule, second, steps, limit) for rule in self.rules]
        return self._included(found[0] if len(found) == 1 else heapq.merge(*found), steps)

    def before(self, second: int, earliest: int, steps: Steps) -> Iterator[int]:
        """Yield the local times of the rules before one, back to the earliest, each once, the newest first."""
        steps.take(_RULE_STEPS * len(self.rules))
        found = (occurrences_before(rule, second, earliest, steps) for rule in self.rules)
        return self._included(heapq.merge(*found, reverse=True), steps)

    def count(self, first: int, limit: int, steps: Steps) -> Iterator[int]:
        """Yield numbers whose sum is that of the rules' local times from one on and before another.

        When the steps are exhausted before the end, the sum is too small, never too large.
        """
        if len(self.rules) != 1:
            yield from (1 for _ in self.since(first, steps, limit))
            return
        [rule] = self.rules
        excluded = self._sorted_exclusions[
            bisect_left(self._sorted_exclusions, first) : bisect_left(self._sorted_exclusions, limit)
        ]
        yield -len(excluded)
        yield from count_occurrences(rule, first, limit, steps)
        yield from (1 for _ in without_occurrence(rule, excluded, steps))

    @cached_property
    def dates(self) -> dict[datetime, datetime]:
        """The instants of the additional dates that are not excluded, in order, with their local times."""
        instants = ((to_utc(local, self.clock.zone), local) for local in self.rdates)
        earliest = self.clock.starts_at
        return {at: local for at, local in sorted(instants) if at >= earliest and at not in self.exdates}

    @cached_property
    def instants(self) -> Sequence[datetime]:
        """The instants of the additional dates, in order."""
        return list(self.dates)

    @cached_property
    def _excluded(self) -> frozenset[int]:
        return frozenset(self.clock.seconds_at(self.exdates))

    @cached_property
    def _sorted_exclusions(self) -> Sequence[int]:
        return sorted(self._excluded)

    def _included(self, occurrences: Iterable[int], steps: Steps) -> Iterator[int]:
        """Yield the occurrences that are not excluded, each once."""
        latest, excluded = None, self._excluded
        for occurrence in occurrences:
            steps.take()
            if occurrence != latest and occurrence not in excluded:
                yield occurrence
            latest = occurrence


_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)

#: What it takes to look for a shift on one day.
_DAY_STEPS = 3


def count_of_rules(recurrence: Recurrence, first: datetime, last: datetime, steps: Steps) -> Iterator[int]:
    """Yield numbers whose sum is that of the fire times of the rules between two instants, both included.

    While the offset is steady, a fire time is a local time minus the offset. Repeated times count the first time. A
    local time in a gap fires later, maybe with another one. When the steps are exhausted before the end, the sum is
    too small, never too large.
    """
    clock, gaps = recurrence.clock, []
    first = max(first, clock.starts_at)
    start, offset = first, offset_during(first, clock.zone)
    # A shift just before may have left a gap or repeated times.
    for shift in () if clock.never_shifts else shifts_between(first - _DAY, last, clock.zone):
        steps.take(max((shift.at - start).days, 0) * _DAY_STEPS)
        yield from recurrence.count(_round_up(start, shift.before), second_of(shift.from_local), steps)
        if shift.after > shift.before:
            gaps.append(shift)
        start, offset = max(first, _resumed(recurrence, shift)), shift.after
    yield from recurrence.count(_round_up(start, offset), _round_up(last + _MICROSECOND, offset), steps)
    for gap in gaps:
        yield sum(first <= instant <= last for instant in _only_in_gap(recurrence, gap, steps))


def _resumed(recurrence: Recurrence, shift: Shift) -> datetime:
    """Return when local times fire again after a shift: at once, or after the repeated ones if they do not."""
    end = shift.at + max(shift.before - shift.after, timedelta())
    return shift.at if shift.at <= recurrence.clock.starts_at < end else end


def _only_in_gap(recurrence: Recurrence, gap: Shift, steps: Steps) -> Iterator[datetime]:
    """Yield the fire times of local times in a gap at which no other one fires."""
    begin, end = second_of(gap.from_local), second_of(gap.to_local)
    skipped = list(recurrence.since(begin, steps, end))
    if not skipped:
        return
    length = end - begin
    shown = set(recurrence.since(end, steps, end + length))
    yield from (recurrence.clock.instant(second) for second in skipped if second + length not in shown)


def _round_up(instant: datetime, offset: timedelta) -> int:
    local = instant + offset
    return second_of(local) + (local.microsecond > 0)


#: Further from a shift than this, local times follow each other like their instants.
_NEAR = timedelta(days=2)

#: Fire times are listed at once, instead of one by one, when they lie within as many days.
_LISTED_DAYS = 400

#: What it takes to find the next additional date.
_DATE_STEPS = 4

#: After this, no rule has local times, and an instant may have no local time in its zone.
_END = datetime(MAXYEAR, 1, 3, tzinfo=timezone.utc)


class Occurrence(NamedTuple):
    """A fire time, and the naive local time by which the recurrence has it."""

    instant: datetime
    local: datetime


def first_fire_time(recurrence: Recurrence, steps: Steps) -> datetime | None:
    """Return the first fire time of all; None when there is none."""
    found = following(recurrence, recurrence.clock.starts_at - _MICROSECOND, steps)
    return None if found is None else found.instant


def following(recurrence: Recurrence, after: datetime, steps: Steps) -> Occurrence | None:
    """Return the next occurrence after an instant; if two local times fire at once, the one that exists."""
    found = list(_of_rules(recurrence, after, steps)) if recurrence.rules and after < _END else []
    if recurrence.rdates:
        found += _of_dates(recurrence, after, steps)
    if len(found) == 1:
        return found[0]
    return min(found, key=lambda occurrence: (occurrence.instant, datetime.max - occurrence.local), default=None)


def reach_back(recurrence: Recurrence, number: int, until: datetime, since: datetime, steps: Steps) -> datetime:
    """Return an instant, not before ``since``, from which about ``number`` fire times lead up to ``until``."""
    clock, dates = recurrence.clock, recurrence.instants
    before = recurrence.before(clock.passed(until).last + 1, clock.passed(since).last, steps)
    found = [clock.instant(second) for second in islice(before, number - 1, number)]
    index = bisect_right(dates, until) - number
    return max([since, *found, *([dates[index]] if index >= 0 else [])])


def listed(recurrence: Recurrence, after: datetime, until: datetime, steps: Steps) -> list[datetime] | None:
    """Return the fire times after one instant and up to another, if the offset does not change near them."""
    zone = recurrence.clock.zone
    days = range(-_NEAR.days, (until - after).days + _NEAR.days + 1)
    if len(days) > _LISTED_DAYS:
        return None
    steps.take(len(days) * 2)
    offset = offset_during(after, zone)
    if any(offset_during(after + timedelta(days=day), zone) != offset for day in days):
        return None
    first, last = (second_of(moment + offset) for moment in (after, until))
    found = {
        (local_at(second) - offset).replace(tzinfo=timezone.utc)
        for second in recurrence.since(first + 1, steps, last + 1)
    }
    dates = recurrence.instants
    found.update(dates[bisect_right(dates, after) : bisect_right(dates, until)])
    steps.take(3 * len(found))
    return sorted(found)


def count_fire_times(recurrence: Recurrence, first: datetime, last: datetime, steps: Steps) -> Iterator[int]:
    """Yield numbers whose sum is that of the fire times between two instants, both included.

    When the steps are exhausted before the end, the sum is too small, never too large.
    """
    if recurrence.rules:
        yield from count_of_rules(recurrence, first, last, steps)
    dates = recurrence.instants
    for date in islice(dates, bisect_left(dates, first), bisect_right(dates, last)):
        steps.take(_DATE_STEPS)
        if not recurrence.rules or not _rules_fire_at(recurrence, date, steps):
            yield 1


def _rules_fire_at(recurrence: Recurrence, instant: datetime, steps: Steps) -> bool:
    seconds = recurrence.clock.seconds_at([instant])
    return any(second in recurrence.since(second, steps, second + 1) for second in seconds)


def _of_dates(recurrence: Recurrence, after: datetime, steps: Steps) -> Iterator[Occurrence]:
    """Yield the next additional date."""
    steps.take(_DATE_STEPS)
    for instant in islice(recurrence.instants, bisect_right(recurrence.instants, after), None):
        yield Occurrence(instant, recurrence.dates[instant].replace(fold=0))
        return


def _of_rules(recurrence: Recurrence, after: datetime, steps: Steps) -> Iterator[Occurrence]:
    """Yield candidates for the next occurrence of the rules; near a gap, more than one.

    Local times in a gap fire later than some that follow them. Among themselves they keep their order, and so do all
    others, so the first ones are enough.
    """
    passed, clock = recurrence.clock.passed(after), recurrence.clock
    seconds = [*islice(recurrence.since(passed.last + 1, steps), 1)]
    if passed.waiting:
        seconds += islice(recurrence.since(passed.waiting.start, steps, passed.waiting.stop), 1)
    elif seconds and (gap := clock.gap_of(seconds[0])):
        end = second_of(gap.to_local)
        seconds += islice(recurrence.since(end, steps, end + seconds[0] - second_of(gap.from_local) + 1), 1)
    for second in seconds:
        yield Occurrence(clock.instant(second), local_at(second))
