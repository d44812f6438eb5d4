"""How many fire times the rules of a recurrence have between two instants, by periods instead of one by one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from redisbeater.schedules.budget import Steps
from redisbeater.schedules.local_time import Shift, offset_during, shifts_between
from redisbeater.schedules.rrule.clock import second_of
from redisbeater.schedules.rrule.recurrence import Recurrence

__all__ = ("count_of_rules",)

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
