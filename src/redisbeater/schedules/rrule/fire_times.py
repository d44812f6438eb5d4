"""The fire times of a recurrence: the instants of its local times and of its additional dates."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import MAXYEAR, datetime, timedelta, timezone
from itertools import islice
from typing import NamedTuple

from redisbeater.schedules.budget import Steps
from redisbeater.schedules.local_time import offset_during
from redisbeater.schedules.rrule.clock import local_at, second_of
from redisbeater.schedules.rrule.counting import count_of_rules
from redisbeater.schedules.rrule.recurrence import Recurrence

__all__ = ("Occurrence", "count_between", "first_fire_time", "following", "listed", "reach_back")

#: Further from a shift than this, local times follow each other like their instants.
_NEAR = timedelta(days=2)

#: Fire times are listed at once, instead of one by one, when they lie within as many days.
_LISTED_DAYS = 400

#: What it takes to find the next additional date.
_DATE_STEPS = 4

#: After this, no rule has local times, and an instant may have no local time in its zone.
_END = datetime(MAXYEAR, 1, 3, tzinfo=timezone.utc)

_MICROSECOND = timedelta(microseconds=1)


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


def count_between(recurrence: Recurrence, first: datetime, last: datetime, steps: Steps) -> Iterator[int]:
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
