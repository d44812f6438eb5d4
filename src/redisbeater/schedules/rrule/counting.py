"""How many fire times the rules of a recurrence have between two instants, by periods instead of one by one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo

from redisbeater.schedules.budget import Steps
from redisbeater.schedules.local_time import Shift, offset_during, shifts_between, to_utc
from redisbeater.schedules.rrule.recurrence import Recurrence

__all__ = ("count_of_rules",)

_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)

#: What it takes to look for a shift on one day.
_DAY_STEPS = 3


def count_of_rules(
    recurrence: Recurrence, zone: tzinfo, first: datetime, last: datetime, steps: Steps
) -> Iterator[int]:
    """Yield numbers whose sum is that of the fire times of the rules between two instants, both included.

    While the offset is steady, a fire time is an occurrence minus the offset. Repeated times count the first time. An
    occurrence in a gap fires later, maybe with another one. When the steps are exhausted before the end, the sum is
    too small, never too large.
    """
    start, offset = first, offset_during(first, zone)
    gaps = []
    # A shift just before may have left a gap or repeated times.
    for shift in () if zone.utcoffset(None) is not None else shifts_between(first - _DAY, last, zone):
        steps.take(max((shift.at - start).days, 0) * _DAY_STEPS)
        yield from recurrence.count(_local(start, shift.before), shift.from_local, steps)
        if shift.after > shift.before:
            gaps.append(shift)
        start, offset = max(first, shift.at + max(shift.before - shift.after, timedelta())), shift.after
    yield from recurrence.count(_local(start, offset), _local(last + _MICROSECOND, offset), steps)
    for gap in gaps:
        yield sum(first <= instant <= last for instant in _only_in_gap(recurrence, zone, gap, steps))


def _only_in_gap(recurrence: Recurrence, zone: tzinfo, gap: Shift, steps: Steps) -> Iterator[datetime]:
    """Yield the fire times of occurrences in a gap at which no other occurrence fires."""
    skipped = list(recurrence.between(gap.from_local, gap.to_local, steps))
    if not skipped:
        return
    length = gap.after - gap.before
    shown = set(recurrence.between(gap.to_local, gap.to_local + length, steps))
    yield from (to_utc(local, zone) for local in skipped if local + length not in shown)


def _local(instant: datetime, offset: timedelta) -> datetime:
    return (instant + offset).replace(tzinfo=None)
