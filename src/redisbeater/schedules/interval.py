"""The fire times of an interval, Celery's ``schedule``.

It counts from its last fire time, and so its fire times lie on a grid; all but a *relative* one, which fires when the
local clock shows a whole second, minute, hour or day: the largest of these units that the interval holds.

Relative intervals are aligned as by Celery 5.7, whichever version runs: days are those of the calendar, shorter ones
are elapsed time. Of a unit that the clock shows twice both count; one that it skips counts as much later as the clock
was put forward.
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

from celery.schedules import BaseSchedule, schedule

from redisbeater.schedules.local_time import to_utc

__all__ = ("count", "counts_from_last", "every", "latest", "next_fire_time")

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


def next_fire_time(interval: schedule, zone: tzinfo, after: datetime) -> datetime:
    """The first fire time after one, aware UTC; a relative interval is aligned to the clock of the zone."""
    period = every(interval)
    if counts_from_last(interval):
        return after + period
    return _next_midnight(period, zone, after) if period >= _DAY else _next_whole_unit(period, zone, after)


def every(interval: schedule) -> timedelta:
    """The time from one fire time to the next, of which ``run_every`` may be the seconds."""
    period = interval.run_every
    return period if isinstance(period, timedelta) else timedelta(seconds=period)


def counts_from_last(schedule_: BaseSchedule) -> bool:
    """Whether a schedule is an interval that counts from its last fire time, so that its fire times lie on a grid.

    A relative one below a second does: Celery aligns it to nothing, and its rule would never advance.
    """
    return type(schedule_) is schedule and (not schedule_.relative or every(schedule_) < _SECOND)


def latest(interval: schedule, fire_time: datetime, until: datetime) -> datetime:
    """The newest fire time up to an instant, of an interval that counts from a fire time not after that instant."""
    return fire_time + (until - fire_time) // every(interval) * every(interval)


def count(interval: schedule, first: datetime, last: datetime) -> int:
    """How many fire times there are from one up to an instant, both included, of an interval that counts from it."""
    return max((last - first) // every(interval) + 1, 0)


def _next_midnight(period: timedelta, zone: tzinfo, after: datetime) -> datetime:
    """When the date begins that the calendar shows so many days on."""
    target = after.astimezone(zone).replace(tzinfo=None) + period
    midnight = target.replace(hour=0, minute=0, second=0, microsecond=0)
    return min((instant for instant in _shown(midnight, zone) if instant > after), default=to_utc(target, zone))


def _next_whole_unit(period: timedelta, zone: tzinfo, after: datetime) -> datetime:
    """The last time up to one interval from here that the clock shows a whole unit."""
    end = after + period
    local = end.astimezone(zone).replace(tzinfo=None)
    instants = _shown(_round_down(local, period), zone)
    newest = max((instant for instant in instants if instant <= end), default=min(instants))
    return newest if newest > after else _next_after_put_back(period, zone, after)


def _next_after_put_back(period: timedelta, zone: tzinfo, after: datetime) -> datetime:
    """The same where the clock, put back by less than a unit, shows none between here and there."""
    end = after + period
    unit = _HOUR if period >= _HOUR else _MINUTE
    reached = end.astimezone(zone).replace(tzinfo=None)
    aimed_at = after.astimezone(zone).replace(tzinfo=None) + period
    candidates = [
        instant
        for local in (reached, reached + unit, aimed_at)
        for instant in _shown(_round_down(local, period), zone)
        if instant > after
    ]
    return max((instant for instant in candidates if instant <= end), default=min(candidates, default=end))


def _round_down(local: datetime, period: timedelta) -> datetime:
    if period >= _HOUR:
        return local.replace(minute=0, second=0, microsecond=0)
    return local.replace(second=0, microsecond=0) if period >= _MINUTE else local.replace(microsecond=0)


def _shown(local: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """When the clock shows a local time, first and last; one in a gap by the offset before it."""
    first, second = (to_utc(local.replace(fold=fold), zone) for fold in (0, 1))
    return first, max(first, second)
