"""The next run of an entry that a change of the clocks moves or repeats."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo

from redisbeater.context import Context
from redisbeater.editing.upcoming import UpcomingRun
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules import Timetable
from redisbeater.schedules.budget import StepsExhausted
from redisbeater.schedules.description import clock_change_note

__all__ = ("next_clock_change",)

#: Zones change their clocks twice a year, if at all.
SEARCHED_DAYS = 366

#: Clocks change by less than this.
_AROUND = timedelta(hours=3)

#: An entry that fires so often around a change is not worth a note.
MOST_FIRE_TIMES = 30


def next_clock_change(entry: RedisScheduleEntry) -> UpcomingRun | None:
    """Return the first run within a year that a change of the clocks moves, or that falls into a repeated hour.

    An interval counts elapsed time, and has none. Asks Redis for the time, writes nothing.
    """
    context, definition = Context.of(entry.app), entry.definition()
    now, stored_zone = context.redis.clock()
    timetable = definition.timetable(context.in_zone(stored_zone).zone)
    if definition.is_interval or not definition.enabled:
        return None
    with suppress(OverflowError, StepsExhausted, InvalidEntry):
        for change in _changes(timetable.local_zone, now):
            if found := _affected(timetable, max(change - _AROUND, now), change + _AROUND):
                return found
    return None


def _changes(zone: tzinfo, now: datetime) -> list[datetime]:
    """Return the full hours after which the offset of a zone is another one."""
    day, hour = timedelta(days=1), timedelta(hours=1)
    days = (now + number * day for number in range(SEARCHED_DAYS))
    changing = [start for start in days if _offset(start, zone) != _offset(start + day, zone)]
    hours = (start + number * hour for start in changing for number in range(24))
    return [start for start in hours if _offset(start, zone) != _offset(start + hour, zone)]


def _offset(moment: datetime, zone: tzinfo) -> timedelta | None:
    return moment.astimezone(zone).utcoffset()


def _affected(timetable: Timetable, start: datetime, end: datetime) -> UpcomingRun | None:
    fire_time, zone = timetable.next(start), timetable.local_zone
    for _ in range(MOST_FIRE_TIMES):
        if fire_time is None or fire_time > end:
            return None
        if note := clock_change_note(timetable.schedule, zone, fire_time):
            instant = fire_time.astimezone(timezone.utc)
            return UpcomingRun(fire_time=instant, local=fire_time.astimezone(zone), due_at=instant, note=note)
        fire_time = timetable.next(fire_time)
    return None
